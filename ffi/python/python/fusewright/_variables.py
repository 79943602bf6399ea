"""What functions read by name, and others may bind anew between calls: globals, enclosing functions' variables, defaults."""

from __future__ import annotations

import contextlib
import dis
import functools
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ._within import CONTAINERS, HOLDERS, MISSING, PASSED, Slots, contents, slots

#: How many values are looked into at most.
_MOST_VALUES = 20_000
#: What nothing is called by.
_PLAIN = (int, float, complex, str, bytes, type(None), torch.Tensor)
#: What reads a global, and what an attribute, among instructions.
_READS_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_READS_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))


class _Names(NamedTuple):
    """The globals and the attributes that code reads, and the words in it, by which `getattr` may."""

    globals: frozenset[str]
    attributes: frozenset[str]


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> _Names:
    read: dict[bool, set[str]] = {True: set(), False: set()}
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READS_GLOBAL | _READS_ATTRIBUTE:
            read[instruction.opname in _READS_GLOBAL].add(str(instruction.argval))
    read[False].update(word for word in code.co_consts if isinstance(word, str) and word.isidentifier())
    within = [_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)]
    return _Names(
        frozenset(read[True]).union(*(names.globals for names in within)),
        frozenset(read[False]).union(*(names.attributes for names in within)),
    )


class _Function(NamedTuple):
    """A function, and what of it may be replaced."""

    function: types.FunctionType
    code: types.CodeType
    defaults: tuple[Any, ...] | None
    named: dict[str, Any] | None

    @classmethod
    def of(cls, function: types.FunctionType) -> _Function:
        return cls(function, function.__code__, function.__defaults__, function.__kwdefaults__)


class Variables:
    """The variables that a function reads, and those that functions do which it calls by name, but for libraries'.

    Methods are found by the names that functions read of what is at hand: arguments, and values of variables.
    """

    def __init__(self, fn: Any, args: Sequence[Any]) -> None:
        #: Functions with what may be replaced of them, variables of enclosing functions, and globals.
        self.functions: list[_Function] = []
        self.cells: list[tuple[types.CellType, Any]] = []
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        #: What the function has at hand without being given it.
        self.found: list[Any] = [fn]
        #: Objects and containers that are read by a name in others, as entries of tables, and with their elements.
        self.entries: list[tuple[Any, str, Any]] = []
        self.containers: list[tuple[Any, Any]] = []
        self._attributes: set[str] = set()
        self._classes: dict[type, None] = {}
        self._read_globals = set[tuple[int, str]]()
        self._find([fn, *args])
        self._look_into([*args, *self.found, *(held for _, _, held in self.globals)])

    def are_kept(self, is_same: Any) -> bool:
        """Whether all are bound to what they were; ``is_same`` compares two values."""
        for cell, held in self.cells:
            found = contents(cell)
            if found is not held and not is_same(found, held):
                return False
        for table, name, held in self.globals:
            found = table.get(name, MISSING)
            if found is not held and not is_same(found, held):
                return False
        for function, code, defaults, named in self.functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not named
            ):
                return False
        return True

    def _find(self, values: list[Any]) -> None:
        """Finds the functions that values are, have, or call by a name."""
        seen, kept_alive = set[int](), list[Any]()
        while values:
            while values and len(seen) < _MOST_VALUES:
                value = values.pop()
                if id(value) not in seen:
                    seen.add(id(value))
                    # A method is made when it is asked for: its place in memory is not to be another's.
                    kept_alive.append(value)
                    # What cannot be looked into, as a proxy of nothing, has nothing to be kept.
                    with contextlib.suppress(Exception):
                        values.extend(self._behind(value))
            values = [value for value in self._methods() if id(value) not in seen]

    def _behind(self, value: Any) -> Iterable[Any]:
        """What a value may call, or has at hand."""
        if isinstance(value, functools.partial):
            self.found += (value, value.func, *value.args, *value.keywords.values())
            return value.func, *value.args, *value.keywords.values()
        if isinstance(value, types.MethodType):
            self.found += (value, value.__self__)
            return value.__func__, value.__self__
        if isinstance(value, types.FunctionType):
            return () if _is_librarys(value) else self._of_function(value)
        if isinstance(value, (torch.Tensor, type, types.ModuleType)):
            return ()
        if isinstance(value, (tuple, *CONTAINERS)):
            elements = value.values() if isinstance(value, dict) else value
            return [element for element in elements if not isinstance(element, _PLAIN)]
        if isinstance(value, torch.nn.Module):
            for module in value.modules():
                self._classes[type(module)] = None
            hooks = (
                hook for m in value.modules() for t in (m._forward_hooks, m._forward_pre_hooks) for hook in t.values()
            )
            return [vars(m)["forward"] for m in value.modules() if "forward" in vars(m)] + list(hooks)
        wrapped = getattr(value, "__wrapped__", None) if callable(value) else None
        if not _is_of_library(type(value)):
            self._classes[type(value)] = None
        return () if wrapped is None else (wrapped,)

    def _of_function(self, function: types.FunctionType) -> Iterator[Any]:
        self.functions.append(_Function.of(function))
        if function.__kwdefaults__:
            self.containers.append((function.__kwdefaults__, function.__kwdefaults__.copy()))
        names = _names(function.__code__)
        self._attributes |= names.attributes
        held = [contents(cell) for cell in function.__closure__ or ()]
        self.cells += zip(function.__closure__ or (), held, strict=True)
        given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        self.found += (function, *held, *given)
        yield from (*held, *given)
        for name in names.globals:
            value = function.__globals__.get(name, MISSING)
            key = (id(function.__globals__), name)
            if value is MISSING or isinstance(value, (types.ModuleType, type)) or key in self._read_globals:
                continue
            self._read_globals.add(key)
            if not isinstance(value, types.FunctionType) or not _is_librarys(value):
                self.globals.append((function.__globals__, name, value))
                if isinstance(value, (torch.nn.Module, functools.partial, types.MethodType)):
                    self.found.append(value)
                yield value

    def _methods(self) -> Iterator[Any]:
        """The functions of classes that are found, by the names that functions read."""
        names = {"forward", "__call__"} | self._attributes
        for kind in self._classes:
            for base in kind.__mro__:
                if _is_of_library(base):
                    continue
                for name in names & vars(base).keys():
                    held = vars(base)[name]
                    if isinstance(held, property):
                        yield held.fget
                    else:
                        yield getattr(held, "__func__", held)

    def _look_into(self, values: list[Any]) -> None:
        """Finds what is read by a name in objects, and what is in containers."""
        seen = set[int]()
        while values and len(seen) < _MOST_VALUES:
            value = values.pop()
            if id(value) not in seen:
                seen.add(id(value))
                with contextlib.suppress(Exception):
                    values.extend(self._within(value))

    def _within(self, value: Any) -> Iterable[Any]:
        """What functions may reach of a value, which is noted."""
        if isinstance(value, (type, types.ModuleType, *_PLAIN)):
            return ()
        if isinstance(value, CONTAINERS):
            self.containers.append((value, value.copy()))
            return value.values() if isinstance(value, dict) else value
        if isinstance(value, tuple):
            return value
        within: list[Any] = list(value.children()) if isinstance(value, torch.nn.Module) else []
        if isinstance(value, (torch.nn.Module, *HOLDERS)) or not _is_of_library(type(value)):
            for table in _tables(value):
                read = [entry for entry in table.items() if entry[0] in self._attributes or isinstance(value, HOLDERS)]
                self.entries += ((table, name, held) for name, held in read)
                within += (held for _, held in read)
        return within


def _tables(value: Any) -> Iterator[Any]:
    """The attributes of an object, by their names."""
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        yield held
    if slots(type(value)):
        yield Slots(value)


def _is_librarys(function: types.FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] in PASSED


def _is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in PASSED
