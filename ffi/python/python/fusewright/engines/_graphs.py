"""Graphs as engines cut them, which may return one tensor where PyTorch's compilers want a tuple."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

Compiler = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def tuple_results(graph: GraphModule, inputs: Sequence[Any], compiler: Compiler) -> Callable[..., Any]:
    """Compiles a graph whatever it returns: one value goes through the compiler as a tuple of it."""
    (returned,) = graph.graph.output_node().args
    if isinstance(returned, list | tuple):
        return compiler(graph, inputs)
    # The caller's graph stays as it is.
    wrapped = GraphModule(graph, copy.deepcopy(graph.graph))
    output = wrapped.graph.output_node()
    output.args = (output.args,)
    wrapped.recompile()
    compiled = compiler(wrapped, inputs)
    return lambda *args: compiled(*args)[0]
