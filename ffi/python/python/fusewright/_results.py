"""The result of a call of a traced function, and what the call leaves in containers: made of the results of its graph."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from ._arguments import FIXED, PLAIN, Call, Copies, Unfit, elements, empty, is_holder, put, with_elements

#: Classes that stand for numbers in a trace.
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class _Run:
    """One call: what the graph gave, what the call was given, and containers that it makes."""

    __slots__ = ("call", "made", "outputs")

    def __init__(self, outputs: Sequence[Any], call: Call) -> None:
        self.outputs, self.call = outputs, call
        self.made: dict[int, Any] = {}


_Make = Callable[[_Run], Any]


class Results:
    """How results are arranged, and what changes in which container."""

    def __init__(self, made: Any, copies: Copies, tensors: Sequence[torch.Tensor], objects: Sequence[Any]) -> None:
        self._given = {id(tensor): i for i, tensor in enumerate(tensors)}
        self._constants = {id(value) for value in objects}
        self._containers = {id(container): i for i, container in enumerate(copies.containers)}
        self._outputs: dict[int, int] = {}
        #: Containers that the function makes, with what makes one, if that is known already.
        self._fresh: dict[int, tuple[Any, _Make | None]] = {}
        #: The results of the graph: tensors and numbers that are no arguments, each once.
        self.outputs: list[Any] = []
        #: Says whether the one output of the graph is the result.
        self.is_single = False
        changed = copies.changed()
        self._make = self._of(made)
        self._changes = [(at, self._within(copies.containers[at])) for at in changed]
        self.is_single = not changed and len(self.outputs) == 1 and made is self.outputs[0]
        flat = type(made) is tuple and len(made) == len(self.outputs)
        #: Says whether the graph gives the result as it is.
        self.is_plain = self.is_single or (
            flat and not changed and all(one is other for one, other in zip(made, self.outputs))
        )
        # The values of a trace are not for keeping.
        self._given, self._containers, self._outputs, self._fresh, self._constants = {}, {}, {}, {}, set()

    def drop_outputs(self) -> None:
        """Forgets the values of the trace, which the graph has."""
        self.outputs = []

    def of(self, outputs: Sequence[Any], call: Call) -> Any:
        """The result of a call, whose containers are changed as the function changes them."""
        run = _Run(outputs, call)
        changes = [(at, make(run)) for at, make in self._changes]
        result = self._make(run)
        for at, held in changes:
            put(call.containers[at], held)
        return result

    def _of(self, value: Any) -> _Make:
        key, kind = id(value), type(value)
        if key in self._given:
            given = self._given[key]
            return lambda run: run.call.tensors[given]
        if key in self._containers:
            container = self._containers[key]
            return lambda run: run.call.containers[container]
        if isinstance(value, (torch.Tensor, *SYMBOLIC)):
            output = self._outputs.setdefault(key, len(self.outputs))
            if output == len(self.outputs):
                self.outputs.append(value)
            return lambda run: run.outputs[output]
        if kind is list or kind is dict or is_holder(kind):
            return self._of_container(value, key, kind)
        if kind is torch.Size:
            # For PyTorch's trees it is a tuple.
            extents = [self._of(extent) for extent in value]
            return lambda run: torch.Size([extent(run) for extent in extents])
        if kind in _pytree.SUPPORTED_NODES and kind is not tuple:
            node = _pytree.SUPPORTED_NODES[kind]
            children, context = node.flatten_fn(value)
            parts = [self._of(child) for child in children]
            return lambda run: node.unflatten_fn([part(run) for part in parts], context)
        if isinstance(value, tuple):
            parts = [self._of(element) for element in value]
            return lambda run: with_elements(kind, [part(run) for part in parts])
        if kind is slice:
            ends = [self._of(end) for end in (value.start, value.stop, value.step)]
            return lambda run: slice(*(end(run) for end in ends))
        fixed = (int, float, complex, enum.Enum, torch.nn.Module, *FIXED)
        if key not in self._constants and kind not in PLAIN and not isinstance(value, fixed):
            raise Unfit(f"it gives a `{kind.__name__}`, into which tracing does not look")
        return lambda _: value

    def _of_container(self, value: Any, key: int, kind: type) -> _Make:
        """A list, dictionary or holder that the function makes, which may be found in several places."""
        if key in self._fresh:
            known = self._fresh[key][1]
            if known is None:
                raise Unfit(f"it gives a `{kind.__name__}` that holds itself")
            return known
        self._fresh[key] = (value, None)
        within = self._within(value)

        def make(run: _Run) -> Any:
            if key not in run.made:
                run.made[key] = empty(kind)
                put(run.made[key], within(run))
            return run.made[key]

        self._fresh[key] = (value, make)
        return make

    def _within(self, container: Any) -> _Make:
        held = elements(container, self._of)
        if isinstance(held, list):
            return lambda run: [part(run) for part in held]
        return lambda run: {name: part(run) for name, part in held.items()}
