"""Breaches of the contract of ``fuse``: what a function reads or does that its trace does not know."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ._arguments import Call, Copies, attributes, is_holder
from ._native import CompileError
from ._trace import Function, Trace


class Comparison:
    """One call of a function and of its trace's graph without kernels, both on copies: the same ops give the same."""

    #: How many calls of each kind are compared under ``strict``.
    CALLS = 2

    def __init__(self, fn: Function, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._fn, self._args, self._named = fn, args, named

    def judge(self, trace: Trace) -> None:
        """Raises ``CompileError`` where the two differ, which says in what."""
        given = Call(self._args, self._named)
        devices = sorted({tensor.device.index or 0 for tensor in given.tensors if tensor.is_cuda})
        buffers = [tensor for tensor in trace.reads.constants if not isinstance(tensor, torch.nn.Parameter)]
        before = [*map(torch.clone, buffers)]
        outcomes = []
        for function in (None, trace.unfused):
            with torch.random.fork_rng(devices):
                torch.manual_seed(0)
                args, named, call = self._copied()
                made = self._fn(*args, **named) if function is None else trace.run(call, function)
                outcomes.append((made, call.tensors, call.containers, [*map(torch.clone, buffers)]))
            for buffer, held in zip(buffers, before, strict=True):
                buffer.copy_(held)
        names = ("what it gives", "an argument that it overwrites", "a container that it changes", "a buffer")
        for name, expected, found in zip(names, *outcomes, strict=True):
            self._compare(name, expected, found)

    def _copied(self) -> tuple[list[Any], dict[str, Any], Call]:
        """The arguments once more, with tensors and containers of their own."""
        call = Call(self._args, self._named)
        copies = Copies(call, [_cloned(tensor) for tensor in call.tensors], call.numbers)
        args = [copies.of(arg) for arg in self._args]
        named = {name: copies.of(arg) for name, arg in self._named.items()}
        return args, named, Call(args, named)

    def _compare(self, what: str, expected: Any, found: Any) -> None:
        name = getattr(self._fn, "__qualname__", type(self._fn).__name__)
        reason = f"{what} is another than when {name} was traced, which reads or changes what `fuse` takes for constant"
        for one, other in itertools.zip_longest(_leaves(expected), _leaves(found)):
            if not _are_alike(one, other):
                raise CompileError(reason)


def _leaves(value: Any) -> Iterator[Any]:
    """The tensors and numbers of a value, in order, as far as they can be found."""
    open_values, seen = [value], dict[int, Any]()
    while open_values:
        value = open_values.pop()
        if isinstance(value, (torch.Tensor, int, float, complex, str)):
            yield value
        elif id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, (list, tuple)):
                open_values += reversed(value)
            elif isinstance(value, dict) or is_holder(type(value)):
                open_values += (value if isinstance(value, dict) else attributes(value)).values()


def _are_alike(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and bool(one == other or one != one)
    if one.is_meta or (one.shape, one.dtype) != (other.shape, other.dtype):
        return one.is_meta or (one.shape, one.dtype) == (other.shape, other.dtype)
    if one.dtype.is_floating_point:
        # Those of 8 bits have no comparison of their own.
        one, other = one.double(), other.double()
    # Atomic sums, as of `index_add` on a GPU, may differ between two runs of the same ops.
    return torch.allclose(one, other, equal_nan=True)


def _cloned(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same elements that lies as it does, in memory of its own."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = tensor.detach().as_strided((size,), (1,), 0).clone()
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
