"""Kernels of this process by what they were compiled from, for as long as something uses them."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

from . import _native
from ._options import Options

_lock = threading.Lock()
_kernels: weakref.WeakValueDictionary[tuple[object, ...], _native.Kernel] = weakref.WeakValueDictionary()
_refused: dict[tuple[object, ...], list[tuple[list[str], int | None, str]]] = {}
_hits = 0

# Refusals kept; a program that cuts more graphs than that asks again.
_MOST_REFUSED = 4096


@dataclass(frozen=True)
class Attempt:
    """What became of a program: its kernel, or what is in the way."""

    kernel: _native.Kernel | None
    outside: list[tuple[list[str], int | None, str]]


def hits() -> int:
    """How many programs equalled one that was there already."""
    return _hits


def compiled(program: bytes, target: str, options: Options) -> Attempt:
    """The kernel of a program: that of an equal one, else a new one.

    Raises ``fusewright.Error`` for a program that cannot be read and a target that is not here.
    """
    global _hits
    key = (program, target, *options.key())
    with _lock:
        known, refused = _kernels.get(key), _refused.get(key)
        _hits += known is not None
    if known is not None:
        return Attempt(known, [])
    if refused is not None:
        return Attempt(None, refused)
    kernel, outside = _native.compile("part", program, target, mode=options.mode, pipeline=options.pipeline)
    with _lock:
        if kernel is None:
            if len(_refused) >= _MOST_REFUSED:
                _refused.clear()
            _refused[key] = outside
        else:
            _kernels[key] = kernel
    return Attempt(kernel, outside)
