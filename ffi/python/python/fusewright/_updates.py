"""New values of tensors of the caller: which node gives one, and what of it is written where the tensor lies.

A graph without effects says what a write leaves as a whole tensor, and copies that to the caller's at its end. Where nothing
needs the old elements any more, only the part is written: by a kernel that computes it, or as a view that is copied to.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from ._graph import value
from ._nodes import is_getitem, is_view

_aten = torch.ops.aten

#: Ops that give a tensor with a part of it replaced, and what takes that part.
_PARTS: dict[Any, Any] = {
    _aten.select_scatter.default: _aten.select.int,
    _aten.slice_scatter.default: _aten.slice.Tensor,
    _aten.diagonal_scatter.default: _aten.diagonal.default,
    _aten.as_strided_scatter.default: _aten.as_strided.default,
}


def is_part_write(node: Node) -> bool:
    """Says whether a node gives a tensor with a part of it replaced."""
    return node.op == "call_function" and node.target in _PARTS


def is_last_of(given: Node, new: Node, inside: Collection[Node] = ()) -> bool:
    """Says whether a node is the new value of a tensor of the graph's caller, who gets it at the end, and nothing but nodes
    ``inside`` a part and what stands before it reads the old one: the memory may be overwritten at the node.
    """
    if given.op != "placeholder" or any(user.op == "output" for user in new.users):
        return False
    written = False
    for user in _readers(given):
        if user is new or user in inside:
            continue
        if user.target is _aten.copy_.default and user.args[0] is given and not written:
            written = _views(user.args[1], new)
            if not written:
                return False
        elif user.op == "output" or not user < new:
            return False
    return written


def _readers(given: Node) -> Iterator[Node]:
    """Yields the readers of a tensor and of its views, but for those that ask for sizes alone."""
    views, seen = [given], {given}
    while views:
        view = views.pop()
        for user in view.users:
            if user in seen or isinstance(value(user), (int, torch.SymInt)):
                continue
            if user.target is _aten.copy.default and user.args[0] is view and user.args[1] is not view:
                # Of what is replaced as a whole it takes the shape.
                continue
            seen.add(user)
            if is_view(user):
                views.append(user)
            else:
                yield user


def _views(node: Any, of: Node) -> bool:
    """Says whether a node is another, or all of it in another shape."""
    while isinstance(node, Node) and node is not of:
        if not is_view(node) or is_getitem(node):
            return False
        operand = node.all_input_nodes[0]
        if value(operand).numel() != value(node).numel():
            return False
        node = operand
    return node is of


def drop_forms(graph: Graph) -> None:
    """Replaces ``copy``, which takes nothing but the form of its first operand, by the elements that it copies: whoever
    computes those would read the tensor of the caller for its form.
    """
    for node in graph.find_nodes(op="call_function", target=_aten.copy.default):
        form, source = node.args[:2]
        if not isinstance(source, Node) or not isinstance(form, Node):
            continue
        given, made = value(source), value(node)
        alike = made.stride() == given.stride() or all(map(_takes_any_form, node.users))
        if made.shape != given.shape or made.dtype != given.dtype or made.device != given.device or not alike:
            continue
        node.replace_all_uses_with(source)
        graph.erase_node(node)


def _takes_any_form(node: Node) -> bool:
    """Says whether a node only copies elements, wherever they lie."""
    return is_part_write(node) or node.target is _aten.copy_.default


def read_before(graph: Graph, among: Container[Node] | None = None) -> dict[Node, list[Node]]:
    """Finds the nodes that give new values of tensors of the caller by writing parts, and for each of them the readers of the
    old value, which must come first.

    A write with a reader behind it is left out. ``among`` are the writes that this found before nodes were replaced: all of
    them are taken, as what reads may stand behind them now.
    """
    position = {node: i for i, node in enumerate(graph.nodes)}
    found: dict[Node, list[Node]] = {}
    for end in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        given, new = end.args[:2]
        if not isinstance(given, Node) or given.op != "placeholder":
            continue
        writes = _Writes(set(), [])
        whole = writes.of(new, given, ())
        if whole is None:
            continue
        last, _ = whole
        readers = [node for node in _readers(given) if node not in writes.nodes and not _is_update(node, given)]
        if last in among if among is not None else all(position[node] < position[last] for node in readers):
            found[last] = readers
    return found


def written_elsewhere(graph: Graph) -> Iterator[Node]:
    """The nodes that replace parts of tensors of the caller."""
    for end in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        given = end.args[0]
        if isinstance(given, Node) and given.op == "placeholder":
            nodes = [end.args[1]]
            while nodes:
                node = nodes.pop()
                if not isinstance(node, Node):
                    continue
                if is_part_write(node):
                    yield node
                    nodes += node.args[:2]
                elif is_view(node) and not is_getitem(node):
                    nodes += node.all_input_nodes


def keep_read(graph: Graph, given: Node, call: Node) -> None:
    """Gives a copy of a tensor to those that read it behind the call that overwrites it: nothing else says that they come
    first.
    """
    late = [node for node in _readers(given) if call < node and not _is_update(node, given)]
    if not late:
        return
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        old = graph.call_function(_aten.clone.default, (given,))
    old.meta["val"] = value(given)
    for user in list(given.users):
        if user is not old and user is not call and not _is_update(user, given):
            user.replace_input_with(given, old)


def _is_update(node: Node, given: Node) -> bool:
    return node.target is _aten.copy_.default and node.args[0] is given


def write_parts(graph: Graph) -> None:
    """Writes parts of tensors of the caller that are left to PyTorch where they lie: a view that is copied to, in the place
    of a whole new tensor that is copied.
    """
    for end in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        given, new = end.args[:2]
        if not isinstance(given, Node) or not isinstance(new, Node):
            continue
        found = _Writes(set(), [])
        whole = found.of(new, given, ())
        if whole is None or not is_last_of(given, new, found.nodes):
            continue
        if any(_is_of(source, given) for _, source in found.writes):
            continue
        last, into = whole
        found.insert_behind(last, given)
        # Whoever reads it behind the writes reads what they leave.
        new.replace_all_uses_with(given)
        last.replace_all_uses_with(into)
        graph.erase_node(end)


def _is_of(node: Any, given: Node) -> bool:
    """Says whether a node is a view of another."""
    while isinstance(node, Node) and node is not given and is_view(node):
        node = node.all_input_nodes[0]
    return node is given


@dataclass(frozen=True)
class _View:
    """An op that views its first operand."""

    target: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, node: Node, target: Any = None) -> _View:
        """A node as such an op, or as another one with its arguments behind the first; behind two of a write."""
        args = node.args[1:] if target is None else node.args[2:]
        return cls(node.target if target is None else target, tuple(args), tuple(node.kwargs.items()))

    def shown(self, tensor: torch.Tensor) -> torch.Tensor:
        """The view of a traced tensor."""
        known = map_arg(self.args, value)
        made: torch.Tensor = self.target(tensor, *known, **dict(self.kwargs))
        return made


@dataclass(frozen=True)
class _Writes:
    """Copies into views of a tensor, in order, and the nodes that express them without effects."""

    nodes: set[Node]
    writes: list[tuple[tuple[_View, ...], Any]]

    def of(self, new: Any, base: Node, views: tuple[_View, ...]) -> tuple[Node, Node] | None:
        """Notes what a node writes into ``base``, which ``views`` show: its last write of all of that, and the form of the
        base that this is a write into. ``None`` if it is more than writes of parts.
        """
        back: list[_View] = []
        while isinstance(new, Node) and is_view(new) and not is_getitem(new):
            back.append(_View.of(new))
            new = new.all_input_nodes[0]
        if not isinstance(new, Node) or not is_part_write(new):
            return None
        into = _written_first(new)
        way = _between(base, into)
        if way is None or not _restores(base, into, back):
            return None
        return (new, into) if self._parts(new, into, (*views, *way)) else None

    def _parts(self, new: Node, base: Node, views: tuple[_View, ...]) -> bool:
        self.nodes.add(new)
        into, source = new.args[:2]
        if into is not base and not (isinstance(into, Node) and self._parts(into, base, views)):
            return False
        view = _View.of(new, _PARTS[new.target])
        if isinstance(source, Node) and source.target is _aten.copy.default:
            source = source.args[1]
        if isinstance(source, Node) and source.target is view.target and _View.of(source) == view:
            if source.args[0] is into:
                # What stands there already.
                return True
        inner = source
        while isinstance(inner, Node) and is_view(inner) and not is_getitem(inner):
            inner = inner.all_input_nodes[0]
        if isinstance(inner, Node) and is_part_write(inner):
            within = _written_first(inner)
            while within is not base and is_view(within) and _View.of(within) != view:
                within = within.all_input_nodes[0]
            if within is base or not is_view(within) or within.args[0] not in (base, into):
                return False
            return self.of(source, within, (*views, view)) is not None
        self.writes.append(((*views, view), source))
        return True

    def insert_behind(self, last: Node, given: Node) -> None:
        """Makes the copies."""
        graph = given.graph
        for views, source in self.writes:
            at = given
            for view in views:
                with graph.inserting_after(last):
                    last = graph.call_function(view.target, (at, *view.args), dict(view.kwargs))
                last.meta["val"] = view.shown(value(at))
                at = last
            with graph.inserting_after(last):
                last = graph.call_function(_aten.copy_.default, (at, source))
            last.meta["val"] = value(at)


def _written_first(node: Any) -> Any:
    """Gives the tensor that the first of several writes, each into the result of the one before, writes into."""
    while isinstance(node, Node) and is_part_write(node):
        node = node.args[0]
    return node


def _between(base: Node, to: Any) -> tuple[_View, ...] | None:
    """The views of all of one node that lead to another."""
    way: list[_View] = []
    while to is not base:
        if not isinstance(to, Node) or not is_view(to) or is_getitem(to):
            return None
        way.append(_View.of(to))
        to = to.all_input_nodes[0]
        if value(to).numel() != value(base).numel():
            return None
    return tuple(reversed(way))


def _restores(base: Node, into: Node, back: list[_View]) -> bool:
    """Says whether views of a view of a tensor are that tensor again."""
    whole, shown = value(base), value(into)
    for view in reversed(back):
        shown = view.shown(shown)
    lies = [(tuple(t.shape), t.stride(), t.storage_offset()) for t in (whole, shown)]
    return bool(lies[0] == lies[1])
