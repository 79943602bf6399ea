"""Groups of nodes that may be one call: connected, on one device, and such that no path leaves a group and comes back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch.fx import Graph, Node

from ._nodes import device, is_getitem, is_splitting, mutates


def groups(
    graph: Graph,
    admits: Callable[[Node], bool],
    splitting: Collection[str] = (),
    alone: Collection[Node] = (),
    behind: Mapping[Node, Sequence[Node]] | None = None,
) -> list[list[Node]]:
    """The groups of the nodes that ``admits`` takes, each in the graph's order; nodes are grouped along their edges.

    A node that writes into a tensor, or calls one of the ``splitting`` operators, is a barrier: no group has nodes on both
    sides of it. Each of ``alone`` is a group by itself. ``behind`` has further nodes that come before a node, as if it read
    them.
    """
    grouping = _Grouping(graph, alone, behind or {})
    for node in graph.nodes:
        grouping.segment += is_splitting(node, splitting)
        grouping.add(node, admits(node))
    return grouping.result()


class _Grouping:
    """Units of the graph: a node that is in no group by itself, and each group."""

    def __init__(self, graph: Graph, alone: Collection[Node], behind: Mapping[Node, Sequence[Node]]) -> None:
        self.alone, self.behind = alone, behind
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        #: For each place in the graph the first place of those groups that have nodes before it and at or behind it.
        self.reached_from = list(range(len(self.position)))
        #: The group of a node, before merges; members of each are in the graph's order.
        self.group: dict[Node, int] = {}
        self.merged: list[int] = []
        self.members: list[list[Node]] = []
        self.kinds: list[tuple[torch.device, int, Node | None]] = []
        self.segment = 0

    def add(self, node: Node, admitted: bool) -> None:
        if mutates(node):
            self.segment += 1
        if not admitted:
            return
        if is_getitem(node):
            # A result is where its op is.
            (source,) = node.all_input_nodes
            self._join(node, self._find(self.group[source]))
            return
        kind = (device(node), self.segment, node if node in self.alone else None)
        candidates = {self._find(self.group[o]) for o in node.all_input_nodes if o in self.group}
        joined = None
        for candidate in sorted(candidates, key=lambda group: self.position[self.members[group][-1]], reverse=True):
            if self.kinds[candidate] != kind:
                continue
            if joined is None:
                if not self._leads(self._ahead(node), candidate, skip=candidate):
                    self._join(node, candidate)
                    joined = candidate
            elif self._mergeable(joined, candidate):
                joined = self._merge(joined, candidate)
        if joined is None:
            self.merged.append(len(self.members))
            self.members.append([])
            self.kinds.append(kind)
            self._join(node, len(self.members) - 1)

    def result(self) -> list[list[Node]]:
        found = [members for i, members in enumerate(self.members) if self.merged[i] == i]
        return [sorted(members, key=self.position.__getitem__) for members in found]

    def _ahead(self, node: Node) -> list[Node]:
        """Gives the nodes that come before a node."""
        return [*node.all_input_nodes, *self.behind.get(node, ())]

    def _find(self, group: int) -> int:
        while self.merged[group] != group:
            group = self.merged[group]
        return group

    def _join(self, node: Node, group: int) -> None:
        self.group[node] = group
        self.members[group].append(node)
        self._span(group)

    def _merge(self, a: int, b: int) -> int:
        self.merged[b] = a
        self.members[a].extend(self.members[b])
        self.members[a].sort(key=self.position.__getitem__)
        self._span(a)
        return a

    def _span(self, group: int) -> None:
        """Takes note of where a group reaches."""
        first, last = (self.position[self.members[group][i]] for i in (0, -1))
        for place in range(last, first, -1):
            if self.reached_from[place] <= first:
                # What reaches so far from there is noted at all places between.
                break
            self.reached_from[place] = first

    def _cut(self, place: int) -> int:
        """The last place up to a place that all groups lie before or behind: nothing before it depends on what is behind."""
        while self.reached_from[place] < place:
            place = self.reached_from[place]
        return place

    def _mergeable(self, a: int, b: int) -> bool:
        """Whether no path leads from one group to the other through nodes of neither."""
        return not self._leads_to(a, b) and not self._leads_to(b, a)

    def _leads_to(self, reader: int, group: int) -> bool:
        """Whether nodes of ``reader`` depend on ``group`` through others."""
        own = set(self.members[reader])
        outside = [
            operand
            for node in self.members[reader]
            for operand in self._ahead(node)
            if operand not in own and not self._is_in(operand, group)
        ]
        return self._leads(outside, group, skip=reader)

    def _is_in(self, node: Node, group: int) -> bool:
        return node in self.group and self._find(self.group[node]) == group

    def _leads(self, nodes: list[Node], group: int, *, skip: int) -> bool:
        """Whether a node outside of ``group`` and of ``skip`` depends on ``group``."""
        cut = self._cut(self.position[self.members[group][0]])
        open_nodes = [
            node
            for node in nodes
            if self.position[node] >= cut and not self._is_in(node, group) and not self._is_in(node, skip)
        ]
        seen: set[Node] = set(open_nodes)
        entered: set[int] = set()
        while open_nodes:
            node = open_nodes.pop()
            reached = [node]
            if node in self.group:
                other = self._find(self.group[node])
                if other not in entered:
                    entered.add(other)
                    reached = self.members[other]
            for member in reached:
                for operand in self._ahead(member):
                    if self._is_in(operand, group):
                        return True
                    if operand not in seen and self.position[operand] >= cut:
                        seen.add(operand)
                        open_nodes.append(operand)
        return False
