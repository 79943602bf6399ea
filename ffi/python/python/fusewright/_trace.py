"""What ``fuse`` knows of a function for one kind of arguments: its graph, and when the graph is the function's."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.utils._pytree import TreeSpec, tree_unflatten

from ._backend import fuse_module
from ._fuse import Result
from ._layouts import Layouts
from ._native import CompileError
from ._nodes import is_view, mutates
from ._options import Options
from ._surroundings import has_attributes, weakly
from ._tracing import Tracing, Untraceable, meant, same
from ._variables import Bindings
from ._within import holds

Function = Callable[..., Any]

#: What is compared by its value; other objects are the same or are not.
_PLAIN = (bool, int, str, bytes, range, slice, torch.dtype, torch.device, torch.memory_format)


def _is_same(arg: Any, expected: Any) -> bool:
    """Whether an argument that is no tensor is the one that was traced, to the sign of a zero."""
    if arg is expected:
        return True
    if type(arg) is not type(expected):
        return False
    if isinstance(arg, float):
        same = arg == expected or (math.isnan(arg) and math.isnan(expected))
        return same and math.copysign(1.0, arg) == math.copysign(1.0, expected)
    if isinstance(arg, tuple):
        return len(arg) == len(expected) and all(map(_is_same, arg, expected))
    if isinstance(arg, types.MethodType):
        return arg.__self__ is expected.__self__ and arg.__func__ is expected.__func__
    if isinstance(arg, complex):
        return _is_same((arg.real, arg.imag), (expected.real, expected.imag))
    return isinstance(arg, _PLAIN) and bool(arg == expected)


@dataclasses.dataclass(eq=False)
class Trace:
    """A function's graph for arguments of one kind."""

    #: Per argument, those by name last: the dtype and device of a tensor, an object, or what else it must equal.
    expected: tuple[Any, ...]
    #: What the first argument is, if it is an object; else 0.
    first: int
    #: The names of arguments that have one.
    names: tuple[str, ...]
    result: Result
    function: Function
    #: Which arguments are tensors, and how they lie.
    tensors: tuple[int, ...]
    layouts: Layouts
    #: Which arguments are the same tensor: for each the first that is.
    same: tuple[int, ...]
    has_several: bool
    #: What the function found around it: entries of tables, lengths of tables, and what is in containers.
    entries: tuple[tuple[Any, Any, Any], ...]
    lengths: tuple[tuple[Any, int], ...]
    containers: tuple[tuple[Any, Any], ...]
    #: Where tensors are made unless it is said.
    default_device: torch.device | None
    #: The variables that it read.
    bindings: Bindings
    #: The weights among them, with what is known of each.
    weights: tuple[tuple[torch.Tensor, _Weight], ...]
    #: All tensors that the graph holds.
    constants: tuple[torch.Tensor, ...]
    #: Whether it writes into an argument.
    overwrites: bool
    #: How results are arranged, where they are not a tensor or a tuple of tensors, and which of them are arguments.
    arranged: TreeSpec | None
    returned: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, fn: Function, args: Sequence[Any], names: tuple[str, ...], options: Options) -> Trace:
        """Traces and fuses a function.

        Raises :class:`Untraceable` for one that looks at elements, or that PyTorch cannot trace for another reason.
        """
        try:
            tracing = Tracing(fn, args, names)
        except Exception as error:
            # What looks at itself, as proxies do, may raise what it likes.
            raise Untraceable(error) from error
        try:
            return cls._of(tracing, options)
        except Untraceable as refused:
            if not refused.needs_numbers:
                raise
        return cls._of(Tracing(fn, args, names, has_symbols=False), options)

    @classmethod
    def _of(cls, tracing: Tracing, options: Options) -> Trace:
        args, names = tracing.args, tracing.names
        gm = tracing.graph()
        overwrites = any(mutates(node) for node in gm.graph.nodes)
        if overwrites and _returns_overwritten(gm):
            raise Untraceable(CompileError("it gives a view of what it overwrites"))
        try:
            constants = tuple(held for held in _constants(gm) if isinstance(held, torch.Tensor))
            if any(isinstance(constant, FakeTensor) for constant in constants):
                raise Untraceable(CompileError("it makes a tensor that graphs do not make"))
            met = tracing.met()
            at = {tensor.data_ptr() for tensor in (*constants, *met)}
            entries, lengths = tracing.surroundings.guards(lambda tensor: tensor.data_ptr() in at)
            found = [held for _, _, held in entries if issubclass(type(held), torch.Tensor)]
            weights = {id(held): (held, _Weight.of(held)) for held in (*found, *constants, *met)}
        except RuntimeError as error:
            # It makes tensors of a kind that graphs have not.
            raise Untraceable(meant(error)) from error
        result = fuse_module(gm, options)
        return cls(
            expected=tuple(map(_expected, args)),
            first=id(args[0]) if args and type(_expected(args[0])) is _Object else 0,
            names=names,
            result=result,
            function=_shortest(GraphModule(gm, gm.graph)),
            tensors=tracing.tensors,
            layouts=tracing.layouts(),
            same=tracing.same,
            has_several=sum(isinstance(arg, torch.Tensor) for arg in args) > 1,
            entries=tuple(entries),
            lengths=tuple(lengths),
            containers=tuple(tracing.surroundings.containers),
            default_device=_default_device(),
            bindings=tracing.variables.bindings,
            weights=tuple(weights.values()),
            constants=(*found, *constants),
            overwrites=overwrites,
            arranged=tracing.arranged,
            returned=tuple(tracing.returned.items()),
        )

    def fits(self, args: Sequence[Any], names: tuple[str, ...]) -> bool:
        """Whether arguments are of the kind that was traced."""
        if len(args) != len(self.expected) or names != self.names:
            return False
        for arg, expected in zip(args, self.expected):
            if type(expected) is _Kind:
                if not isinstance(arg, torch.Tensor) or (arg.dtype, arg.device) != expected:
                    return False
            elif type(expected) is _Object:
                if expected.get() is not arg:
                    return False
            elif not _is_same(arg, expected):
                return False
        if self.has_several and same(args) != self.same:
            return False
        if not self.layouts.admit([args[i] for i in self.tensors]):
            return False
        if _default_device() != self.default_device or not self.bindings.are_kept(_is_same):
            return False
        for table, length in self.lengths:
            if len(table) != length:
                return False
        for table, name, held in self.entries:
            found = table.get(name, self)
            if found is not held and not _is_same(found, held):
                return False
        for container, before in self.containers:
            if not holds(container, before):
                return False
        for weight, known in self.weights:
            if _Weight.of(weight) != known:
                return False
        return True

    def is_of(self, objects: list[Any]) -> bool:
        """Whether the arguments that have attributes are these."""
        return holds([known.get() for known in self.expected if type(known) is _Object], objects)

    def is_trained(self) -> bool:
        """Whether a tensor that the graph holds needs gradients."""
        return any(constant.requires_grad for constant in self.constants)

    def shares_memory(self, args: Sequence[Any]) -> bool:
        """Whether tensors among the arguments lie in the same memory, or in that of one that the graph holds."""
        # Constants may be views of one weight.
        spans = [_span(arg) for arg in args if isinstance(arg, torch.Tensor) and arg.numel() > 0]
        spans += {_span(constant) for constant in self.constants}
        return any(after[0] < before[1] for before, after in itertools.pairwise(sorted(spans)))

    def run(self, args: Sequence[Any]) -> Any:
        """The results for arguments that fit."""
        made = self.function(*[args[i] for i in self.tensors])
        if self.arranged is None:
            return made
        results = list(made)
        for at, which in self.returned:
            results[at] = args[which]
        return tree_unflatten(results, self.arranged)


def _default_device() -> torch.device | None:
    """The device of the innermost ``with torch.device(…)``, or of what was set, where no other mode is active."""
    depth = torch._C._len_torch_function_stack()
    return torch._C._get_function_stack_at(depth - 1).device if depth else None


class _Kind(NamedTuple):
    """What tensors in one place have in common."""

    dtype: torch.dtype
    device: torch.device


class _Object(NamedTuple):
    """An object that has attributes: the same while it is there."""

    get: Callable[[], Any]


def _expected(arg: Any) -> Any:
    if isinstance(arg, torch.Tensor):
        return _Kind(arg.dtype, arg.device)
    return _Object(weakly(arg)) if has_attributes(arg) else arg


class _Weight(NamedTuple):
    """What makes a weight the tensor that a graph holds: its elements may change."""

    at: int
    dtype: torch.dtype
    shape: torch.Size
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Weight:
        return cls(tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The memory that a tensor lies in."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _returns_overwritten(gm: GraphModule) -> bool:
    """Whether a result of a graph lies in memory of an argument that it overwrites."""
    written = {node for mutating in gm.graph.nodes if mutates(mutating) for node in mutating.all_input_nodes}

    def root(node: Node) -> Node:
        while is_view(node) and node.all_input_nodes:
            node = node.all_input_nodes[0]
        return node

    roots = {root(node) for node in written} | written
    output = next(iter(reversed(gm.graph.nodes)))
    return any(root(node) in roots for node in output.all_input_nodes)


def _constants(gm: GraphModule) -> list[Any]:
    return [getattr(gm, str(node.target)) for node in gm.graph.nodes if node.op == "get_attr"]


def _shortest(gm: GraphModule) -> Function:
    """The fused call itself where the graph is nothing else, else the graph's own function."""
    nodes = list(gm.graph.nodes)
    if len(nodes) < 2:
        return gm.forward
    *inputs, made, output = nodes
    is_call = made.op == "call_function" and getattr(made.target, "__module__", None) == "fusewright"
    if is_call and all(node.op == "placeholder" for node in inputs) and output.args[0] is made:
        if list(made.args) == inputs:
            return made.target
    return gm.forward
