"""A compiled part as plain data: all that its call needs, so that code which a compiler keeps runs in a later process."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.utils._sympy.printers import PythonPrinter

from ._graph import Program, memory_order, value
from ._nodes import is_scalar


class NoSize(Exception):
    """A symbol whose value no tensor and no node gives."""


@dataclass(frozen=True)
class Made:
    """A tensor that a part gives: extents and strides as Python expressions of its symbols."""

    dtype: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    #: The tensor of the call whose memory it is, if kernels overwrite a part of that.
    overwrites: int | None = None


@dataclass(frozen=True)
class Record:
    """A part of a graph and how it is called."""

    #: What is compiled, for which target, on which GPU of the process, in which mode and by which passes.
    program: str
    target: str
    device: int | None
    mode: str
    pipeline: str | None
    #: How many tensors it takes, called ``a0, a1, …``, and how many integers behind them, called ``n0, n1, …``.
    inputs: int
    sizes: int
    #: The tensors that are numbers of the host where the kernels run on a device, with their dtypes.
    scalars: tuple[tuple[int, str], ...]
    #: Where the value of each symbol is read.
    symbols: tuple[tuple[str, str], ...]
    outputs: tuple[Made, ...]
    #: The tensors that kernels take in another order of their axes, with that order.
    orders: tuple[tuple[int, tuple[int, ...]], ...] = ()
    #: Threads of a launch on the CPU, if not PyTorch's own number.
    threads: int | None = None

    def lies(self) -> torch.device:
        """Where its tensors lie."""
        return torch.device("cpu") if self.device is None else torch.device("cuda", self.device)

    def packed(self) -> str:
        """As a short text without spaces or quotes, which calls in graphs carry. Equal records have equal texts."""
        return base64.urlsafe_b64encode(zlib.compress(self.to_json().encode(), 9)).decode()

    @classmethod
    def unpacked(cls, text: str) -> Record:
        """From text of :meth:`packed`. Raises ``ValueError`` for any other."""
        try:
            return cls.from_json(zlib.decompress(base64.urlsafe_b64decode(text)).decode())
        except (zlib.error, KeyError, TypeError) as error:
            raise ValueError(str(error)) from error

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """From text of :meth:`to_json`."""
        found = json.loads(text)
        found["symbols"] = tuple((name, source) for name, source in found["symbols"])
        found["scalars"] = tuple((i, dtype) for i, dtype in found["scalars"])
        found["orders"] = tuple((i, tuple(order)) for i, order in found.get("orders", ()))
        outputs = found["outputs"]
        made = [Made(o["dtype"], tuple(o["shape"]), tuple(o["strides"]), o.get("overwrites")) for o in outputs]
        return cls(**{**found, "outputs": tuple(made)})


def record(
    program: Program,
    compiled: tuple[str, int | None, str, str | None],
    sizes: Mapping[Any, Node],
    overwrites: Sequence[int | None],
    threads: int | None = None,
) -> tuple[Record, tuple[Node, ...]]:
    """The record of a program, and the nodes whose integers its calls take.

    ``compiled`` is the target, the device, the mode and the file of passes; ``sizes`` are the integer nodes of the graph
    by their expressions; ``overwrites`` says which inputs' memory outputs are. Raises :class:`NoSize` if a symbol has no
    value to be read.
    """
    taken: list[Node] = []
    # Results may have sizes of which the program says nothing, such as those of the tensor that one of them overwrites.
    needed = {
        **{str(symbol): symbol for node in program.outputs for symbol in _symbols(value(node))},
        **program.symbols,
    }
    symbols = [(name, _source(program, symbol, sizes, taken)) for name, symbol in needed.items()]
    outputs = [_made(value(node), i) for node, i in zip(program.outputs, overwrites, strict=True)]
    on_device = value(program.outputs[0]).device.type != "cpu"
    given = [value(node) for node in program.inputs]
    scalars = tuple((i, _dtype(t)) for i, t in enumerate(given) if on_device and is_scalar(t))
    orders = tuple((i, tuple(order)) for i, order in program.orders.items())
    counts = (len(given), len(taken))
    made = Record(program.text.decode(), *compiled, *counts, scalars, tuple(symbols), tuple(outputs), orders, threads)
    return made, tuple(taken)


def _source(program: Program, symbol: sympy.Symbol, sizes: Mapping[Any, Node], taken: list[Node]) -> str:
    for i, node in enumerate(program.inputs):
        for axis, extent in enumerate(value(node).shape):
            if isinstance(extent, torch.SymInt) and extent.node.expr == symbol:
                return f"a{i}.size({axis})"
    given = sizes.get(symbol)
    if given is None:
        raise NoSize(f"nothing gives the size {symbol}")
    taken.append(given)
    return f"n{len(taken) - 1}"


def _symbols(tensor: torch.Tensor) -> list[sympy.Symbol]:
    sizes: list[Any] = [size for size in tensor.shape if isinstance(size, torch.SymInt)]
    return sorted({symbol for size in sizes for symbol in size.node.expr.free_symbols}, key=str)


def _made(tensor: torch.Tensor, overwrites: int | None) -> Made:
    shape = [size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size) for size in tensor.shape]
    strides, step = [sympy.Integer(1)] * len(shape), sympy.Integer(1)
    for axis in reversed(memory_order(tensor)):
        strides[axis] = step
        step = step * shape[axis]
    text = PythonPrinter().doprint
    texts = (tuple(text(size) for size in shape), tuple(text(stride) for stride in strides))
    return Made(_dtype(tensor), *texts, overwrites)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
