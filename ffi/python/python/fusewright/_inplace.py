"""Calls of operators that write into their arguments, in the place of their functional forms.

PyTorch puts such a call into a graph without effects as an operator of higher order, which copies what is written, and runs
in Python. Where nothing reads what was there before, the call itself does: it writes where the tensor lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch._higher_order_ops import auto_functionalize as forms
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from ._graph import memory_order, value
from ._nodes import gives_argument, is_call, is_getitem, is_view
from ._short import VIEWS

_aten = torch.ops.aten


def write_in_place(graph: Graph, shared: Collection[Node] = ()) -> None:
    """Replaces functional forms of operators that write by the operators.

    ``shared`` are nodes whose memory is that of others, although no schema says so: what they give is copied first.
    Forms that this does not know stay.
    """
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        form = _Form.of(node)
        if form is None:
            continue
        copied = {i for i, base in enumerate(form.bases) if base is not None and not _is_free(form, i, shared)}
        if all(_is_copied_as_it_lies(form.bases[i]) for i in copied):
            form.replace(copied)
    for end in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        if end.args[0] is end.args[1]:
            graph.erase_node(end)


@dataclass(frozen=True)
class _Form:
    """A functional form: its node, the operator, what that writes into, and all other arguments."""

    node: Node
    operator: torch._ops.OpOverload
    bases: tuple[Node | None, ...]
    #: By names of arguments, how they view one of the bases, or several of them.
    views: dict[str, Any]
    given: dict[str, Any]

    @classmethod
    def of(cls, node: Node) -> _Form | None:
        """The form that a node is, if it is one whose results are taken one by one."""
        operator = node.args[0] if node.args else None
        if not isinstance(operator, torch._ops.OpOverload) or not all(map(is_getitem, node.users)):
            return None
        given: dict[str, Any] = dict(node.kwargs)
        names, types = forms.get_mutable_args(operator)
        if node.target is forms.auto_functionalized_v2:
            bases = given.pop("_all_bases", None)
            if not bases or "_only_clone_these_bases" in given:
                return None
            views = forms.read_view_information_from_args(names, types, given, bases)
        elif node.target is forms.auto_functionalized:
            bases = [given.pop(name) for name in names]
            views = {name: base and forms.NotView(i) for i, (name, base) in enumerate(zip(names, bases, strict=True))}
        else:
            return None
        if not all(base is None or isinstance(base, Node) for base in bases) or not _are_known(views):
            return None
        return cls(node, operator, tuple(bases), views, given)

    def results(self) -> int:
        """How many results stand before the bases: of an operator that gives nothing, one that is nothing."""
        return max(1, len(self.operator._schema.returns))

    def replace(self, copied: Collection[int]) -> None:
        """Puts the operator in the place of the form, behind copies of some bases."""
        graph = self.node.graph
        with graph.inserting_before(self.node):
            bases = [_copy(base) if i in copied and base is not None else base for i, base in enumerate(self.bases)]
            call = self._call(graph, bases)
            if self.results() > 1:
                found = [graph.call_function(getitem, (call, i)) for i in range(self.results())]
            else:
                found = [call]
        traced = value(self.node)
        if isinstance(traced, (tuple, list)):
            call.meta["val"] = traced[0] if found[0] is call else tuple(traced[: len(found)])
            if found[0] is not call:
                for result, shown in zip(found, traced):
                    result.meta["val"] = shown
        if (trace := self.node.meta.get("stack_trace")) is not None:
            call.meta["stack_trace"] = trace
        every = [*found, *bases]
        for user in list(self.node.users):
            made = every[user.args[1]]  # type: ignore[index]
            if made is not None:
                user.replace_all_uses_with(made)
            graph.erase_node(user)
        graph.erase_node(self.node)

    def _call(self, graph: Graph, bases: Sequence[Node | None]) -> Node:
        given = dict(self.given)
        for name, view in self.views.items():
            several = [_seen(graph, each, bases) for each in (view if isinstance(view, list) else [view])]
            given[name] = several if isinstance(view, list) else several[0]
        arguments = self.operator._schema.arguments
        placed = [argument.name for argument in arguments if not argument.kwarg_only]
        args = []
        for name in placed:
            if name not in given:
                break
            args.append(given.pop(name))
        return graph.call_function(self.operator, tuple(args), given)


def _are_known(views: dict[str, Any]) -> bool:
    known = (forms.NotView, forms.AliasViewInfo, forms.SliceViewInfo, forms.AsStridedViewInfo, type(None))
    every = [view for found in views.values() for view in (found if isinstance(found, list) else [found])]
    return all(isinstance(view, known) for view in every)


def _seen(graph: Graph, view: Any, bases: Sequence[Node | None]) -> Node | None:
    """The node of a view of a base; the base itself where it is all of it."""
    if view is None:
        return None
    base = bases[view.base_index]
    assert base is not None, "a view has a base"
    if isinstance(view, forms.SliceViewInfo):
        made = graph.call_function(_aten.slice.Tensor, (base, view.dim, view.start, view.end))
    elif isinstance(view, forms.AsStridedViewInfo):
        args = (base, list(view.size), list(view.stride), view.storage_offset)
        made = graph.call_function(_aten.as_strided.default, args)
    else:
        return base
    known: Any = map_arg(made.args, value)
    # As tracing keeps values: a tensor that knows what it is a view of cannot be written.
    made.meta["val"] = made.target(*known).detach()  # type: ignore[operator]
    return made


def _copy(base: Node) -> Node:
    copied = base.graph.call_function(_aten.clone.default, (base,))
    copied.meta["val"] = value(base)
    return copied


def _is_copied_as_it_lies(base: Node | None) -> bool:
    """Says whether a copy of a tensor has its strides: where it has gaps, or begins elsewhere than its memory, it has not."""
    tensor = value(base) if base is not None else None
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor.storage_offset(), torch.SymInt):
        return False
    return bool(tensor.storage_offset() == 0 and tensor.permute(memory_order(tensor)).is_contiguous())


def _is_free(form: _Form, i: int, shared: Collection[Node]) -> bool:
    """Says whether a base may be written where it lies: nothing behind the form reads what was there before, and nothing
    that reads what the form leaves there comes behind the next write.
    """
    base = form.bases[i]
    assert base is not None, "what is not there is not copied"
    root = _root(base)
    beside = [other for j, other in enumerate(form.bases) if other is not None and j != i]
    map_arg(form.given, beside.append)
    if root in shared or not _is_own(root) or any(_root(node) is root for node in beside):
        return False
    if not all(reader < form.node for reader in _readers(root) if reader is not form.node):
        return False
    new = [user for user in form.node.users if user.args[1] == form.results() + i]
    ends = [end for end in _ends(root) if end.args[1] not in new]
    return all(reader < end for end in ends for result in new for reader in _readers(result))


def _root(node: Node) -> Node:
    """The node whose memory a node shows."""
    while True:
        shown = _shown(node)
        if shown is None:
            return node
        node = shown


def _shown(node: Node) -> Node | None:
    """Gives what a node is a view of, or wrote into and gives."""
    if node.op == "call_method":
        return node.all_input_nodes[0] if node.target in VIEWS else None
    if node.op != "call_function":
        return None
    if is_getitem(node):
        source = node.args[0]
        return source if isinstance(source, Node) and _shown(source) is not None else None
    if is_view(node) or gives_argument(node):
        return next((operand for operand in node.all_input_nodes if isinstance(value(operand), torch.Tensor)), None)
    return None


def _is_own(root: Node) -> bool:
    """Says whether memory is the graph's: it was made there, or is a tensor of the caller that is overwritten at the end."""
    if root.op != "call_function":
        return any(True for _ in _ends(root))
    source = root.args[0] if is_getitem(root) else root
    # Results of other forms that stayed may be one tensor.
    return isinstance(source, Node) and (isinstance(source.target, torch._ops.OpOverload) or is_call(source))


def _ends(root: Node) -> Iterator[Node]:
    """Yields the copies of new values over all of a tensor of the caller."""
    if root.op == "placeholder":
        yield from (user for user in root.users if user.target is _aten.copy_.default and user.args[0] is root)


def _readers(root: Node) -> Iterator[Node]:
    """Yields what reads memory, through any view, but for its sizes; a copy over all of it reads nothing."""
    shown, seen = [root], {root}
    while shown:
        for user in shown.pop().users:
            if user in seen or isinstance(value(user), (int, torch.SymInt)):
                continue
            seen.add(user)
            if _shown(user) is not None and _root(user) is root:
                shown.append(user)
                if is_getitem(user) or is_view(user):
                    continue
                source = user.args[1] if user.target is _aten.copy_.default and user.args[0] is root else None
                if isinstance(source, Node) and _root(source) is not root:
                    continue
            yield user


def written(node: Node) -> list[Node]:
    """The nodes whose memory an operator writes."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return []
    names, _ = forms.get_mutable_args(target)
    placed = dict(zip((argument.name for argument in target._schema.arguments), node.args))
    found: list[Node] = []
    map_arg([{**placed, **node.kwargs}.get(name) for name in names], found.append)
    return [_root(base) for base in found]
