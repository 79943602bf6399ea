"""Numbers in a trace of ``fuse``: numbers to the function that is traced, symbols to PyTorch."""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ._arguments import with_elements

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

        def __format__(self, form: str) -> str:
            return str(super().__repr__()) if _is_asked_by_tracer() else format(number(self), form)

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
_CACHE = type(functools.lru_cache(_is_asked_by_tracer))
_set_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__


class Sizes:
    """Has the sizes of one trace be numbers to a function while it runs, and knows which of them it keeps."""

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
        for made in self._left():
            _set_class(made, next(symbolic for symbolic in _CLASSES if type(made) is _CLASSES[symbolic]))

    def take(self, given: Iterable[Any]) -> None:
        """Has symbols that were made before be numbers as well."""
        for made in given:
            _set_class(made, _CLASSES[type(made)])
            self._made.append(weakref.ref(made))

    def kept(self, graph: Graph) -> list[Any]:
        """Those that something beside the graph still has, when the trace has ended; the graph gets others for them."""
        # What was erased from a graph still has a name in it.
        erased = [node for node in graph._graph_namespace._obj_to_name if isinstance(node, Node)]
        for node in (*graph.nodes, *erased):
            node.meta.update({key: _anew(value) for key, value in node.meta.items()})
        # What waits for the collector is young, as that has waited for the trace, or is nothing that it made.
        for generation in (0, 2):
            if self._left():
                gc.collect(generation)
        return self._left()

    def _left(self) -> list[Any]:
        found = {id(one): one for made in self._made if (one := made()) is not None}
        return list(found.values())


def _anew(value: Any) -> Any:
    """The same with other objects for its symbols, in tuples and lists of any depth."""
    if type(value) in _CLASSES:
        return type(value)(value.node)
    if isinstance(value, list):
        return list(map(_anew, value))
    return with_elements(type(value), list(map(_anew, value))) if isinstance(value, tuple) else value


def make_numbers(kept: list[Any]) -> None:
    """Puts the numbers that symbols stand for in their places: attributes, variables, and elements of containers."""
    for one in kept:
        if one.node.hint is not None:
            _replace(one, one.node.pytype(one.node.hint))


def _replace(old: Any, new: Any) -> None:
    # By its identity, so that no function in here has a variable of it, which would be one of those places.
    found = id(old)
    for holder in gc.get_referrers(old):
        if isinstance(holder, dict):
            owner = _class_of(holder)
            for name in [name for name, value in holder.items() if id(value) == found]:
                if owner is None:
                    holder[name] = new
                else:
                    setattr(owner, name, new)
        elif isinstance(holder, (list, deque)):
            for at, value in enumerate(holder):
                if id(value) == found:
                    holder[at] = new
        elif isinstance(holder, tuple):
            _replace(holder, with_elements(type(holder), [new if id(value) == found else value for value in holder]))
        elif isinstance(holder, types.CellType):
            holder.cell_contents = new
        elif isinstance(holder, _CACHE):
            holder.cache_clear()
        else:
            attributes = getattr(holder, "__dict__", None)
            if isinstance(attributes, dict):
                attributes.update({name: new for name, value in attributes.items() if id(value) == found})
            for base in type(holder).__mro__:
                for slot in vars(base).values() if "__slots__" in vars(base) else ():
                    if (
                        isinstance(slot, types.MemberDescriptorType)
                        and id(getattr(holder, slot.__name__, None)) == found
                    ):
                        slot.__set__(holder, new)


def _class_of(attributes: dict[str, Any]) -> type | None:
    """The class whose attributes a dictionary is: one that is set there alone is not found."""
    return next((of for of in gc.get_referrers(attributes) if isinstance(of, type) and of.__dict__ == attributes), None)
