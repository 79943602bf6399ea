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


#: What stands for each call of a library in :func:`stood_in`, and memory that compiled code may overwrite.
RESULTS: list[tuple[torch.Tensor, torch.Tensor]] = []
#: What calls of libraries were given, if somebody looks.
SEEN: list[torch.Tensor] | None = None


@torch.library.custom_op("fusewright_benches::library", mutates_args=())
def library(operands: list[torch.Tensor], number: int) -> torch.Tensor:
    """The result of a call of a library, which is there already: nothing runs on the device unless somebody looks."""
    result, memory = RESULTS[number]
    if SEEN is None:
        return memory
    SEEN.extend(operand.clone() for operand in operands)
    return result.clone()


@library.register_fake
def _(operands: list[torch.Tensor], number: int) -> torch.Tensor:
    made, _ = RESULTS[number]
    return torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=made.device)


def stood_in(module: torch.nn.Module, inputs: Tensors) -> tuple[GraphModule, Tensors]:
    """The module as a function of its inputs and weights, whose calls of libraries cost nothing on the device.

    Unlike in :func:`rest`, what lies behind a product still waits for what lies before it, as it does in the model.
    """
    with torch.no_grad():
        program = torch.export.export(module, inputs, strict=False).run_decompositions({})
    held: dict[str, torch.Tensor] = {**program.state_dict, **program.constants}
    spec = program.graph_signature
    names = {**spec.inputs_to_parameters, **spec.inputs_to_buffers, **spec.inputs_to_lifted_tensor_constants}
    graph, users = program.graph, iter(inputs)
    RESULTS.clear()
    for node in list(graph.nodes):
        packet = getattr(node.target, "overloadpacket", None)
        if node.op == "call_function" and packet is not None and packet.__name__ in LIBRARY:
            made = node.meta["val"]
            result = torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=made.device)
            operands = [operand for operand in node.all_input_nodes if operand.target not in names]
            with graph.inserting_after(node):
                stand_in = graph.call_function(torch.ops.fusewright_benches.library.default, (operands, len(RESULTS)))
            RESULTS.append((result.normal_(), result.clone()))
            node.replace_all_uses_with(stand_in)
            graph.erase_node(node)
    given, placeholders = [], [node for node in graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        tensor = held[names[node.name]].detach() if node.name in names else next(users)
        if node.users:
            given.append(tensor)
        else:
            graph.erase_node(node)
    graph.set_codegen(torch.fx.graph.CodeGen())
    return GraphModule(torch.nn.Module(), graph), tuple(given)


def looked_at(call: Any, inputs: Tensors) -> list[torch.Tensor]:
    """The results of a function that :func:`stood_in` made, and all that its calls of libraries are given."""
    global SEEN
    SEEN = []
    try:
        got = call(*inputs)
        return [*(got if isinstance(got, (tuple, list)) else [got]), *SEEN]
    finally:
        SEEN = None


def apart(got: Any, expected: Any) -> float:
    """Share of elements whose bits differ."""
    several = isinstance(got, (tuple, list))
    pairs = list(zip(got, expected, strict=True)) if several else [(got, expected)]
    same = sum(int(((a == b) | ((a != a) & (b != b))).sum()) for a, b in pairs)
    count = sum(a.numel() for a, _ in pairs)
    return 1.0 - same / count
