"""A part of a graph that becomes one call: what of a group is computed, and what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from ._graph import read_order, value
from ._nodes import is_copy, is_faster_copy, is_getitem, is_view


@dataclass(frozen=True)
class Part:
    """Nodes in topological order, and those of them whose tensors something outside reads."""

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def computing(self) -> int:
        """How many of its nodes do more than view memory."""
        return sum(1 for node in self.nodes if not is_view(node) and not is_getitem(node))

    def faster_copies(self) -> int:
        """How many of its results are copies that kernels make faster than the framework does."""
        return sum(1 for node, given in self.copied() if is_faster_copy(node) and _is_read(value(given)))

    def copied(self) -> list[tuple[Node, Node]]:
        """The results that are copies of what the part is given, each with that."""
        inside, found = set(self.nodes), []
        for node in filter(is_copy, self.outputs):
            given = node
            while given in inside and (is_view(given) or is_copy(given)):
                given = given.all_input_nodes[0]
            if given not in inside:
                found.append((node, given))
        return found


def _is_read(tensor: object) -> bool:
    """Whether kernels read a tensor where it lies: the framework copies what has gaps."""
    return isinstance(tensor, torch.Tensor) and (tensor.is_contiguous() or read_order(tensor) is not None)


def part_of(group: Sequence[Node]) -> Part | None:
    """The part of a group that kernels are to compute; ``None`` if it is views alone.

    A view that something outside reads is taken outside as well: the part gives what it views. So results of a part are
    tensors of their own, and strides stay what the graph's later nodes expect.
    """
    inside = set(group)
    outputs: dict[Node, None] = {}
    for node in group:
        if any(user not in inside for user in node.users):
            for made in _memory_of(node, inside):
                outputs[made] = None
    needed = set(outputs)
    open_nodes = list(outputs)
    while open_nodes:
        for operand in open_nodes.pop().all_input_nodes:
            if operand in inside and operand not in needed:
                needed.add(operand)
                open_nodes.append(operand)
    # All results of an op are declared by it.
    nodes = tuple(node for node in group if node in needed)
    given = tuple(node for node in group if node in outputs)
    return Part(nodes, given) if given else None


def _memory_of(node: Node, inside: set[Node]) -> Iterable[Node]:
    """What a node views, or itself; nothing of what lies outside."""
    if node not in inside:
        return
    if not is_view(node):
        if not _is_tuple(node):
            yield node
        return
    for operand in node.all_input_nodes:
        yield from _memory_of(operand, inside)


def _is_tuple(node: Node) -> bool:
    return any(is_getitem(user) for user in node.users)
