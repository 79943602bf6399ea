"""Fusewright: the memory-bound parts of PyTorch models as generated, fused kernels.

``torch.compile(model, backend="fusewright")`` is the short way; :func:`fuse` makes one function of a few ops fast in eager
code, and :func:`inductor_pass` gives the kernels to Inductor. :func:`load` runs an exported model without torch. Importing
this package imports no torch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._native import (
    CallError,
    CompileError,
    DeviceError,
    Error,
    UnavailableError,
)
from ._native import (
    version as _version,
)

if TYPE_CHECKING:
    from ._arrays import TensorSpec
    from ._backend import backend
    from ._check import Checker, PartCheck, check
    from ._eager import fuse
    from ._expect import ExpectationError
    from ._explain import Report, explain
    from ._inductor import inductor_pass
    from ._kernel import Kernel
    from ._program import Program, State, load
    from ._program_report import ProgramReport

__version__ = _version()

# Code that PyTorch keeps on disk calls this operator, maybe before anything else of this package is used.
if hasattr(sys.modules.get("torch"), "library"):
    from . import _operator as _operator

# Where known, the op and the line of the model that an error is about.
Error.op = Error.source = None

__all__ = [
    "CallError",
    "Checker",
    "CompileError",
    "DeviceError",
    "Error",
    "ExpectationError",
    "Kernel",
    "PartCheck",
    "Program",
    "ProgramReport",
    "Report",
    "State",
    "TensorSpec",
    "UnavailableError",
    "backend",
    "check",
    "counters",
    "explain",
    "fuse",
    "inductor_pass",
    "load",
]

# Where the names live that are imported when they are first used: those that need torch …
_OF_TORCH = {
    "Checker": "_check",
    "PartCheck": "_check",
    "Report": "_explain",
    "backend": "_backend",
    "check": "_check",
    "explain": "_explain",
    "fuse": "_eager",
    "inductor_pass": "_inductor",
}
# … and those that do not.
_LAZY = {
    **_OF_TORCH,
    "ExpectationError": "_expect",
    "Kernel": "_kernel",
    "Program": "_program",
    "ProgramReport": "_program_report",
    "State": "_program",
    "TensorSpec": "_arrays",
    "load": "_program",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(f".{module}", __name__), name)
    except ModuleNotFoundError as error:
        if name not in _OF_TORCH or str(error.name).partition(".")[0] not in ("torch", "functorch"):
            raise
        from ._torch import missing

        raise missing(f"fusewright.{name}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def counters() -> dict[str, int]:
    """Counts of this process so far.

    ``compiles`` and ``disk_hits`` are kernels that were compiled and that the cache on disk had; ``memory_hits`` are parts
    of graphs that equal one from before, which layers of a model do; ``calls`` are calls of fused parts, and ``launches``
    the kernels that those ran.
    """
    from . import _native, _store

    return {**_native.counters(), "memory_hits": _store.hits()}
