"""The modules that a function reaches: their parameters, buffers, submodules and modes, which may change between calls."""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ._arguments import are_same, elements, is_holder, put
from ._native import CompileError

#: Attributes of a module that are tables, whose entries are what may be replaced.
_TABLES = ("_parameters", "_buffers", "_modules")
_CONTAINERS = (list, dict)
#: Stands where nothing is.
_MISSING = object()
#: Values that are looked into at most.
_MOST_VALUES = 20_000


def reached(fn: Any, objects: Iterable[Any]) -> list[Any]:
    """The objects that a function has at hand: what it is or belongs to, arguments that are constants, what it closes over,
    its defaults, and globals that it names."""
    found: dict[int, Any] = {}
    open_values = [fn, *objects]
    while open_values:
        value = open_values.pop()
        if id(value) in found or isinstance(value, (torch.Tensor, str, bytes, int, float)):
            continue
        found[id(value)] = value
        if isinstance(value, functools.partial):
            open_values += (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, types.MethodType):
            open_values += (value.__self__, value.__func__)
        elif isinstance(value, types.FunctionType):
            open_values += _behind(value)
        elif isinstance(value, torch.nn.Module):
            open_values += {type(module).forward for module in value.modules()}
        elif isinstance(value, (list, tuple)):
            open_values += value
        elif type(value) is dict:
            open_values += value.values()
    return list(found.values())


def _behind(function: types.FunctionType) -> Iterator[Any]:
    yield from map(_contents, function.__closure__ or ())
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if isinstance(wrapped := getattr(function, "__wrapped__", None), types.FunctionType):
        yield wrapped
    for name in function.__code__.co_names:
        held = function.__globals__.get(name)
        is_own = isinstance(held, (types.FunctionType, type)) and held.__module__ == function.__module__
        if is_own or isinstance(held, torch.nn.Module) or type(held) in _CONTAINERS or is_holder(type(held)):
            yield held


def modules_of(found: Iterable[Any]) -> list[torch.nn.Module]:
    """The modules among objects, in their attributes and in containers, at any depth, with all that are within them."""
    open_values, seen = list(found), dict[int, Any]()
    modules = dict[torch.nn.Module, None]()
    while open_values and len(seen) < _MOST_VALUES:
        value = open_values.pop()
        if id(value) in seen or isinstance(value, (torch.Tensor, str, bytes, int, float, type, types.ModuleType)):
            continue
        seen[id(value)] = value
        if isinstance(value, torch.nn.Module):
            modules |= dict.fromkeys(value.modules())
        elif isinstance(value, (list, tuple)):
            open_values += value
        else:
            # What cannot be looked into, as a proxy of nothing, has no modules.
            with contextlib.suppress(Exception):
                open_values += elements(value).values()
    return list(modules)


class Snapshot:
    """Remembers what objects have before a trace, at any depth of containers: values of a trace are for no others."""

    def __init__(self, found: Iterable[Any]) -> None:
        modules = modules_of(value for value in found if isinstance(value, torch.nn.Module))
        if any(isinstance(module, torch.jit.ScriptModule) for module in modules):
            raise CompileError("it calls a module of TorchScript, into which tracing does not look")
        self._held: dict[int, tuple[Any, Any]] = {}
        for value in (*modules, *found):
            if not isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)):
                self._note(value)
        cells = (cell for value in found for cell in getattr(value, "__closure__", None) or ())
        self._cells = [(cell, _contents(cell)) for cell in cells]
        self._classes = [(value, dict(vars(value))) for value in found if isinstance(value, type)]
        functions = [value for value in found if isinstance(value, types.FunctionType)]
        self._globals = [
            (of.__globals__, name, of.__globals__.get(name, _MISSING))
            for of in functions
            for name in of.__code__.co_names
        ]

    def _note(self, value: Any) -> None:
        open_values = [value]
        while open_values and len(self._held) < _MOST_VALUES:
            value = open_values.pop()
            if id(value) in self._held:
                continue
            held = elements(value)
            self._held[id(value)] = (value, held)
            for inner in held.values() if isinstance(held, dict) else held:
                if type(inner) in _CONTAINERS or is_holder(type(inner)):
                    open_values.append(inner)

    def undo(self) -> bool:
        """Puts back what was there, and says whether anything had changed."""
        changed = False
        for value, before in self._held.values():
            if not are_same(elements(value), before):
                put(value, before)
                changed = True
        for cell, before in self._cells:
            if _contents(cell) is not before:
                changed = True
                if before is _MISSING:
                    del cell.cell_contents
                else:
                    cell.cell_contents = before
        for kind, held in self._classes:
            for name in [name for name, value in vars(kind).items() if value is not held.get(name, held)]:
                changed = True
                if name in held:
                    setattr(kind, name, held[name])
                else:
                    delattr(kind, name)
        for names, name, before in self._globals:
            if names.get(name, _MISSING) is not before:
                changed = True
                if before is _MISSING:
                    del names[name]
                else:
                    names[name] = before
        return changed


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


class Reads:
    """Remembers what a graph holds of modules, and of tensors that are no arguments: whether all is as it was."""

    def __init__(self, modules: Sequence[torch.nn.Module], constants: Iterable[torch.Tensor]) -> None:
        self.constants = tuple(constants)
        held = {id(constant) for constant in self.constants}
        entries = [
            (table, name, value)
            for module in modules
            for table in (module.__dict__[name] for name in _TABLES)
            for name, value in table.items()
            if id(value) in held or not isinstance(value, torch.Tensor)
        ]
        self._tables, self._names, self._held = ([entry[i] for entry in entries] for i in range(3))
        self._all_tables = [module.__dict__[name] for module in modules for name in _TABLES]
        self._lengths = list(map(len, self._all_tables))
        self._owners = [module.__dict__ for module in modules]
        self._modes = [module.training for module in modules]
        self._kinds = self._kinds_now()

    def _kinds_now(self) -> list[Any]:
        return [(tensor.dtype, tensor.device, tensor.shape, tensor.stride()) for tensor in self.constants]

    def are_there(self) -> bool:
        """Says whether modules have the tensors and submodules that they had, of the same kinds. Elements may be others."""
        try:
            are_same = all(map(operator.is_, map(operator.getitem, self._tables, self._names), self._held))
        except KeyError:
            return False
        return are_same and list(map(len, self._all_tables)) == self._lengths and self._kinds_now() == self._kinds

    def are_as_before(self) -> bool:
        """Says whether they also are in the modes that they were in."""
        return [owner["training"] for owner in self._owners] == self._modes and self.are_there()

    def are_trained(self) -> bool:
        """Says whether a tensor that the graph holds needs gradients."""
        return any(constant.requires_grad for constant in self.constants)
