"""A compiled function as ``torch.compile(…).aot_compile()`` writes it and a later process reads it."""

from __future__ import annotations

import pickle
from typing import Any

from torch._dynamo.aot_compile_types import BundledAOTAutogradSerializableCallable

from ._native import Error
from ._options import of_environment
from ._sources import sources


class Compilation(BundledAOTAutogradSerializableCallable):
    """The form that PyTorch gives to compiled functions, with what vLLM asks of those that it reads."""

    #: PyTorch would put what has this into its own form once more.
    serialize = None

    def __init__(self, compiled: Any, made_by: str | None = None) -> None:
        super().__init__(compiled)
        self.made_by = made_by or _maker()

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        """Writes a function."""
        return pickle.dumps((fn.made_by, super().serialize_compile_artifacts(fn)))

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Any:
        """Reads a function that was written."""
        made_by, own = pickle.loads(data)
        return cls(super().deserialize_compile_artifacts(own).compiled_fn, made_by)

    def finalize_loading(self, *_: Any) -> None:
        """Refuses what another version of this package made, or what other variables chose the options of.

        vLLM asks it of all that it reads, since its keys know nothing of backends. It compiles anew what is refused, and
        what has no such function.
        """
        if self.made_by != _maker():
            raise Error("another version or setting of fusewright compiled it")


def _maker() -> str:
    return f"{sources()} {of_environment()}"
