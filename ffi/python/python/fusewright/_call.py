"""Calls of kernels on tensors: one Python function for each part of a graph, written out for its tensors.

What can be known when a part is compiled is: which sizes are symbols and where they are read, the extents and strides of
results, the number of threads. A call then reads sizes and addresses, makes its results and launches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.utils._sympy.printers import PythonPrinter

from . import _native
from ._graph import Program, memory_order, value

_numbers = itertools.count()


@dataclass(frozen=True)
class Call:
    """A compiled part: ``function`` takes its inputs in order, and behind them the sizes that ``sizes`` lists."""

    function: Callable[..., Any]
    program: Program
    kernel: _native.Kernel
    #: Nodes of the graph whose integers it takes beside tensors.
    sizes: tuple[Node, ...]


class NoSize(Exception):
    """A symbol whose value no tensor and no node gives."""


def call(program: Program, kernel: _native.Kernel, sizes: dict[sympy.Expr, Node], threads: int | None) -> Call:
    """The call of a compiled program. ``sizes`` are the nodes of its graph that are integers, by their expressions.

    Raises :class:`NoSize` if a symbol of the program has no value that can be read.
    """
    return _Writer(program, kernel, sizes, threads or torch.get_num_threads()).call()


class _Writer:
    """Writes the function."""

    def __init__(
        self, program: Program, kernel: _native.Kernel, sizes: dict[sympy.Expr, Node], threads: int
    ) -> None:
        self.program, self.kernel, self.sizes, self.threads = program, kernel, sizes, threads
        self.device = value(program.outputs[0]).device
        self.printer = PythonPrinter()
        self.taken: list[Node] = []
        self.scope: dict[str, Any] = {"launch": kernel.launch}

    def call(self) -> Call:
        inputs = [f"a{i}" for i in range(len(self.program.inputs))]
        lines = [f"{symbol} = {self._size_of(symbol)}" for symbol in self._symbols()]
        lines += [f"if not {a}.is_contiguous(): {a} = {a}.contiguous()" for a in inputs]
        outputs = []
        for i, (node, (_, _, order)) in enumerate(zip(self.program.outputs, self.kernel.outputs, strict=True)):
            outputs.append(f"o{i}")
            lines.append(f"o{i} = {self._empty(value(node), order)}")
        lines.append(self._launch([*inputs, *outputs]))
        lines.append(f"return {outputs[0] if len(outputs) == 1 else '(' + ', '.join(outputs) + ')'}")
        name = f"fused_{next(_numbers)}"
        parameters = ", ".join([*inputs, *(f"n{i}" for i in range(len(self.taken)))])
        source = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(source, f"<fusewright {name}>", "exec"), self.scope)
        function = self.scope.pop(name)
        function.__module__ = "fusewright"
        function.__doc__ = source
        return Call(function, self.program, self.kernel, tuple(self.taken))

    def _symbols(self) -> list[str]:
        """All symbols of the kernels and of extents, each a Python name."""
        return list(dict.fromkeys([*self.kernel.symbols, *self.program.symbols]))

    def _size_of(self, name: str) -> str:
        symbol = self.program.symbols.get(name)
        for i, node in enumerate(self.program.inputs):
            for axis, extent in enumerate(value(node).shape):
                if isinstance(extent, torch.SymInt) and extent.node.expr == symbol:
                    return f"a{i}.size({axis})"
        node = self.sizes.get(symbol)
        if node is None:
            raise NoSize(f"nothing gives the size {name}")
        self.taken.append(node)
        return f"n{len(self.taken) - 1}"

    def _text(self, size: int | torch.SymInt | sympy.Expr) -> str:
        if isinstance(size, torch.SymInt):
            size = size.node.expr
        return str(size) if isinstance(size, int) else self.printer.doprint(size)

    def _empty(self, tensor: torch.Tensor, order: list[int]) -> str:
        shape = [size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size) for size in tensor.shape]
        strides, step = [sympy.Integer(1)] * len(shape), sympy.Integer(1)
        stored = memory_order(tensor)
        for axis in reversed([stored[axis] for axis in order]):
            strides[axis] = step
            step = step * shape[axis]
        sizes, steps = (_tuple(self._text(size) for size in sizes) for sizes in (shape, strides))
        dtype = f"{tensor.dtype}".removeprefix("torch.")
        self.scope[dtype] = tensor.dtype
        self.scope["empty"], extra = _empty_of(self.device)
        return f"empty({sizes}, {steps}, {dtype}{extra})"

    def _launch(self, tensors: list[str]) -> str:
        sizes = _tuple(self.kernel.symbols)
        addresses = _tuple(f"{tensor}.data_ptr()" for tensor in tensors)
        if self.device.type == "cpu":
            return f"launch({sizes}, {addresses}, {self.threads})"
        self.scope["stream"] = torch._C._cuda_getCurrentRawStream
        index = self.device.index or 0
        if self.kernel.launches == 1:
            return f"launch({sizes}, {addresses}, 1, stream({index}))"
        # Memory between kernels is the framework's, so that its graphs and its accounts know it.
        self.scope["scratch"], self.scope["bytes_"] = self.kernel.scratch, torch.uint8
        temporary = f"t = empty((scratch({sizes}),), (1,), bytes_)"
        return f"{temporary}; launch({sizes}, {addresses}, 1, stream({index}), t.data_ptr())"


def _tuple(items: Any) -> str:
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _empty_of(device: torch.device) -> tuple[Callable[..., torch.Tensor], str]:
    """What makes a tensor of sizes, strides and dtype on a device, and further arguments as text."""
    guards = torch._C._dynamo.guards
    short = getattr(guards, f"_empty_strided_{device.type}", None)
    if short is not None:
        return short, ""

    def empty(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)

    return empty, ""
