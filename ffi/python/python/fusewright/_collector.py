"""Python's cyclic garbage collector, while graphs are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Has the collector wait: a graph is many new objects that stay, for which it would look at all others again and again.

    That is so for all threads, whose collections come later. Of two threads here, the first that is done ends it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
