"""A compiled function as ``torch.compile(…).aot_compile()`` writes it and a later process reads it."""

from __future__ import annotations

from typing import Any

from torch._dynamo.aot_compile_types import BundledAOTAutogradSerializableCallable


class Compilation(BundledAOTAutogradSerializableCallable):
    """The form that PyTorch gives to compiled functions, with what vLLM asks of those that it reads."""

    #: PyTorch would put what has this into its own form once more.
    serialize = None

    def finalize_loading(self, *_: Any) -> None:
        """Nothing: what was read runs. vLLM calls this by name, and compiles anew where a backend's form lacks it."""
