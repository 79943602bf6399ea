"""Operators that PyTorch runs, by the shortest call that it has for them.

Between kernels a layer is views and products, whose calls cost the host more than their work at few rows: a method costs
less than half of what the operator's own object does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from ._graph import value
from ._nodes import gives_argument, is_call, is_getitem, is_view_operator

_aten = torch.ops.aten
_guards: Any = torch._C._dynamo.guards  # pyright: ignore[reportAttributeAccessIssue]
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
#: Products that :func:`torch.nn.functional.linear` calls for a weight, the second with a sum behind it.
_PRODUCTS = frozenset((_aten.mm.default, _aten.addmm.default))
#: Operators whose results are their operand, and those that show all of its elements in the same order.
_WHOLE = frozenset((_aten.alias.default, _aten.detach.default))
_RESHAPING = _WHOLE | {_aten._unsafe_view.default, _aten.view.default}
#: Views by other strides, and operators that give several.
_STRIDED = frozenset((_aten.as_strided.default, _aten.slice.Tensor))
_SEVERAL = frozenset((_aten.split.Tensor, _aten.split_with_sizes.default))
#: Operators that make memory, whatever is in it.
_EMPTY = frozenset((_aten.empty.memory_format, _aten.empty_strided.default, _aten.new_empty.default))
#: Those methods that show memory of the tensor.
VIEWS = frozenset(name for operator, name in _METHODS.items() if is_view_operator(operator))
#: The same of functions; of these also for numbers in a tensor's place.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    _aten.add.Tensor: torch.add,
    _aten.addmm.default: torch.addmm,
    _aten.cat.default: torch.cat,
    _aten.mul.Tensor: torch.mul,
}


def copied(graph: Graph) -> Graph:
    """A graph of the same nodes, which has their names, values and traces."""
    made = Graph(tracer_cls=graph._tracer_cls)
    nodes: dict[Node, Node] = {}
    for node in graph.nodes:
        nodes[node] = made.node_copy(node, nodes.__getitem__)
    made.set_codegen(graph._codegen)
    return made


def shorten(graph: Graph) -> None:
    """Replaces operators by such calls, each of which gives the same tensor as before, and leaves out views that show nothing
    new: all of a tensor in its own shape, and what another view is made of.
    """
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _RESHAPING:
            _skip_views(node)
    for node in reversed(graph.nodes):
        if node.op == "call_function" and node.target in _RESHAPING and not node.users:
            graph.erase_node(node)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _PRODUCTS:
            _take_weight(node)
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


def _take_weight(node: Node) -> None:
    """Makes a product with a turned weight, as models have it, one call: that turns it itself, and is the same product."""
    *more, x, turned = node.args
    if not isinstance(turned, Node) or turned.target is not _aten.t.default:
        return
    # A sum with anything but a row for each output is another function.
    added = [value(each).ndim if isinstance(each, Node) else 0 for each in more]
    if node.kwargs or value(turned).ndim != 2 or any(rank != 1 for rank in added):
        return
    weight = turned.args[0]
    with node.graph.inserting_before(node):
        short = node.graph.call_function(torch.nn.functional.linear, (x, weight, *more))
    short.meta = node.meta
    node.replace_all_uses_with(short)
    node.graph.erase_node(node)
    if not turned.users:
        node.graph.erase_node(turned)


def bind(graph: Graph) -> None:
    """Replaces operators that make memory, and views of such memory and of results of fused parts, by functions of this
    process, and what is left of operators by the functions that their objects call. Nothing of these can be written.

    Of other memory PyTorch's tracing does not always tell how it lies.
    """
    sizes: dict[Any, Node] = {}
    sure: set[Node] = set()
    fresh: list[Node] = []
    for node in list(graph.nodes):
        made = value(node)
        if isinstance(made, torch.SymInt):
            sizes.setdefault(made.node.expr, node)
        if is_call(node) or (is_getitem(node) and is_call(node.args[0])):
            sure.add(node)
        if not isinstance(made, torch.Tensor):
            continue
        lies = _known(made.shape, sizes), _known(made.stride(), sizes)
        given = _viewed(node)
        short: tuple[Any, ...]
        if (
            node.target in _EMPTY
            and not node.kwargs.get("pin_memory")
            and (empty := _empty_on(made.device)) is not None
        ):
            short = (empty, *lies, made.dtype)
        elif given in sure and made.dtype == value(given).dtype:
            # Of a view of a view the first is enough.
            while given.target is _guards._reinterpret_tensor:
                (given,) = given.all_input_nodes[:1]
            short = (_guards._reinterpret_tensor, given, *lies, made.storage_offset() - value(given).storage_offset())
        else:
            continue
        if None in short or isinstance(short[-1], torch.SymInt):
            continue
        with graph.inserting_before(node):
            replaced = graph.call_function(short[0], short[1:])
        sure.add(replaced)
        if short[0] is not _guards._reinterpret_tensor:
            fresh.append(replaced)
        replaced.meta = node.meta
        node.replace_all_uses_with(replaced)
        graph.erase_node(node)
    _share(graph, fresh)
    for node in reversed(graph.nodes):
        is_view = node.op == "call_function" and (node.target in _SEVERAL or node.target is _guards._reinterpret_tensor)
        if is_view and not node.users:
            graph.erase_node(node)
        elif type(node.target) is torch._ops.OpOverload:
            node.target = _direct(node.target)


def _share(graph: Graph, fresh: Sequence[Node]) -> None:
    """Gives memory that nobody looks at any more to the next tensor of the same sizes, strides and dtype.

    ``fresh`` are nodes that make memory, in the order of the graph.
    """
    places = {node: place for place, node in enumerate(graph.nodes)}
    ends = {node: _end(node, places) for node in fresh}
    free: dict[Any, list[Node]] = {}
    for node in fresh:
        known = free.setdefault((node.target, node.args), [])
        earlier = next((other for other in known if ends[other] < places[node]), None)
        if earlier is None:
            known.append(node)
            continue
        node.replace_all_uses_with(earlier)
        ends[earlier] = ends[node]
        graph.erase_node(node)


def _end(node: Node, places: dict[Node, int]) -> float:
    """The last place where something looks at memory, through any view; endless where a view may leave the graph."""
    end, shown, seen = places[node], [node], {node}
    while shown:
        for user in shown.pop().users:
            if user.op == "output":
                return math.inf
            end = max(end, places[user])
            if user not in seen and not _gives_fresh(user):
                seen.add(user)
                shown.append(user)
    return end


def _gives_fresh(node: Node) -> bool:
    """Says whether what a node gives is surely no view of an operand."""
    made = value(node)
    if not isinstance(made, (torch.Tensor, tuple, list)):
        return True
    if node.op == "call_method":
        return node.target in _METHODS.values() and node.target not in VIEWS
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return not is_view_operator(target) and not gives_argument(node)
    return (
        target in _FUNCTIONS.values()
        or target is torch.nn.functional.linear
        or (is_call(node) and not getattr(target, "overwrites", True))
    )


@functools.cache
def _direct(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """Gives the function that an operator's object calls, under a name that code can have."""
    called: Any = functools.partial(operator._op)
    called.__name__, called.__module__ = operator._opname, operator.namespace
    return called


def _viewed(node: Node) -> Node | None:
    """The tensor that a node is other strides of, if it is only that."""
    if is_getitem(node):
        source = node.args[0]
        given = source.args[0] if isinstance(source, Node) and source.target in _SEVERAL else None
    else:
        is_one = (
            node.target in VIEWS if node.op == "call_method" else node.target in _RESHAPING or node.target in _STRIDED
        )
        given = node.args[0] if is_one else None
    return given if isinstance(given, Node) else None


def _known(sizes: Sequence[int | torch.SymInt], nodes: dict[Any, Node]) -> tuple[int | Node, ...] | None:
    """Sizes as numbers and nodes, if there are such."""
    found = [nodes.get(size.node.expr) if isinstance(size, torch.SymInt) else size for size in sizes]
    known = tuple(size for size in found if size is not None)
    return known if len(known) == len(found) else None


def _empty_on(device: torch.device) -> Callable[..., torch.Tensor] | None:
    """Gives what makes a tensor on a device, which is the current one whenever it is called."""
    is_only = device.type == "cpu" or (device.type == "cuda" and torch.cuda.device_count() == 1)
    return empty_strided(device) if is_only else None


def empty_strided(device: torch.device) -> Callable[..., torch.Tensor] | None:
    """What makes a tensor of sizes, strides and dtype, the shortest way that this version of PyTorch has."""
    found: Callable[..., torch.Tensor] | None = getattr(_guards, f"_empty_strided_{device.type}", None)
    return found


def _skip_views(node: Node) -> None:
    """Takes a view of what lies behind others, or puts that in its place if that is the same tensor."""
    while node.target not in _WHOLE and (inner := _behind(node.args[0])) is not None:
        node.update_arg(0, inner)
    given, made = node.args[0], value(node)
    if not isinstance(given, Node) or any(user.op == "output" for user in node.users):
        # What a graph gives is a tensor of its own.
        return
    shown = value(given)
    if _is_plain(shown) and isinstance(made, torch.Tensor) and made.dtype == shown.dtype:
        if list(map(_expression, made.shape)) == list(map(_expression, shown.shape)):
            node.replace_all_uses_with(given)


def _behind(view: Any) -> Node | None:
    """The tensor that a view shows all of, if it lies in row-major order."""
    if not isinstance(view, Node) or view.op != "call_function" or view.target not in _RESHAPING:
        return None
    given = view.args[0]
    return given if isinstance(given, Node) and _is_plain(value(given)) else None


def _is_plain(tensor: Any) -> bool:
    """Says whether elements lie in row-major order without gaps, so that every view of all of them does."""
    return isinstance(tensor, torch.Tensor) and tensor.is_contiguous()


def _expression(size: int | torch.SymInt) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size
