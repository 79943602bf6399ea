"""All that a function can reach from what it finds, at any depth, and how it was."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

#: Values that are looked into at most.
_MOST_VALUES = 200_000
#: Packages whose objects hold what is none of a function's, such as loggers, but for modules of networks.
_PASSED = sys.stdlib_module_names | {"torch", "functorch", "fusewright", "sympy", "numpy"}
_MISSING = object()


def holds(container: Any, before: Any) -> bool:
    """Whether a list, dictionary or set holds the same objects as another."""
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(dict.get(container, name, _MISSING) is value for name, value in before.items())
    if isinstance(container, (list, deque)):
        return all(a is b for a, b in zip(container, before))
    return bool(container == before)


class Within:
    """What is in attributes, containers, variables of enclosing functions, and in globals that a function names."""

    def __init__(self, found: Sequence[Any]) -> None:
        self._containers: list[tuple[Any, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        seen, open_values = set[int](), list(found)
        # Only of functions that were found: those that they name have the globals of whole libraries.
        for value in found:
            open_values.extend(self._named(value))
        while open_values and len(seen) < _MOST_VALUES:
            value = open_values.pop()
            if id(value) not in seen:
                seen.add(id(value))
                # What cannot be looked into, as a proxy of nothing, has nothing to put back.
                with contextlib.suppress(Exception):
                    open_values.extend(self._into(value))

    def undo(self) -> bool:
        """Puts back what was there when this was made; whether anything was there to put back."""
        changed = False
        for container, before in self._containers:
            if not holds(container, before):
                changed = True
                container.clear()
                container.extend(before) if isinstance(container, (list, deque)) else container.update(before)
        for cell, before in self._cells:
            if _contents(cell) is not before:
                changed = True
                if before is _MISSING:
                    del cell.cell_contents
                else:
                    cell.cell_contents = before
        for names, name, before in self._globals:
            if names.get(name, _MISSING) is not before:
                changed = True
                if before is _MISSING:
                    del names[name]
                else:
                    names[name] = before
        return changed

    def _named(self, value: Any) -> Iterator[Any]:
        """The globals that a function names."""
        of = getattr(value, "__func__", value)
        if isinstance(of, types.FunctionType):
            for name in of.__code__.co_names:
                held = of.__globals__.get(name, _MISSING)
                self._globals.append((of.__globals__, name, held))
                if not isinstance(held, types.FunctionType):
                    yield held

    def _into(self, value: Any) -> Iterable[Any]:
        """What a value holds."""
        if isinstance(value, (torch.Tensor, str, bytes, int, float, complex, type, types.ModuleType)):
            return ()
        if isinstance(value, (dict, list, set, deque)):
            plain: Any = dict if isinstance(value, dict) else set if isinstance(value, set) else list
            self._containers.append((value, plain(value)))
            return [*(value.values() if isinstance(value, dict) else value), *self._attributes(value)]
        if isinstance(value, tuple):
            return value
        if isinstance(value, types.MethodType):
            return value.__self__, value.__func__
        if isinstance(value, functools.partial):
            return value.func, value.args, value.keywords
        if isinstance(value, types.FunctionType):
            cells = value.__closure__ or ()
            self._cells.extend((cell, _contents(cell)) for cell in cells)
            return [value.__defaults__, value.__kwdefaults__, value.__dict__, *map(_contents, cells)]
        is_passed = type(value).__module__.partition(".")[0] in _PASSED
        if is_passed and not isinstance(value, (torch.nn.Module, types.SimpleNamespace)):
            return ()
        return self._attributes(value)

    @staticmethod
    def _attributes(value: Any) -> list[Any]:
        attributes = getattr(value, "__dict__", None)
        return [attributes] if isinstance(attributes, dict) else []


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING
