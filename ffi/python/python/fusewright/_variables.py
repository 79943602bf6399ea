"""What functions read by name, and others may bind anew between calls: globals, enclosing functions' variables, defaults."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ._within import CONTAINERS, HOLDERS, MISSING, PASSED, Slots, contents, copied, slots

#: How many values are looked into at most.
_MOST_VALUES = 20_000
#: What nothing is called by, and nothing is read of.
_PLAIN = (int, float, complex, str, bytes, type(None), torch.Tensor)
#: Attributes that every module has, most of them tables.
COMMON = frozenset(torch.nn.Module().__dict__) - {"training"}
#: What reads a global, and what an attribute, among instructions.
_READS_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_READS_ATTRIBUTE = frozenset(("IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
#: What reads attributes by names that code does not have.
_READS_ANY = frozenset(("getattr", "hasattr", "vars", "eval", "__dict__", "asdict", "astuple", "attrgetter", "fields"))
#: Special methods that no syntax of a function calls.
_NEVER_CALLED = frozenset(("__new__", "__init__", "__del__", "__repr__", "__reduce__", "__getstate__", "__setstate__"))


class _Names(NamedTuple):
    """The globals and the attributes that code reads, words in it, which may be names of attributes, and what it imports."""

    globals: frozenset[str]
    attributes: frozenset[str]
    modules: frozenset[str]


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> _Names:
    globals_, attributes, modules = set[str](), set(_words(code.co_consts)), set[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _READS_GLOBAL:
            globals_.add(str(instruction.argval))
        elif instruction.opname in _READS_ATTRIBUTE:
            attributes.add(str(instruction.argval))
        elif instruction.opname == "IMPORT_NAME":
            modules.add(str(instruction.argval))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names = _names(inner)
            globals_ |= names.globals
            attributes |= names.attributes
            modules |= names.modules
    return _Names(frozenset(globals_), frozenset(attributes), frozenset(modules))


def _words(constants: Iterable[Any]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _words(constant)


class _Function(NamedTuple):
    """A function, and what of it may be replaced."""

    function: types.FunctionType
    code: types.CodeType
    defaults: tuple[Any, ...] | None
    named: dict[str, Any] | None

    @classmethod
    def of(cls, function: types.FunctionType) -> _Function:
        return cls(function, function.__code__, function.__defaults__, function.__kwdefaults__)


class Bindings:
    """What variables are bound to, and what of functions may be replaced."""

    def __init__(self) -> None:
        self.functions: list[_Function] = []
        #: Variables of enclosing functions, and globals, with their values.
        self.cells: list[tuple[types.CellType, Any]] = []
        self.globals: list[tuple[dict[str, Any], str, Any]] = []

    def are_kept(self, is_same: Callable[[Any, Any], bool]) -> bool:
        """Whether all are what they were; ``is_same`` compares two values."""
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


class Variables:
    """The variables that a function reads, and those that functions do which it calls by name.

    Those of packages that are installed are not looked into, but for the package that the function itself is of.

    From arguments and variables on, attributes are followed by the names that these functions read, and elements of
    containers; so methods are found, and functions that are attributes.
    """

    def __init__(self, fn: Any, args: Sequence[Any]) -> None:
        self.bindings = Bindings()
        #: What the function has at hand without being given it: what it is or belongs to, defaults, and what it closes over.
        self.found = list(_behind(fn))
        #: Modules that it reaches.
        self.modules: list[torch.nn.Module] = []
        #: Attributes that are read by their names, how many an object has, and containers with their elements.
        self.entries: list[tuple[Any, str, Any]] = []
        self.lengths: list[tuple[Any, int]] = []
        self.containers: list[tuple[Any, Any]] = []
        self._attributes = {"forward"}
        #: Whether attributes are read by names that are computed.
        self._reads_any = False
        self._classes: dict[type, None] = {}
        #: Attributes that are reached, by their names, and whether they are those of an object of no library's.
        self._tables: list[tuple[Any, bool]] = []
        self._seen: dict[int, Any] = {}
        self._own = {_package(_module(value)) for value in self.found[:2]}
        self._read_globals = set[tuple[int, str]]()
        self._reach([fn, *args])
        for table, is_own in self._tables:
            self.entries += ((table, name, held) for name, held in self._read(table, is_own))
            if is_own:
                self.lengths.append((table, len(table)))

    def may_read(self, owner: Any, name: str) -> bool:
        """Whether the attribute of an object may be read, by its name or by code that is not looked into."""
        bases = [base for base in type(owner).__mro__ if base not in (object, torch.nn.Module)]
        return self._reads_any or name in self._attributes or any(self._is_librarys(base.__module__) for base in bases)

    def _reach(self, values: list[Any]) -> None:
        known: Any = None
        while values:
            while values and len(self._seen) < _MOST_VALUES:
                value = values.pop()
                if id(value) not in self._seen:
                    # A method is made when it is asked for: its place in memory is not to be another's.
                    self._seen[id(value)] = value
                    # What cannot be looked into, as a proxy of nothing, has nothing to be kept.
                    with contextlib.suppress(Exception):
                        values.extend(self._behind(value))
            reading = (len(self._attributes), self._reads_any, len(self._classes))
            if len(self._seen) >= _MOST_VALUES or reading == known:
                return
            known = reading
            # Functions that were found since may read more of what was reached before.
            read = (held for table, is_own in self._tables for _, held in self._read(table, is_own))
            values = [value for value in (*self._methods(), *read) if id(value) not in self._seen]

    def _behind(self, value: Any) -> Iterable[Any]:
        """What a value may call, has at hand, or holds."""
        if isinstance(value, (types.ModuleType, *_PLAIN)):
            if isinstance(value, types.ModuleType) and not self._is_librarys(value.__name__):
                self._tables.append((vars(value), False))
            return ()
        if isinstance(value, type):
            self._note_class(value)
            return ()
        if isinstance(value, functools.partial):
            self.containers.append((value.keywords, copied(value.keywords)))
            return value.func, *value.args, *value.keywords.values()
        if isinstance(value, types.MethodType):
            return value.__func__, value.__self__
        if isinstance(value, types.FunctionType):
            return () if self._is_librarys(value.__globals__.get("__name__")) else self._of_function(value)
        return self._of_object(value)

    def _of_function(self, function: types.FunctionType) -> Iterator[Any]:
        self.bindings.functions.append(_Function.of(function))
        if function.__kwdefaults__:
            self.containers.append((function.__kwdefaults__, copied(function.__kwdefaults__)))
        self._tables.append((vars(function), False))
        names = _names(function.__code__)
        self._attributes |= names.attributes
        self._reads_any |= not _READS_ANY.isdisjoint(names.globals | names.attributes)
        held = [contents(cell) for cell in function.__closure__ or ()]
        self.bindings.cells += zip(function.__closure__ or (), held, strict=True)
        given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        yield from (*held, *given)
        yield from (sys.modules.get(name) for name in names.modules)
        for name in names.globals:
            value = function.__globals__.get(name, MISSING)
            key = (id(function.__globals__), name)
            if key not in self._read_globals:
                self._read_globals.add(key)
                self.bindings.globals.append((function.__globals__, name, value))
                yield value

    def _of_object(self, value: Any) -> Iterator[Any]:
        if isinstance(value, (tuple, *CONTAINERS)):
            elements = value if isinstance(value, tuple) else copied(value)
            if not isinstance(value, tuple):
                self.containers.append((value, elements))
            held = elements.values() if isinstance(elements, dict) else elements
            yield from (element for element in held if not issubclass(type(element), _PLAIN))
        if isinstance(value, types.MappingProxyType):
            yield from gc.get_referents(value)
        if isinstance(value, weakref.ref):
            yield value()
        if isinstance(value, torch.nn.Module):
            self.modules.append(value)
            yield from value._modules.values()
            yield from (hook for table in (value._forward_hooks, value._forward_pre_hooks) for hook in table.values())
        self._note_class(type(value))
        is_own = not self._is_librarys(type(value).__module__)
        for table in tables(value):
            self._tables.append((table, is_own))
            yield from (held for _, held in self._read(table, is_own))
        if isinstance(value, HOLDERS):
            yield from vars(value).values()
        if callable(value) and (wrapped := getattr(value, "__wrapped__", None)) is not None:
            yield wrapped

    def _is_librarys(self, module: Any) -> bool:
        package = _package(module)
        return package in PASSED or (package not in self._own and _is_installed(package))

    def _note_class(self, kind: type) -> None:
        if not self._is_librarys(kind.__module__):
            self._classes[kind] = None

    def _methods(self) -> Iterator[Any]:
        """What classes that are found have by the names that functions read, and what syntax calls of them."""
        for kind in self._classes:
            for base in kind.__mro__:
                if self._is_librarys(base.__module__):
                    continue
                for name, held in vars(base).items():
                    is_called = name.startswith("__") and callable(held) and name not in _NEVER_CALLED
                    if name in self._attributes or is_called:
                        by = {property: "fget", functools.partialmethod: "func"}.get(type(held), "__func__")
                        yield getattr(held, by, held)

    def _read(self, table: Any, is_own: bool) -> list[tuple[str, Any]]:
        """The entries of a table that are read by their names, which may be any of an object's own."""
        names = self._attributes - COMMON
        return [
            entry
            for entry in table.items()
            if entry[0] in names or (self._reads_any and is_own and entry[0] not in COMMON)
        ]


def tables(value: Any) -> list[Any]:
    """The attributes of an object, by their names."""
    held = getattr(value, "__dict__", None)
    found: list[Any] = [held] if isinstance(held, dict) else []
    return [*found, Slots(value)] if slots(type(value)) else found


def _behind(fn: Any) -> Iterator[Any]:
    """What a function is, whose it is, and what else it has at hand."""
    if isinstance(fn, functools.partial):
        yield from (*_behind(fn.func), *fn.args, *fn.keywords.values())
        return
    yield from (fn, getattr(fn, "__self__", None))
    of = getattr(fn, "__func__", fn)
    yield from getattr(of, "__defaults__", None) or ()
    yield from (getattr(of, "__kwdefaults__", None) or {}).values()
    yield from map(contents, getattr(of, "__closure__", None) or ())


def _module(value: Any) -> Any:
    """Where a function is defined, or the class of what is none."""
    return value.__module__ if isinstance(value, (types.FunctionType, types.MethodType)) else type(value).__module__


def _package(module: Any) -> str:
    return str(module).partition(".")[0]


@functools.lru_cache(4096)
def _is_installed(package: str) -> bool:
    """Whether a package is of Python, PyTorch or this one, or is installed."""
    if package in PASSED:
        return True
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is None:
        return False
    # Where packages are installed, what describes them lies beside them.
    path = Path(file)
    folder = path.parent.parent if path.stem == "__init__" else path.parent
    return next(folder.glob("*.dist-info"), None) is not None
