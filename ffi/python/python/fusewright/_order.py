"""Puts the nodes of a graph back in topological order, and moves as few as it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from torch.fx import Graph, Node


def sort(graph: Graph, behind: Mapping[Node, Sequence[Node]] | None = None) -> None:
    """Moves every node that stands before one of its operands behind the last of them; the rest keeps its order.

    ``behind`` has further nodes that must come before a node, as if it read them.
    """
    behind = behind or {}
    placed: set[Node] = set()
    waiting: dict[Node, list[Node]] = defaultdict(list)
    cursor: Node | None = None
    pending = list(reversed(list(graph.nodes)))
    while pending:
        node = pending.pop()
        lacking = next((ahead for ahead in (*node.all_input_nodes, *behind.get(node, ())) if ahead not in placed), None)
        if lacking is not None:
            waiting[lacking].append(node)
            continue
        if cursor is not None and cursor.next is not node:
            cursor.append(node)
        placed.add(node)
        cursor = node
        pending.extend(reversed(waiting.pop(node, [])))
    assert not waiting, "the graph has a cycle"
