"""Kernels of this process by what they were compiled from, for as long as something uses them."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from . import _native
from ._options import Options

_lock = threading.Lock()
_kernels: weakref.WeakValueDictionary[tuple[object, ...], _native.Kernel] = weakref.WeakValueDictionary()
#: Where kernels were compiled for.
_devices: set[int | None] = set()
_refused: dict[tuple[object, ...], list[tuple[list[str], int | None, str]]] = {}
_hits = 0


def _begin_anew() -> None:
    """In a child of a fork no other thread has the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)

# Refusals kept; a program that cuts more graphs than that asks again.
_MOST_REFUSED = 4096


#: A program, and the target and device that it is compiled for.
Request = tuple[bytes, str, int | None]


@dataclass(frozen=True)
class Attempt:
    """What became of a program: its kernel, or what is in the way."""

    kernel: _native.Kernel | None
    outside: list[tuple[list[str], int | None, str]]


def hits() -> int:
    """How many programs equalled one that was there already."""
    return _hits


def compiled(program: bytes, target: str, device: int | None, options: Options) -> Attempt:
    """The kernel of a program on the host or on the GPU of a number: that of an equal one, else a new one.

    A program that was compiled for another GPU of the same kind is loaded, not compiled again. Raises ``fusewright.Error``
    for a program that cannot be read and a target that is not here.
    """
    global _hits
    key = (program, target, *options.key())
    with _lock:
        known, refused = _known(key, device), _refused.get(key)
        _hits += known is not None
    if known is not None:
        if known.device != device and device is not None:
            known = known.on(device)
            with _lock:
                _kernels[(*key, device)] = known
        return Attempt(known, [])
    if refused is not None:
        return Attempt(None, refused)
    kernel, outside = _native.compile(
        "part", program, target, mode=options.mode, pipeline=options.pipeline, device=device or 0
    )
    with _lock:
        if kernel is None:
            if len(_refused) >= _MOST_REFUSED:
                _refused.clear()
            _refused[key] = outside
        else:
            _devices.add(device)
            _kernels[(*key, device)] = kernel
    return Attempt(kernel, outside)


def compiled_ahead(
    requests: Iterable[Request], options: Options, begins: Callable[[Request, int, int], None]
) -> dict[Request, Attempt]:
    """The attempts of those programs that are new, which are compiled side by side.

    Without what raises, which :func:`compiled` raises again, and without programs that are already asked for on another
    device, whose code they share. A program that is new by itself is left to :func:`compiled`. ``begins`` is told of each
    program as its compilation begins: its number, and how many there are.
    """
    new = dict[tuple[bytes, str], Request]()
    for request in dict.fromkeys(requests):
        if not _is_known(request, options):
            new.setdefault(request[:2], request)
    if len(new) < 2:
        for request in new.values():
            begins(request, 1, 1)
        return {}
    numbers = itertools.count(1)

    def attempt(request: Request) -> Attempt:
        begins(request, next(numbers), len(new))
        return compiled(*request, options)

    with ThreadPoolExecutor(min(len(new), os.cpu_count() or 1), "fusewright") as pool:
        try:
            attempts = [(request, pool.submit(attempt, request)) for request in new.values()]
        except RuntimeError:
            # No thread is begun while the interpreter ends.
            return {}
    return {request: attempt.result() for request, attempt in attempts if attempt.exception() is None}


def _is_known(request: Request, options: Options) -> bool:
    program, target, device = request
    key = (program, target, *options.key())
    with _lock:
        return key in _refused or _known(key, device) is not None


def _known(key: tuple[object, ...], device: int | None) -> _native.Kernel | None:
    """The kernel of a program on a device, else on another."""
    others = sorted(other for other in _devices if other is not None and other != device)
    found = (_kernels.get((*key, on)) for on in (device, *others))
    return next((kernel for kernel in found if kernel is not None), None)
