"""How the tensors of a call lie in memory, and which of that a trace of ``fuse`` is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

#: Layouts of arguments of which a trace remembers whether it is for them.
_MOST_LAYOUTS = 1024


def context(tensor: torch.Tensor, rows: int) -> StatelessSymbolicContext[Any, Any]:
    """What of a tensor is a symbol: the first extent where it is that of rows, and strides that follow from no extent."""
    extents = [DimDynamic.STATIC] * tensor.ndim
    if rows > 1 and tensor.ndim > 0 and tensor.shape[0] == rows:
        extents[0] = DimDynamic.DYNAMIC
    # Along an axis of one element nothing is stepped over: slices have any number there.
    strides = [DimDynamic.DYNAMIC if extent == 1 else DimDynamic.INFER_STRIDE for extent in tensor.shape]
    return StatelessSymbolicContext(dynamic_sizes=extents, dynamic_strides=strides)


class _Layout:
    """The extents and strides of a tensor that was traced, as numbers and symbols, and where it begins."""

    def __init__(self, fake: torch.Tensor) -> None:
        self.extents = tuple(map(_expression, fake.shape))
        self.strides = tuple(map(_expression, fake.stride()))
        self.offset = _expression(fake.storage_offset())


def _expression(number: Any) -> sympy.Basic:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


class Layouts:
    """Which tensors a graph is for: they lie as those that were traced, and what the trace relied on holds of them."""

    def __init__(self, fakes: Sequence[torch.Tensor]) -> None:
        # Before a trace makes one symbol of those that it needs to be equal.
        self._traced = [_Layout(fake) for fake in fakes]
        self._conditions = list[Any]()
        self._known = dict[tuple[Any, ...], bool]()
        #: Whether it matters where tensors begin.
        self._has_offsets = False

    def rely_on(self, conditions: Sequence[sympy.Basic], are_places_asked: bool) -> None:
        """Takes note of what a trace relied on."""
        self._conditions = list(conditions)
        asked = {symbol for condition in conditions for symbol in condition.free_symbols}
        self._has_offsets = are_places_asked or any(layout.offset in asked for layout in self._traced)

    def admit(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the graph is for such tensors."""
        try:
            key: tuple[Any, ...] = tuple([(tensor.shape, tensor.stride()) for tensor in tensors])
        except RuntimeError:
            # One that has none, as a sparse one.
            return False
        if self._has_offsets:
            key += tuple(tensor.storage_offset() for tensor in tensors)
        known = self._known.get(key)
        if known is None:
            known = self._are_as_traced(tensors)
            if len(self._known) >= _MOST_LAYOUTS:
                self._known.clear()
            self._known[key] = known
        return known

    def _are_as_traced(self, tensors: Sequence[torch.Tensor]) -> bool:
        bound = dict[Any, Any]()

        def binds(expression: Any, number: Any) -> bool:
            if isinstance(expression, sympy.Symbol) and expression not in bound:
                bound[expression] = number
                # Zero and one are numbers of their own to PyTorch, which never stand for a symbol.
                return number > 1
            return bool(expression.subs(bound) == number)

        for tensor, traced in zip(tensors, self._traced, strict=True):
            if tensor.ndim != len(traced.extents) or not all(map(binds, traced.extents, tensor.shape)):
                return False
        for tensor, traced in zip(tensors, self._traced):
            # A stride may be a multiple of one that is a symbol by itself.
            strides = sorted(zip(traced.strides, tensor.stride()), key=lambda stride: not stride[0].is_Symbol)
            if not all(binds(*stride) for stride in strides):
                return False
            if self._has_offsets and not binds(traced.offset, tensor.storage_offset()):
                return False
        return all(condition.subs(bound) == sympy.true for condition in self._conditions)
