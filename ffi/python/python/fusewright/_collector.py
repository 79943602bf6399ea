"""Python's cyclic garbage collector, while graphs are made."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

#: Whether the collector waits for what is done here.
_waits = False


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Has the collector wait: a graph is many new objects that stay, for which it would look at all others again and again.

    That is so for all threads, whose collections come later. Of two threads here, the first that is done ends it.
    """
    global _waits
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _waits = True
    try:
        yield
    finally:
        _waits = False
        gc.enable()


def _end_in_child() -> None:
    """A child of a fork has none of the other threads, for one of which its collector may wait."""
    if _waits:
        gc.enable()


os.register_at_fork(after_in_child=_end_in_child)
