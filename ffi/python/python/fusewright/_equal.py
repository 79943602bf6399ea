"""Operators that a graph computes twice, such as a mask in every layer: the later ones become the first.

PyTorch hands graphs on as they were traced, and Inductor looks for such operators itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import Graph, Node

from ._nodes import gives_argument, is_getitem, is_view, mutates

#: Operators that make memory for others to write.
_UNWRITTEN = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"))


def merge_equal(graph: Graph) -> None:
    """Replaces pure operators by equal ones before them.

    Two results of the graph stay two tensors: whoever calls it may write into one of them.
    """
    leaving = _leaving(graph)
    known: dict[Hashable, Node] = {}
    writes = 0
    for node in list(graph.nodes):
        # What was read before a write is another value behind it.
        writes += mutates(node)
        if not _is_pure(node):
            continue
        key = (writes, node.target, _key(node.args), _key(node.kwargs))
        first = known.setdefault(key, node)
        if first is node or (first in leaving and node in leaving):
            continue
        if node in leaving:
            leaving.add(first)
        node.replace_all_uses_with(first)
        graph.erase_node(node)


def _leaving(graph: Graph) -> set[Node]:
    """The nodes whose memory a result of the graph shows."""
    leaving: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or (node in leaving and (is_view(node) or is_getitem(node) or gives_argument(node))):
            leaving.update(node.all_input_nodes)
    return leaving


def _is_pure(node: Node) -> bool:
    if is_getitem(node):
        return True
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    schema, name = target._schema, target._opname
    if schema.is_mutable or not schema.returns or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return name not in _UNWRITTEN


def _key(value: Any) -> Hashable:
    """Tells arguments apart: numbers by their type as well, since 1 equals 1.0 and True."""
    if isinstance(value, (list, tuple)):
        return (type(value) is tuple, *map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(held)) for name, held in sorted(value.items()))
    if isinstance(value, slice):
        return (slice, _key(value.start), _key(value.stop), _key(value.step))
    if isinstance(value, float):
        # NaN and the sign of zero.
        return (float, value.hex())
    return (type(value), value)
