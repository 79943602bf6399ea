"""What a caller may choose, checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ._native import CompileError

_MODES = ("exact", "relaxed")
_INNER = ("eager", "inductor")


@dataclass(frozen=True)
class Options:
    """Options of a compilation.

    ``mode`` says whether every rounding of the graph is kept (``exact``) or intermediate ones may be dropped
    (``relaxed``). ``pipeline`` is a file that lists passes. ``inner`` is who runs what is not fused: PyTorch as it is, or
    Inductor. ``strict`` raises what otherwise leaves a graph unfused with a warning. ``threads`` are those of a launch on
    the CPU, PyTorch's own number if not given.
    """

    mode: str = "exact"
    pipeline: str | None = None
    inner: str = "eager"
    strict: bool = False
    threads: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any] | None = None, **more: Any) -> Options:
        """Options from what ``torch.compile`` hands on: keywords, and a dictionary ``options`` of more of them.

        Raises ``CompileError`` for an unknown name or value.
        """
        given = {**(options or {}), **{name: value for name, value in more.items() if value is not None}}
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise CompileError(f"unknown option `{name}`; there are {', '.join(known)}")
        made = cls(**given)
        for name, value, words in (("mode", made.mode, _MODES), ("inner", made.inner, _INNER)):
            if value not in words:
                raise CompileError(f"option `{name}` is {value!r}, none of {', '.join(words)}")
        if made.pipeline is not None:
            object.__setattr__(made, "pipeline", os.fspath(made.pipeline))
        return made

    def key(self) -> tuple[str, str | None, int]:
        """What changes the kernels: the mode, and the file of passes with the time of its last change."""
        changed = os.stat(self.pipeline).st_mtime_ns if self.pipeline else 0
        return (self.mode, self.pipeline, changed)
