"""What a node of a functional ATen graph is: whether kernels may compute it, and whether it only views memory."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch.fx import Node

from . import _dtypes, _native
from ._graph import in_vectors, memory_order, value

# Libraries compute these: nothing is gained by asking the compiler.
_LIBRARY = (
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten.baddbmm",
    "aten.matmul",
    "aten.linear",
    "aten.convolution",
    "aten._grouped_mm",
    "aten._scaled_mm",
    "aten._scaled_grouped_mm",
    "aten.scaled_dot_product_attention",
    "aten._scaled_dot_product",
)


def target_name(node: Node) -> str:
    """The name of a node's operator, such as ``aten.add.Tensor``."""
    return str(node.target)


def is_getitem(node: Node) -> bool:
    """Whether a node takes one of the results of another."""
    return node.op == "call_function" and node.target is operator.getitem


def is_call(node: Node) -> bool:
    """Says whether a node calls a part that was fused, by its function."""
    return node.op == "call_function" and getattr(node.target, "__module__", None) == __package__


def is_view(node: Node) -> bool:
    """Whether a node's result is other strides over the memory of its operand, at no cost."""
    if is_getitem(node):
        source = node.args[0]
        return isinstance(source, Node) and is_view(source)
    return is_view_operator(node.target)


def is_view_operator(target: object) -> bool:
    """Whether an operator's results are other strides over the memory of its operand, at no cost."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target is torch.ops.aten._unsafe_view.default:
        # A view but for gradients, of which it says that nothing else sees the memory.
        return True
    returns = target._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


#: Where copies into another order are faster by a kernel: PyTorch's own moves single elements on GPUs.
_COPIES_ON = ("cuda",)


def is_copy(node: Node) -> bool:
    """Whether a node's result is the elements of its operand in memory of their own."""
    return node.target is torch.ops.aten.clone.default


def is_faster_copy(node: Node) -> bool:
    """Whether a node is a copy that kernels make faster than the framework's: of whole vectors into another order."""
    if not is_copy(node):
        return False
    (operand, *_), made = node.all_input_nodes, value(node)
    given = value(operand)
    if not isinstance(made, torch.Tensor) or not isinstance(given, torch.Tensor):
        return False
    if made.device.type not in _COPIES_ON or refusal(node) is not None:
        return False
    order = memory_order(made)
    # Where elements lie as they did, memory is copied as it is.
    return not given.permute(order).is_contiguous() and in_vectors(given, order)


#: Operators whose results share memory with their operand, of which their schemas say nothing.
_UNSAFE = ("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes")


def gives_argument(node: Node) -> bool:
    """Says whether a result of an operator has the memory of an argument."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return any(r.alias_info is not None for r in target._schema.returns) or target._opname in _UNSAFE


def mutates(node: Node) -> bool:
    """Whether a node writes into a tensor that was there before."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def is_splitting(node: Node, operators: Collection[str]) -> bool:
    """Whether a node calls one of some operators, whose names may have an overload or not.

    A kernel of attention that PyTorch chose for it counts as attention, and so does the functional form of an operator that
    writes as that operator.
    """
    if not operators or node.op != "call_function":
        return False
    called: Any = node.target
    if isinstance(called, torch._ops.HigherOrderOperator) and node.args:
        called = node.args[0]
    if not isinstance(called, torch._ops.OpOverload):
        return False
    name = str(called)
    plain = name.rpartition(".")[0]
    if plain.startswith("aten._scaled_dot_product_"):
        plain = "aten.scaled_dot_product_attention"
    return name in operators or plain in operators


def tensors(found: Any) -> Iterator[torch.Tensor]:
    """The tensors of a node's value."""
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, (tuple, list)):
        for item in found:
            yield from tensors(item)


def is_scalar(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a number of the host, which ops on any device take, as they take an epsilon."""
    return tensor.ndim == 0 and tensor.device.type == "cpu"


#: Ops whose kernels compare elements with each other, and the names of their arguments behind the tensor.
_COMPARING = {
    "aten.sort": ("dim", "descending"),
    "aten.argsort": ("dim", "descending"),
    "aten.topk": ("k", "dim"),
    "aten.cumsum": ("dim",),
    "aten.cumprod": ("dim",),
    "aten.cummax": ("dim",),
    "aten.cummin": ("dim",),
    "aten.logcumsumexp": ("dim",),
    "aten.histc": ("bins",),
}
#: Most comparisons for a row: beyond it a sort, which takes several passes, is faster.
_MOST_COMPARED = 4096
#: Most of all of them on a GPU, whose threads make so many at once.
_MOST_COMPARED_AT_ONCE = 1 << 20
#: Ops whose kernels put a row in order on a GPU: lanes up to so many are counted at once, and of more lanes only so many
#: are found, as all threads of a row wait for each of them.
_ORDERING = ("aten.sort", "aten.argsort", "aten.topk")
_MOST_RANKED = 512
_MOST_FOUND = 16


def refusal(node: Node) -> str | None:
    """Why the compiler is not asked for a node, if it is not."""
    if node.op != "call_function":
        return "it is no operator"
    if is_getitem(node):
        source = node.args[0]
        return refusal(source) if isinstance(source, Node) else "it takes a part of a constant"
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "it is no operator of a schema"
    name = target_name(node)
    if any(name.startswith(library) and not name[len(library) :].startswith("_b") for library in _LIBRARY):
        return "a library computes it"
    if target._schema.is_mutable:
        return "it writes into a tensor that was there before"
    if torch.Tag.nondeterministic_seeded in target.tags:
        return "it is random"
    if not _native.knows(name):
        return "the compiler does not know it"
    results = list(tensors(value(node)))
    if not results:
        return "it has no tensor results"
    operands = [t for operand in node.all_input_nodes for t in tensors(value(operand))]
    for tensor in (*results, *operands):
        if not _dtypes.is_known(tensor):
            return f"kernels have no {tensor.dtype} of layout {tensor.layout}"
        if tensor.device != results[0].device and not is_scalar(tensor):
            return f"its tensors lie on {results[0].device} and {tensor.device}"
    if _compares_too_much(node):
        return "kernels compare all elements with each other, which takes longer than PyTorch's own way"
    return _absent(results[0].device)


def _compares_too_much(node: Node) -> bool:
    """Whether a kernel would compare so many pairs of elements that another way is faster, or it is not known how many."""
    name = target_name(node).rpartition(".")[0]
    operand = node.args[0] if node.args else None
    tensor = value(operand) if isinstance(operand, Node) else None
    if name not in _COMPARING or not isinstance(tensor, torch.Tensor) or tensor.ndim == 0:
        return False
    given = {**dict(zip(_COMPARING[name], node.args[1:])), **node.kwargs}
    dim, others = given.get("dim", -1), given.get("k", given.get("bins"))
    lanes = tensor.numel() if name == "aten.histc" else tensor.shape[dim if isinstance(dim, int) else -1]
    others = lanes if others is None else others
    if not isinstance(lanes, int) or not isinstance(others, int):
        return True
    if tensor.device.type != "cuda":
        return lanes * others > _MOST_COMPARED
    if name in _ORDERING:
        return lanes > _MOST_RANKED and (others > _MOST_FOUND or lanes * others > _MOST_COMPARED)
    all_lanes = tensor.numel()
    return lanes * others > _MOST_COMPARED and not (
        isinstance(all_lanes, int) and all_lanes * others <= _MOST_COMPARED_AT_ONCE
    )


def _absent(on: torch.device) -> str | None:
    """Why there are no kernels for a device, if there are none."""
    if on.type == "cpu":
        return None
    return None if on.type == "cuda" and _native.HAS_CUDA else f"this build has no kernels for {on.type}"


def device(node: Node) -> torch.device:
    """The device of the results of a node that is not refused."""
    return next(tensors(value(node))).device


def source_line(node: Node) -> str | None:
    """``file:line`` of the innermost frame of the model that a node came from."""
    trace = node.meta.get("stack_trace") or ""
    frames = [line.strip() for line in trace.splitlines() if line.strip().startswith('File "')]
    own = [frame for frame in frames if "/site-packages/torch/" not in frame] or frames
    if not own:
        return None
    path, _, rest = own[-1].removeprefix('File "').partition('", line ')
    return f"{path}:{rest.split(',')[0]}"
