"""One line on standard error that says which kernel is being compiled, while a person waits for it."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

#: Seconds that a person waits before anything is said, unless it was asked for.
_PATIENCE = 0.5


class Line:
    """A line that is written anew for every kernel, and taken away at the end.

    ``wanted`` is the option ``progress``: ``True`` says everything, on lines of their own where standard error is no
    terminal; ``None`` speaks on a terminal alone, of what takes long; ``False`` is silent.
    """

    def __init__(self, wanted: bool | None) -> None:
        stream = sys.stderr
        self.is_terminal = stream is not None and stream.isatty()
        self.speaks = stream is not None and (self.is_terminal if wanted is None else wanted)
        self.from_then = time.monotonic() + (0.0 if wanted else _PATIENCE)
        self.shown = False
        # Kernels are compiled on several threads.
        self.lock = threading.Lock()

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shown and self.is_terminal:
            self._write("\r\x1b[K")

    def begins(self, name: str, number: int, of: int) -> None:
        """Says that the compilation of a kernel begins: its name, its number and how many there are."""
        if not self.speaks or time.monotonic() < self.from_then:
            return
        text = f"fusewright: compiling {name} ({number} of {of})"
        with self.lock:
            self.shown = True
            self._write(f"\r\x1b[K{text}" if self.is_terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            # Nobody reads it any more.
            self.speaks = False
