"""The plug-in for SGLang, through its entry point ``sglang.srt.plugins``.

SGLang loads it in every process. It does nothing unless ``FUSEWRIGHT_SGLANG`` names doors:

* ``pass``: a pass in SGLang's pass manager, where Inductor compiles pieces
* ``kernels``: the backend ``plugin`` of SGLang's fused ops, made from their own reference forms

Experimental, and not run inside SGLang: see :mod:`fusewright.engines`.
"""

from __future__ import annotations

from ._doors import hook, open_doors


def register() -> None:
    """What SGLang calls; any number of times."""
    open_doors("sglang", {"pass": hook("sglang", "add_pass"), "kernels": hook("sglang", "add_kernels")})
