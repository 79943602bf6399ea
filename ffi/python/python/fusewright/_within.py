"""All that a function can reach from what it finds, at any depth, and how it was."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import weakref
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ._variables import Variables

#: Values that are looked into at most.
_MOST_VALUES = 200_000
#: Packages whose objects hold what is none of a function's, such as loggers, but for modules of networks.
PASSED = sys.stdlib_module_names | {"torch", "functorch", "fusewright", "sympy", "numpy"}
#: What is where nothing is.
MISSING = object()
#: Objects of the standard library that hold what a function puts into them.
HOLDERS = (
    types.SimpleNamespace,
    ChainMap,
    UserDict,
    UserList,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
)
#: Containers whose elements are put back.
CONTAINERS = (OrderedDict, dict, list, set, deque, bytearray)


def _slots(kind: Any) -> tuple[types.MemberDescriptorType, ...]:
    """The attributes of a class of Python's that are in no dictionary."""
    return tuple(
        held
        for base in kind.__mro__
        if "__slots__" in vars(base)
        for held in vars(base).values()
        if isinstance(held, types.MemberDescriptorType)
    )


slots: Callable[[Any], tuple[types.MemberDescriptorType, ...]] = functools.lru_cache(4096)(_slots)


class Slots:
    """Attributes of an object that are in no dictionary, by their names, as a table."""

    def __init__(self, of: Any) -> None:
        self._of, self._slots = of, {slot.__name__: slot for slot in slots(type(of))}

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute of a name, if it is set."""
        try:
            return self._slots[name].__get__(self._of)
        except AttributeError:
            return default

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute, also of an object that says to be frozen, or unsets it for :data:`MISSING`."""
        self._slots[name].__delete__(self._of) if value is MISSING else self._slots[name].__set__(self._of, value)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of what is set."""
        return [(name, value) for name in self._slots if (value := self.get(name, MISSING)) is not MISSING]

    def __len__(self) -> int:
        return len(self.items())


def _kind(container: Any) -> Any:
    """The kind of container that an object is, whose functions see what is in it, whatever its own class does."""
    return next(kind for kind in CONTAINERS if isinstance(container, kind))


def copied(container: Any) -> Any:
    """A dictionary, set or list of what is in a container."""
    kind = _kind(container)
    if issubclass(kind, dict):
        return dict(kind.items(container))
    return set(kind.__iter__(container)) if kind is set else list(kind.__iter__(container))


def holds(container: Any, before: Any) -> bool:
    """Whether a container has what :func:`copied` gave before: the same objects, in the same order."""
    kind = type(container)
    if kind is not dict and kind is not list:
        kind = _kind(container)
    if kind.__len__(container) != len(before):
        return False
    if not before:
        return True
    if issubclass(kind, dict):
        pairs = zip(kind.items(container), before.items())
        return all(value is held and (name is known or name == known) for (name, value), (known, held) in pairs)
    if kind is set:
        return bool(set.__eq__(container, before))
    return all(a is b for a, b in zip(kind.__iter__(container), before))


def _put_back(container: Any, before: Any) -> None:
    kind = _kind(container)
    kind.clear(container)
    if issubclass(kind, dict):
        for name, value in before.items():
            kind.__setitem__(container, name, value)
    elif kind is set:
        set.update(container, before)
    else:
        kind.extend(container, before)


class Within:
    """What is in attributes, containers, variables of enclosing functions, and in globals that a function names."""

    def __init__(self, found: Sequence[Any]) -> None:
        self._containers: list[tuple[Any, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._slots: list[tuple[Slots, str, Any]] = []
        seen, open_values = set[int](), list(found)
        # Only of functions that were found: those that they name have the globals of whole libraries.
        for value in found:
            with contextlib.suppress(Exception):
                open_values.extend(self._named(value))
        while open_values and len(seen) < _MOST_VALUES:
            value = open_values.pop()
            if id(value) not in seen:
                seen.add(id(value))
                # What cannot be looked into, as a proxy of nothing, has nothing to put back.
                with contextlib.suppress(Exception):
                    open_values.extend(self._into(value))

    def add(self, variables: Variables) -> None:
        """Takes what functions that are called read, too: what a trace is compared with is what was there before it."""
        self._cells += variables.bindings.cells
        self._globals += variables.bindings.globals
        self._containers += variables.containers
        for table, name, held in variables.entries:
            if isinstance(table, Slots):
                self._slots.append((table, name, held))
            else:
                self._globals.append((table, name, held))

    def undo(self) -> bool:
        """Puts back what was there when this was made; whether anything was there to put back."""
        changed = False
        for container, before in self._containers:
            if not holds(container, before):
                changed = True
                _put_back(container, before)
        for cell, before in self._cells:
            if contents(cell) is not before:
                changed = True
                if before is MISSING:
                    del cell.cell_contents
                else:
                    cell.cell_contents = before
        for names, name, before in self._globals:
            if names.get(name, MISSING) is not before:
                changed = True
                if before is MISSING:
                    del names[name]
                else:
                    names[name] = before
        for slots_of, name, before in self._slots:
            if slots_of.get(name, MISSING) is not before:
                changed = True
                slots_of.set(name, before)
        return changed

    def _named(self, value: Any) -> Iterator[Any]:
        """The globals that a function names."""
        of = getattr(value, "__func__", value)
        if isinstance(of, types.FunctionType):
            for name in of.__code__.co_names:
                held = of.__globals__.get(name, MISSING)
                self._globals.append((of.__globals__, name, held))
                if not isinstance(held, types.FunctionType):
                    yield held

    def _into(self, value: Any) -> Iterable[Any]:
        """What a value holds."""
        if isinstance(value, (torch.Tensor, str, bytes, int, float, complex, type, types.ModuleType)):
            return ()
        if isinstance(value, CONTAINERS):
            held = copied(value)
            self._containers.append((value, held))
            return [*(held.values() if isinstance(held, dict) else held), *self._attributes(value)]
        if isinstance(value, tuple):
            return value
        if isinstance(value, types.MethodType):
            return value.__self__, value.__func__
        if isinstance(value, functools.partial):
            return value.func, value.args, value.keywords
        if isinstance(value, types.FunctionType):
            cells = value.__closure__ or ()
            self._cells.extend((cell, contents(cell)) for cell in cells)
            return [value.__defaults__, value.__kwdefaults__, value.__dict__, *map(contents, cells)]
        is_passed = type(value).__module__.partition(".")[0] in PASSED
        if is_passed and not isinstance(value, (torch.nn.Module, *HOLDERS)):
            return ()
        return self._attributes(value)

    def _attributes(self, value: Any) -> list[Any]:
        attributes = getattr(value, "__dict__", None)
        found = [attributes] if isinstance(attributes, dict) else []
        if slots(type(value)):
            table = Slots(value)
            for slot in slots(type(value)):
                self._slots.append((table, slot.__name__, held := table.get(slot.__name__, MISSING)))
                found.append(held)
        return found


def contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING
