"""Groups of nodes, parts of graphs and their order: structure alone, on graphs made at random."""

from __future__ import annotations

import random

import pytest
import torch
from torch.fx import Graph, Node

from fusewright._order import sort
from fusewright._partition import groups

OPERATORS = (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor, torch.ops.aten.sub.Tensor)


def random_graph(seed: int) -> tuple[Graph, set[Node]]:
    """A graph of binary operators, and those of its nodes that are admitted."""
    chance, graph = random.Random(seed), Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(3)]
    for node in nodes:
        node.meta["val"] = torch.empty(4)
    admitted = set()
    for _ in range(chance.randrange(5, 90)):
        near = nodes[-chance.choice((3, 6, 60)) :]
        node = graph.call_function(chance.choice(OPERATORS), (chance.choice(near), chance.choice(nodes)))
        node.meta["val"] = torch.empty(4)
        nodes.append(node)
        if chance.random() < 0.7:
            admitted.add(node)
    graph.output(tuple(nodes[-3:]))
    return graph, admitted


def dependencies(graph: Graph, found: list[list[Node]]) -> dict[object, set[object]]:
    """What each unit, a group or a node of none, reads."""
    unit = {node: i for i, group in enumerate(found) for node in group}
    reads: dict[object, set[object]] = {}
    for node in graph.nodes:
        own = unit.get(node, node)
        reads.setdefault(own, set()).update(unit.get(o, o) for o in node.all_input_nodes)
        reads[own].discard(own)
    return reads


@pytest.mark.parametrize("seed", range(300))
def test_groups_are_disjoint_and_make_no_cycle(seed: int) -> None:
    graph, admitted = random_graph(seed)
    found = groups(graph, admitted.__contains__)
    grouped = [node for group in found for node in group]
    assert len(grouped) == len(set(grouped)) and set(grouped) == admitted
    reads = dependencies(graph, found)
    while ready := [unit for unit, needs in reads.items() if not needs & reads.keys()]:
        for unit in ready:
            del reads[unit]
    assert not reads, "units wait for each other"


def test_a_path_through_what_a_group_has_later_is_seen() -> None:
    graph = Graph()
    x, y, weight = (graph.placeholder(name) for name in ("x", "y", "weight"))
    for node in (x, y, weight):
        node.meta["val"] = torch.empty(4, 4)

    def call(operator: object, *args: Node) -> Node:
        node = graph.call_function(operator, args)  # type: ignore[arg-type]
        node.meta["val"] = torch.empty(4, 4)
        return node

    add, mm = torch.ops.aten.add.Tensor, torch.ops.aten.mm.default
    first = call(add, x, x)
    product = call(mm, first, weight)
    second = call(add, y, y)
    late = call(add, first, call(mm, second, weight))
    # With `second` it would wait for the product of `first`, whose group waits for that of `second`.
    last = call(add, second, product)
    graph.output((late, last))
    found = groups(graph, lambda node: node.target is add)
    assert [set(group) for group in found] == [{first, late}, {second}, {last}]


def test_neighbours_are_one_group() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4)
    node = x
    for _ in range(5):
        node = graph.call_function(torch.ops.aten.add.Tensor, (node, x))
        node.meta["val"] = torch.empty(4)
    graph.output(node)
    (group,) = groups(graph, lambda node: node.op == "call_function")
    assert len(group) == 5


def test_a_write_parts_groups() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4)
    made = []
    for target in (torch.ops.aten.add.Tensor, torch.ops.aten.copy_.default, torch.ops.aten.mul.Tensor):
        made.append(graph.call_function(target, (made[0] if made else x, x)))
        made[-1].meta["val"] = torch.empty(4)
    graph.output(made[2])
    assert groups(graph, lambda node: node in (made[0], made[2])) == [[made[0]], [made[2]]]


@pytest.mark.parametrize("seed", range(20))
def test_sorting_restores_an_order(seed: int) -> None:
    graph, _ = random_graph(seed)
    chance = random.Random(seed)
    movable = [node for node in graph.nodes if node.op == "call_function"]
    for node in chance.sample(movable, len(movable) // 2):
        chance.choice(movable).append(node)
    sort(graph)
    graph.lint()
