"""What a function finds around it when ``fuse`` traces it: modules, objects and containers, and what is written there."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ._native import CompileError
from ._variables import COMMON, Variables, tables
from ._within import CONTAINERS, Within, copied, slots

#: What has attributes of its own that no call changes.
_FIXED = (type, types.FunctionType, types.ModuleType, types.MethodType, torch.Tensor)
#: Tables of every module that are looked into.
_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")


class Undone(TorchDispatchMode):
    """Writes into tensors that a function finds elsewhere than in its arguments are done while it is traced, and undone."""

    def __init__(self) -> None:
        super().__init__()
        self._before = dict[int, tuple[torch.Tensor, torch.Tensor]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            given = zip(func._schema.arguments, args)
            named = (
                (parameter, kwargs[parameter.name]) for parameter in func._schema.arguments if parameter.name in kwargs
            )
            for parameter, arg in (*given, *named):
                if parameter.is_write:
                    self._keep(arg)
        return func(*args, **kwargs)

    def _keep(self, arg: Any) -> None:
        for tensor in arg if isinstance(arg, (list, tuple)) else (arg,):
            if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
                continue
            with _disable_current_modes():
                # All of the memory: another view of it may be written next.
                whole = tensor.detach().as_strided(
                    (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0
                )
                self._before.setdefault(whole.data_ptr(), (whole, whole.clone()))

    def undo(self) -> None:
        """Puts what was there before in its place."""
        for whole, before in self._before.values():
            whole.copy_(before)


def has_attributes(value: Any) -> bool:
    """Whether a value is an object, such as a module, whose attributes calls may set."""
    return (hasattr(value, "__dict__") or bool(slots(type(value)))) and not isinstance(value, _FIXED)


def weakly(value: Any) -> Callable[[], Any]:
    """What gives a value while it is there: what is known of an object is no reason for it to stay."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class Surroundings:
    """Modules, objects with attributes, and containers that a function finds, all within modules included."""

    def __init__(self, args: Sequence[Any], variables: Variables) -> None:
        found = (*args, *variables.found)
        self._read, self._read_lengths = variables.entries, variables.lengths
        roots = [value for value in (*found, *variables.modules) if isinstance(value, torch.nn.Module)]
        self.modules = list(dict.fromkeys(module for root in roots for module in root.modules()))
        if any(isinstance(module, torch.jit.ScriptModule) for module in self.modules):
            raise CompileError("it calls a module of TorchScript, into which tracing does not look")
        objects = [value for value in found if has_attributes(value) and not isinstance(value, torch.nn.Module)]
        self._attributes: list[tuple[Any, frozenset[str]]] = [(module.__dict__, COMMON) for module in self.modules]
        self._attributes += [(table, frozenset[str]()) for value in objects for table in tables(value)]
        self._tables: list[dict[str, Any]] = [vars(module)[name] for module in self.modules for name in _TABLES]
        owned = [(one, table, COMMON) for one in self.modules for table in tables(one)]
        owned += [(one, table, frozenset[str]()) for one in objects for table in tables(one)]
        held = [v for one, t, skipped in owned for n, v in t.items() if n not in skipped and variables.may_read(one, n)]
        containers = {id(value): (value, copied(value)) for value in (*found, *held) if isinstance(value, CONTAINERS)}
        containers |= {id(value): (value, before) for value, before in variables.containers}
        #: Containers that are found, attributes of what is, or read by a name, with what is in them.
        self.containers: list[tuple[Any, Any]] = list(containers.values())
        self._within = Within(found)
        self._within.add(variables)

    def undo(self) -> bool:
        """Puts back what was there when this was made, at any depth; whether anything was there to put back."""
        return self._within.undo()

    def guards(self, is_constant: Any) -> tuple[list[tuple[Any, Any, Any]], list[tuple[Any, int]]]:
        """What makes a graph the one that it is: entries of tables, and lengths of tables.

        Weights are of those entries if ``is_constant`` says that a graph holds them.
        """
        entries = [(t, name, v) for t, skipped in self._attributes for name, v in t.items() if name not in skipped]
        entries += [(table, name, v) for table in self._tables for name, v in table.items()]
        entries += self._read
        kept = [entry for entry in entries if not issubclass(type(entry[2]), torch.Tensor) or is_constant(entry[2])]
        tables = [table for table, _ in self._attributes] + self._tables
        return kept, [*((table, len(table)) for table in tables), *self._read_lengths]
