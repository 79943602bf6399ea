"""How the tensors of a call lie in memory, and which of that a trace of ``fuse`` is for."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, StatelessSymbolicContext
from torch.utils._sympy.printers import PythonPrinter

from ._arguments import Call

#: Numbers from here on are constants, as negative ones are.
LARGEST = 1 << 62


def context(tensor: torch.Tensor, rows: int, varying: Collection[int]) -> StatelessSymbolicContext[Any, Any]:
    """Which extents of a tensor are symbols: the first where it is that of rows, and those that are known to vary, of which
    equal ones are one symbol; and strides that follow from no extent."""
    extents = [DimDynamic.DUCK if axis in varying else DimDynamic.STATIC for axis in range(tensor.ndim)]
    if rows > 1 and tensor.ndim > 0 and tensor.shape[0] == rows:
        extents[0] = DimDynamic.DYNAMIC
    # Along an axis of one element nothing is stepped over: slices have any number there.
    strides = [DimDynamic.DYNAMIC if extent == 1 else DimDynamic.INFER_STRIDE for extent in tensor.shape]
    return StatelessSymbolicContext(dynamic_sizes=extents, dynamic_strides=strides)


def _expression(number: Any) -> sympy.Basic:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


class Layouts:
    """Which tensors and numbers a graph is for: they are as those that were traced, and what the trace relied on holds.

    Extents, strides and numbers of a call are one list: those that are constants are compared at once, and a function that
    is written for the trace looks at those that are symbols.
    """

    def __init__(self, fakes: Sequence[torch.Tensor], numbers: Sequence[Any]) -> None:
        # Before a trace makes one symbol of those that it needs to be equal.
        self._traced = [
            _expression(number)
            for lists in (*((*fake.shape, *fake.stride()) for fake in fakes), numbers)
            for number in lists
        ]
        self._offsets = [_expression(fake.storage_offset()) for fake in fakes]
        self._admits: Callable[[list[int]], bool] = _refuse
        #: Whether it matters where tensors begin.
        self.has_offsets = False

    def rely_on(self, conditions: Sequence[sympy.Basic], are_places_asked: bool) -> None:
        """Takes note of what a trace relied on."""
        asked = {symbol for condition in conditions for symbol in condition.free_symbols}
        self.has_offsets = are_places_asked or any(offset in asked for offset in self._offsets)
        if self.has_offsets:
            self._traced += self._offsets
        self._admits = _written(self._traced, conditions)

    def admit(self, call: Call) -> bool:
        """Says whether the graph is for the tensors and numbers of a call of the structure that was traced."""
        values = [*itertools.chain.from_iterable(call.layouts), *call.numbers]
        if self.has_offsets:
            values += [tensor.storage_offset() for tensor in call.tensors]
        return len(values) == len(self._traced) and self._admits(values)


def _refuse(_: list[int]) -> bool:
    return False


def _written(traced: Sequence[sympy.Basic], conditions: Sequence[sympy.Basic]) -> Callable[[list[int]], bool]:
    """Writes what compares values with what was traced."""
    constants = {at: int(number) for at, number in enumerate(traced) if isinstance(number, sympy.Integer)}
    others = [(at, number) for at, number in enumerate(traced) if at not in constants]
    text = PythonPrinter().doprint
    lines, bound = list[str](), set[Any]()
    # A stride may be a multiple of one that is a symbol by itself.
    for at, number in sorted(others, key=lambda other: not other[1].is_Symbol):
        if number.is_Symbol and number not in bound:
            bound.add(number)
            # Zero and one are numbers of their own to PyTorch, which never stand for a symbol.
            lines += [f"{number} = values[{at}]", f"if not 2 <= {number} < {LARGEST}: return False"]
        else:
            lines.append(f"if values[{at}] != {text(number)}: return False")
    if any(condition.free_symbols - bound for condition in conditions):
        return _refuse
    lines += [f"if not ({text(condition)}): return False" for condition in dict.fromkeys(conditions)]
    source = "def admits(values):\n" + "".join(f"    {line}\n" for line in (*lines, "return True"))
    scope: dict[str, Any] = {**SYMPY_INTERP, "math": math, "torch": torch}
    exec(source, scope)
    of_symbols: Callable[[list[int]], bool] = scope["admits"]
    if not constants:
        return of_symbols
    picked = operator.itemgetter(*constants, *list(constants)[:1])
    expected = picked(constants)
    return lambda values: picked(values) == expected and of_symbols(values)
