"""Bytes that operators of PyTorch's graph move where each is a pass over memory by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx import Node

from ._graph import value
from ._nodes import is_getitem, is_view


@dataclass(frozen=True)
class Traffic:
    """The tensors that operators read and write, one after the other: extents, and bytes of an element."""

    tensors: tuple[tuple[tuple[int | torch.SymInt, ...], int], ...]

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Traffic:
        """Gives the tensors that nodes of a graph read and write. Views move nothing."""
        tensors = []
        for node in nodes:
            if is_view(node) or is_getitem(node):
                continue
            made = value(node)
            results = made if isinstance(made, (tuple, list)) else (made,)
            moved = (*map(value, node.all_input_nodes), *results)
            tensors += [_there(tensor) for tensor in moved if isinstance(tensor, torch.Tensor)]
        return cls(tuple(tensors))

    def bytes(self, sizes: Mapping[str, int]) -> int | None:
        """How many bytes these are at sizes of symbols; ``None`` where an extent is unknown."""
        total = 0
        for extents, width in self.tensors:
            known = [_number(extent, sizes) for extent in extents]
            if None in known:
                return None
            total += math.prod(extent for extent in known if extent is not None) * width
        return total


def _there(tensor: torch.Tensor) -> tuple[tuple[int | torch.SymInt, ...], int]:
    """Extents and width of what is in memory: of a tensor that was broadcast, less than it shows."""
    strides = tensor.stride() if tensor.layout is torch.strided else (1,) * tensor.ndim
    extents = tuple(size for size, stride in zip(tensor.shape, strides, strict=True) if stride != 0)
    return extents, tensor.element_size()


def _number(size: int | torch.SymInt, sizes: Mapping[str, int]) -> int | None:
    if not isinstance(size, torch.SymInt):
        return size
    expression: Any = size.node.expr
    at = {symbol: sympy.Integer(sizes[symbol.name]) for symbol in expression.free_symbols if symbol.name in sizes}
    found = expression.xreplace(at)
    return int(found) if found.is_number else None
