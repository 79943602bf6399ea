"""Numbers in a trace of ``fuse``: numbers to the function that is traced, symbols to PyTorch."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

#: Packages to which a symbol is one.
_TRACERS = frozenset({"torch", "functorch", "sympy", "fusewright"})


def _is_asked_by_tracer() -> bool:
    """Whether PyTorch is what asks, by itself or through the standard library."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in sys.stdlib_module_names:
            return package in _TRACERS
        frame = frame.f_back
    return False


def _of(symbolic: Any, number: type) -> Any:
    """A class of symbols that say to be numbers, and are written as such, for which a trace relies on the number."""

    class Size(symbolic):  # type: ignore[misc]
        def __repr__(self) -> str:
            return str(super().__repr__() if _is_asked_by_tracer() else repr(number(self)))

        @property  # type: ignore[misc]
        def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return symbolic if _is_asked_by_tracer() else number

    Size.__name__ = Size.__qualname__ = symbolic.__name__
    return Size


#: Symbols of PyTorch, and what those of a trace are meanwhile.
_CLASSES: dict[Any, Any] = {
    torch.SymInt: _of(torch.SymInt, int),
    torch.SymFloat: _of(torch.SymFloat, float),
    torch.SymBool: _of(torch.SymBool, bool),
}
_set_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__


class Sizes:
    """Has the numbers of one trace be numbers to a function while it runs."""

    def __init__(self, shapes: ShapeEnv) -> None:
        self._shapes = shapes
        self._made: list[weakref.ref[Any]] = []
        self._before = dict[Any, Callable[..., None]]()

    def __enter__(self) -> None:
        for symbolic, size in _CLASSES.items():
            before = self._before[symbolic] = symbolic.__init__

            def noted(made: Any, node: Any, before: Any = before, size: type = size) -> None:
                before(made, node)
                if getattr(node, "shape_env", None) is self._shapes:
                    _set_class(made, size)
                    self._made.append(weakref.ref(made))

            symbolic.__init__ = noted

    def __exit__(self, *_: object) -> None:
        for symbolic, before in self._before.items():
            symbolic.__init__ = before
        for known in self._made:
            if (made := known()) is not None:
                _set_class(made, next(symbolic for symbolic, size in _CLASSES.items() if type(made) is size))
