"""All that ``fuse`` knows of a function for one kind of calls: its graph, and when the graph is the function's."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node

from ._arguments import Call
from ._backend import fuse_module
from ._fuse import Result
from ._layouts import Layouts
from ._modules import Reads
from ._native import CompileError
from ._nodes import is_view, mutates
from ._options import Options
from ._results import Results
from ._tracing import Tracing, Untraceable, Varying, meant

Function = Callable[..., Any]


@dataclasses.dataclass(eq=False)
class Trace:
    """A function's graph for calls of one kind."""

    structure: tuple[Any, ...]
    #: The extents and the numbers of the first call, and what of them has a symbol.
    shapes: tuple[torch.Size, ...]
    numbers: tuple[int, ...]
    varying: Varying
    layouts: Layouts
    reads: Reads
    results: Results
    #: The parts that were fused, the graph with kernels, and the one without.
    result: Result
    function: Function
    unfused: GraphModule
    #: Where tensors are made, and of which dtype, unless it is said.
    default_device: torch.device | None
    default_dtype: torch.dtype
    #: Whether it writes into an argument.
    overwrites: bool
    #: Which numbers of a call the graph takes.
    taken: tuple[int, ...]
    #: How many calls were compared with the function's own.
    compared: int = 0

    @classmethod
    def of(
        cls,
        fn: Function,
        args: Sequence[Any],
        named: Mapping[str, Any],
        call: Call,
        varying: Varying,
        options: Options,
    ) -> Trace:
        """Traces and fuses a function.

        Raises :class:`Untraceable` for one that looks at elements, or that PyTorch cannot trace for another reason.
        """
        for symbols in (varying, None):
            try:
                try:
                    tracing = Tracing(fn, args, named, call, symbols)
                except Exception as error:
                    # What looks at itself, as proxies do, may raise what it likes.
                    raise Untraceable(error) from error
                return cls._of(tracing, call, symbols or (), options)
            except Untraceable as refused:
                # What has no graph with symbols may have one for these numbers alone.
                if symbols is None or refused.is_first or not (symbols or refused.needs_numbers):
                    raise
        raise AssertionError

    @classmethod
    def _of(cls, tracing: Tracing, call: Call, varying: Varying, options: Options) -> Trace:
        gm = tracing.graph()
        assert tracing.results is not None
        overwrites = any(mutates(node) for node in gm.graph.nodes)
        if overwrites and _returns_overwritten(gm):
            raise Untraceable(CompileError("it gives a view of what it overwrites"))
        held = [getattr(gm, str(node.target)) for node in gm.graph.nodes if node.op == "get_attr"]
        constants = [value for value in held if isinstance(value, torch.Tensor)]
        if any(isinstance(constant, FakeTensor) for constant in constants):
            raise Untraceable(CompileError("it makes a tensor that graphs do not make"))
        try:
            met = {id(tensor): tensor for tensor in (*constants, *tracing.met())}
            reads = Reads(tracing.modules(), met.values())
        except RuntimeError as error:
            # It makes tensors of a kind that graphs have not.
            raise Untraceable(meant(error)) from error
        unfused = GraphModule(gm, gm.graph)
        result = fuse_module(gm, options)
        for node in unfused.graph.nodes:
            # Values of the trace, which only the pass needs.
            node.meta.clear()
        return cls(
            structure=tuple(call.structure),
            shapes=tuple(tensor.shape for tensor in call.tensors),
            numbers=tuple(call.numbers),
            varying=varying,
            layouts=tracing.layouts,
            reads=reads,
            results=tracing.results,
            result=result,
            function=_shortest(GraphModule(gm, gm.graph)),
            unfused=unfused,
            default_device=default_device(),
            default_dtype=torch.get_default_dtype(),
            overwrites=overwrites,
            taken=tracing.taken,
        )

    def admits(self, call: Call) -> bool:
        """Whether a call of the same structure is of the kind that was traced."""
        defaults = default_device(), torch.get_default_dtype()
        return defaults == (self.default_device, self.default_dtype) and self.layouts.admit(call)

    def varies_to(self, call: Call) -> set[tuple[int, int | None]]:
        """What differs in a call from the one that was traced: axes of tensors, and numbers."""
        found = set[tuple[int, int | None]]()
        for i, (of, tensor) in enumerate(zip(self.shapes, call.tensors, strict=True)):
            found |= {(i, axis) for axis, extent in enumerate(of) if extent != tensor.shape[axis]}
        return found | {(i, None) for i, (of, n) in enumerate(zip(self.numbers, call.numbers)) if of != n}

    def shares_memory(self, call: Call) -> bool:
        """Whether tensors of a call lie in the same memory, or in that of one that the graph holds."""
        spans = [_span(tensor) for tensor in call.tensors if tensor.numel() > 0]
        # Constants may be views of one weight.
        spans += {_span(constant) for constant in self.reads.constants}
        return any(after[0] < before[1] for before, after in itertools.pairwise(sorted(spans)))

    def run(self, call: Call, function: Function | None = None) -> Any:
        """The results for a call that the trace is for; those of the graph without kernels, if that is given."""
        made = (function or self.function)(*call.tensors, *[call.numbers[i] for i in self.taken])
        if self.results.is_plain:
            return made
        return self.results.of(made if isinstance(made, (tuple, list)) else (made,), call)


def default_device() -> torch.device | None:
    """The device of the innermost ``with torch.device(…)``, or of what was set, where no other mode is active."""
    depth = torch._C._len_torch_function_stack()
    return torch._C._get_function_stack_at(depth - 1).device if depth else None


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
