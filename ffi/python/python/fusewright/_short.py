"""Operators that PyTorch runs, by the shortest call that it has for them.

Between kernels a layer is views and products, whose calls cost the host more than their work at few rows: a method costs
less than half of what the operator's own object does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph

from ._nodes import is_view_operator

_aten = torch.ops.aten
#: Operators whose arguments a method of the first takes as they are.
_METHODS: dict[Any, str] = {
    _aten.bmm.default: "bmm",
    _aten.clone.default: "clone",
    _aten.expand.default: "expand",
    _aten.mm.default: "mm",
    _aten.permute.default: "permute",
    _aten.select.int: "select",
    _aten.squeeze.dim: "squeeze",
    _aten.sym_size.int: "size",
    _aten.t.default: "t",
    _aten.transpose.int: "transpose",
    _aten.unsqueeze.default: "unsqueeze",
    _aten.view.default: "view",
}
#: Those methods that show memory of the tensor.
VIEWS = frozenset(name for operator, name in _METHODS.items() if is_view_operator(operator))
#: The same of functions; of these also for numbers in a tensor's place.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    _aten.add.Tensor: torch.add,
    _aten.addmm.default: torch.addmm,
    _aten.cat.default: torch.cat,
    _aten.mul.Tensor: torch.mul,
}


def shorten(graph: Graph) -> None:
    """Replaces operators by such calls; each gives the same tensor as before."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        method, function = _METHODS.get(node.target), _FUNCTIONS.get(node.target)
        if method is None and function is None:
            continue
        with graph.inserting_before(node):
            if method is not None:
                short = graph.call_method(method, node.args, node.kwargs)
            else:
                assert function is not None
                short = graph.call_function(function, node.args, node.kwargs)
        short.meta = node.meta
        node.replace_all_uses_with(short)
        graph.erase_node(node)
