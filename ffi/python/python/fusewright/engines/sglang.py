"""The plug-in for SGLang, through its entry point ``sglang.srt.plugins``.

SGLang loads it in every process. It does nothing unless ``FUSEWRIGHT_SGLANG`` names doors:

* ``pass``: a pass in SGLang's pass manager, where Inductor compiles pieces
* ``kernels``: the backend ``plugin`` of SGLang's fused ops, made from their own reference forms

Not run inside SGLang: see :mod:`fusewright.engines`.
"""

from __future__ import annotations

from ._doors import open_doors


def register() -> None:
    """What SGLang calls; any number of times."""
    open_doors("sglang", {"pass": _pass, "kernels": _kernels})


def _pass() -> None:
    from ._sglang_hooks import add_pass

    add_pass()


def _kernels() -> None:
    from ._sglang_hooks import add_kernels

    add_kernels()
