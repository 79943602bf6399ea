"""What of a model is neither a product nor attention, as a function of its own; and how results differ."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

Tensors = tuple[torch.Tensor, ...]

#: What libraries compute: no part of the memory-bound rest.
LIBRARY = ("linear", "mm", "addmm", "bmm", "matmul", "scaled_dot_product_attention", "_grouped_mm", "grouped_mm")


def rest(module: torch.nn.Module, inputs: Tensors) -> tuple[GraphModule, Tensors]:
    """What of a module libraries do not compute, as a function that takes their results and gives their operands."""
    with torch.no_grad():
        program = torch.export.export(module, inputs, strict=False).run_decompositions({})
    held: dict[str, torch.Tensor] = {**program.state_dict, **program.constants}
    spec = program.graph_signature
    names = {**spec.inputs_to_parameters, **spec.inputs_to_buffers, **spec.inputs_to_lifted_tensor_constants}
    graph, given, users = program.graph, list[torch.Tensor](), iter(inputs)
    for node in graph.nodes:
        if node.op == "placeholder":
            given.append(held[names[node.name]].detach() if node.name in names else next(users))
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    output = next(node for node in graph.nodes if node.op == "output")
    wanted: list[Node] = list(output.all_input_nodes)
    for node in list(graph.nodes):
        packet = getattr(node.target, "overloadpacket", None)
        if node.op == "call_function" and packet is not None and packet.__name__ in LIBRARY:
            wanted += [operand for operand in node.all_input_nodes if operand.op != "placeholder"]
            made = node.meta["val"]
            with graph.inserting_after(last):
                last = graph.placeholder(f"library_{node.name}")
            given.append(torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=made.device).normal_())
            node.replace_all_uses_with(last)
            graph.erase_node(node)
    output.args = (tuple(dict.fromkeys(node for node in wanted if node.op != "placeholder")),)
    graph.eliminate_dead_code()
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    unused = {node for node in placeholders if not node.users}
    given = [tensor for node, tensor in zip(placeholders, given, strict=True) if node not in unused]
    for node in unused:
        graph.erase_node(node)
    graph.set_codegen(torch.fx.graph.CodeGen())
    return GraphModule(torch.nn.Module(), graph), tuple(given)


def apart(got: Any, expected: Any) -> float:
    """Share of elements whose bits differ."""
    several = isinstance(got, (tuple, list))
    pairs = list(zip(got, expected, strict=True)) if several else [(got, expected)]
    same = sum(int(((a == b) | ((a != a) & (b != b))).sum()) for a, b in pairs)
    count = sum(a.numel() for a, _ in pairs)
    return 1.0 - same / count
