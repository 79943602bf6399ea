"""The pass: finds what kernels compute in a functional ATen graph, and puts one call in the place of each part.

The compiler is asked for whole parts. Where it says that a node of one is not for kernels, that node stays PyTorch's and
the graph is cut again, so that what remains is computed by kernels alone.
"""

from __future__ import annotations

import logging
import operator
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import sympy
import torch
from torch.fx import Graph, Node

from . import _store
from ._call import Function, function
from ._equal import merge_equal
from ._graph import Program, Unsupported, serialise, value
from ._inplace import write_in_place
from ._logging import logger
from ._native import Error, Kernel
from ._nodes import (
    device,
    is_faster_copy,
    is_getitem,
    is_splitting,
    is_view,
    refusal,
    source_line,
    target_name,
)
from ._options import Options
from ._order import sort
from ._part import Part, part_of
from ._partition import groups
from ._progress import Line
from ._record import NoSize, Record, record
from ._report import with_line
from ._traffic import Traffic
from ._updates import drop_forms, is_last_of, keep_read, read_before, write_parts, written_elsewhere

#: What the compiler calls a kernel that only copies.
_COPY = "copy"


@dataclass(frozen=True)
class Call:
    """A compiled part: ``function`` takes the tensors of ``program.inputs``, and behind them the integers of ``sizes``."""

    function: Function
    record: Record
    program: Program
    kernel: Kernel
    sizes: tuple[Node, ...]


@dataclass(frozen=True)
class Fusion:
    """A part of a graph that is one call now."""

    call: Call
    #: Per kernel: its name, and the operators of the graph that it computes with the lines of the model.
    kernels: tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...]
    #: Per kernel: what those operators would move one by one.
    traffic: tuple[Traffic, ...] = field(default=(), repr=False, compare=False)

    def moved(self) -> list[int | None]:
        """Bytes that the operators of each kernel move one by one, at the sizes at which the compiler counts.

        ``None`` where it does not count, and of a copy, which nothing moves twice.
        """
        kernel = self.call.kernel
        sizes = dict(kernel.bytes_at)
        pairs = zip(self.traffic, kernel.bytes, strict=True)
        return [traffic.bytes(sizes) if unfused else None for traffic, (_, unfused) in pairs]


@dataclass
class Result:
    """What a pass did."""

    fusions: list[Fusion] = field(default_factory=list)
    #: How many nodes of an operator stay PyTorch's, and why.
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: The lines of the model that those come from, each once.
    left_at: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    #: Why the graph stays as it is, if it does.
    why: str | None = None
    #: Its parts, and the operators of :attr:`left`, in the order of the graph.
    steps: list[Fusion | str] = field(default_factory=list)


#: Makes the node of a call: the graph, the call, its tensors and its sizes.
Insert = Callable[[Graph, Call, list[Node], list[Node]], Node]


def leave(error: Exception, options: Options) -> Result:
    """Says in a warning why a graph stays as it is; raises that under ``strict``."""
    if options.strict:
        raise error
    why = f"{type(error).__name__}: {error}"
    warnings.warn(f"fusewright leaves a graph as it is: {why}", stacklevel=3)
    return left_as_it_is(why)


def left_as_it_is(why: str) -> Result:
    """What becomes of a graph that no pass changes."""
    logger.info("a graph is left as it is: %s", why)
    return Result(why=why)


def target(on: torch.device) -> str:
    """The compiler's name of a device that it compiles for."""
    if on.type == "cpu":
        return "cpu"
    major, minor = torch.cuda.get_device_capability(on)
    return f"cuda:sm_{major}{minor}"


def ordinal(on: torch.device) -> int | None:
    """The number of a GPU among those of this process; ``None`` of the host."""
    if on.type == "cpu":
        return None
    return torch.cuda.current_device() if on.index is None else on.index


#: Operators that name a part while it is compiled.
_SHOWN = 4
#: Why an operator that kernels could compute stays.
_NO_GAIN = "a kernel of its own would save no launch"


def fuse_graph(graph: Graph, options: Options, insert: Insert, *, eager: bool = True) -> Result:
    """Replaces what kernels compute in a graph by calls, each made by ``insert``.

    ``eager`` says that PyTorch runs what is left, as it stands. Another compiler has kernels of its own for copies, and
    makes writes into tensors of values that it finds in the graph.

    Raises ``fusewright.Error`` for a program that the compiler cannot read.
    """
    result = _Pass(graph, options, eager).run(insert)
    _log(result)
    return result


def _log(result: Result) -> None:
    """Logs what a pass did: a line per graph as INFO; kernels, and what stays PyTorch's, as DEBUG."""
    if not logger.isEnabledFor(logging.INFO):
        return
    kernels = [kernel for fusion in result.fusions for kernel in fusion.kernels]
    fused, left = sum(len(nodes) for _, nodes in kernels), sum(result.left.values())
    logger.info("operators in kernels: %d, kernels: %d, operators left to PyTorch: %d", fused, len(kernels), left)
    for name, nodes in kernels:
        logger.debug("kernel %s: %s", name, " ".join(op for op, _ in nodes))
    for (op, reason), count in result.left.items():
        logger.debug("left to PyTorch: %d x %s: %s", count, op, reason)


def insert_function(graph: Graph, made: Call, tensors: list[Node], sizes: list[Node]) -> Node:
    """A call of the function itself."""
    return graph.call_function(made.function, (*tensors, *sizes))


class _Pass:
    def __init__(self, graph: Graph, options: Options, eager: bool) -> None:
        _drop_assertions(graph)
        drop_forms(graph)
        if eager:
            merge_equal(graph)
        self.graph, self.options, self.eager = graph, options, eager
        self.refused: dict[Node, str] = {}
        #: Copies of what a part computes, which are parts of their own.
        self.alone: set[Node] = set()
        #: Nodes that must come before a node although it does not read them.
        self.behind = read_before(graph)
        self.tried: dict[Part, Call | None] = {}
        #: What stands for a result of a part that was replaced.
        self.replaced: dict[Node, Node] = {}
        #: What gives a symbol, for each the first that does: later ones may be sizes of what a part computes.
        self.sizes: dict[sympy.Symbol, Node] = {}
        for node in graph.nodes:
            if isinstance(found := value(node), torch.SymInt) and isinstance(found.node.expr, sympy.Symbol):
                self.sizes.setdefault(found.node.expr, node)

    def run(self, insert: Insert) -> Result:
        for node in self.graph.nodes:
            reason = "it splits the graph" if is_splitting(node, self.options.splitting_ops) else refusal(node)
            if reason is not None:
                self.refused[node] = reason
        for node in written_elsewhere(self.graph):
            self.refused.setdefault(node, "it writes into a tensor where that lies")
        while True:
            found = self._attempts()
            if found is not None:
                break
        result = Result()
        nodes = list(self.graph.nodes)
        calls: list[tuple[Node, Node]] = []
        for part, made in found:
            result.fusions.append(Fusion(made, *_described(made, part)))
            call = self._replace(part, made, insert)
            calls += [(made.program.inputs[i], call) for i in made.kernel.overwrites if i is not None]
        written = {made.program.inputs[i] for _, made in found for i in made.kernel.overwrites if i is not None}
        fused = {node for part, _ in found for node in part.nodes}
        ends = {part.nodes[-1]: fusion for (part, _), fusion in zip(found, result.fusions, strict=True)}
        for node in nodes:
            if node in ends:
                result.steps.append(ends[node])
            # What a kernel has written where the caller has it is copied onto itself, which is nothing.
            is_done = node.target is torch.ops.aten.copy_.default and node.args[0] in written
            if node.op != "call_function" or node in fused or is_done or is_getitem(node) or is_view(node):
                continue
            reason = self.refused.get(node, _NO_GAIN if isinstance(node.target, torch._ops.OpOverload) else None)
            if reason is not None:
                key = target_name(node), reason
                result.left[key] += 1
                result.left_at[key] = with_line(result.left_at.get(key, ()), source_line(node))
                result.steps.append(target_name(node))
        if found:
            sort(self.graph, read_before(self.graph, self.behind))
            _drop_unused(self.graph)
            for given, call in calls:
                keep_read(self.graph, given, call)
        if self.eager:
            write_parts(self.graph)
            _drop_unused(self.graph)
            write_in_place(self.graph, {node for pair in calls for node in pair})
        if found:
            self.graph.lint()
        return result

    def _admits(self, node: Node) -> bool:
        if is_getitem(node) and isinstance(node.args[0], Node):
            return self._admits(node.args[0])
        return node not in self.refused

    def _attempts(self) -> list[tuple[Part, Call]] | None:
        """The parts and their calls; ``None`` if more nodes are refused, or parts of their own, now than before."""
        before = len(self.refused) + len(self.alone)
        cut = groups(self.graph, self._admits, self.options.splitting_ops, self.alone, self.behind)
        parts = [part for part in map(part_of, cut) if part is not None and self._gain(part, 1) >= 1]
        written = {part: self._written(part) for part in parts if part not in self.tried}
        asked = {part: (program.text, *_place(part)) for part, program in written.items() if program is not None}
        names = {asked[part]: _named(part) for part in reversed(asked)}
        with Line(self.options.progress) as line:
            ahead = _store.compiled_ahead(
                asked.values(), self.options, lambda request, number, of: line.begins(names[request], number, of)
            )
        for part, program in written.items():
            self.tried[part] = None
            if program is not None:
                # The first of equal parts has what was compiled ahead; the others find it in the store.
                self.tried[part] = self._attempt(part, program, asked[part], ahead.pop(asked[part], None))
        found = []
        for part in parts:
            made = self.tried[part]
            if made is not None and self._gain(part, made.kernel.launches) > 0:
                found.append((part, made))
        return found if len(self.refused) + len(self.alone) == before else None

    def _gain(self, part: Part, launches: int) -> int:
        """How many launches fewer a part takes than its nodes do. A kernel for each op is no gain, but for copies."""
        return part.computing() + (part.faster_copies() if self.eager else 0) - launches

    def _written(self, part: Part) -> Program | None:
        try:
            return serialise(part.nodes, part.outputs)
        except Unsupported as unsupported:
            self._refuse(part, [unsupported.node], str(unsupported))
            return None

    def _attempt(
        self, part: Part, program: Program, request: _store.Request, attempt: _store.Attempt | None
    ) -> Call | None:
        try:
            if attempt is None:
                attempt = _store.compiled(*request, self.options)
            if (kernel := attempt.kernel) is not None:
                compiled = (*request[1:], self.options.mode, self.options.pipeline)
                turned = [
                    node
                    for node, (_, _, order) in zip(program.outputs, kernel.outputs, strict=True)
                    if order != sorted(order)
                ]
                if turned:
                    self._refuse(part, turned, "kernels store it in another order than later nodes expect")
                    return None
                elsewhere = [
                    node
                    for node, i in zip(program.outputs, kernel.overwrites, strict=True)
                    if i is not None and not (self.eager and is_last_of(program.inputs[i], node, part.nodes))
                ]
                if elsewhere:
                    self._refuse(part, elsewhere, "it overwrites parts of a tensor")
                    return None
                made, sizes = record(program, compiled, self.sizes, kernel.overwrites, self.options.threads)
                divided = set(kernel.symbols) - {name for name, _ in made.symbols}
                if divided:
                    # Of sizes that are quotients kernels are for those that divide.
                    self._refuse(
                        part, [], f"its kernels need {', '.join(sorted(divided))}, which no tensor has as a size"
                    )
                    return None
                return Call(function(made, kernel), made, program, kernel, sizes)
        except NoSize as lacking:
            self._refuse(part, [], str(lacking))
            return None
        except Error as error:
            # Whose message knows the program alone.
            error.op = " ".join(dict.fromkeys(target_name(node) for node in part.nodes if not is_getitem(node)))
            error.source = next(filter(None, map(source_line, part.nodes)), None)
            raise
        for names, output, reason in attempt.outside:
            # What an output is computed as may be what another node is as well.
            blamed = [program.outputs[output]] if output is not None else []
            nodes = blamed or [program.nodes[name] for name in names if name in program.nodes]
            self._refuse(part, nodes, reason)
        return None

    def _refuse(self, part: Part, nodes: list[Node], reason: str) -> None:
        """Leaves nodes to PyTorch, or all of a part if none of them is to blame."""
        for node in nodes or part.nodes:
            source = node.args[0] if is_getitem(node) else node
            assert isinstance(source, Node)
            if self.eager and source not in self.alone and source in part.outputs and is_faster_copy(source):
                self.alone.add(source)
                continue
            self.refused.setdefault(source, reason)

    def _replace(self, part: Part, made: Call, insert: Insert) -> Node:
        last = part.nodes[-1]
        with self.graph.inserting_after(last):
            tensors = [self.replaced.get(node, node) for node in made.program.inputs]
            node = insert(self.graph, made, tensors, list(made.sizes))
        values = tuple(value(output) for output in part.outputs)
        traces = [line for output in part.outputs if (line := output.meta.get("stack_trace"))]
        if traces:
            node.meta["stack_trace"] = traces[-1]
        results = [node]
        if len(values) == 1 and not _is_list(node):
            node.meta["val"] = values[0]
        else:
            node.meta["val"] = values
            with self.graph.inserting_after(node):
                results = [self.graph.call_function(operator.getitem, (node, i)) for i in range(len(values))]
        inside = set(part.nodes)
        for output, result in zip(part.outputs, results, strict=True):
            result.meta["val"] = value(output)
            self.replaced[output] = result
            # Views of the part that are read outside as well stay, and view what the call gives.
            output.replace_all_uses_with(result, delete_user_cb=lambda user: user not in inside or is_view(user))
        return node


def _named(part: Part) -> str:
    """What to call a part that is compiled: its first operators."""
    ops = [target_name(node).removeprefix("aten.").partition(".")[0] for node in part.nodes if not is_getitem(node)]
    more = f" and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
    return f"{' '.join(ops[:_SHOWN])}{more}"


def _place(part: Part) -> tuple[str, int | None]:
    """The target that a part is compiled for, and which device of it."""
    lies = device(part.outputs[0])
    return target(lies), ordinal(lies)


def _drop_assertions(graph: Graph) -> None:
    """Erases what asserts that tensors are as they were traced: it would keep values that kernels need not write."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default and _holds(node):
            graph.erase_node(node)


def _holds(node: Node) -> bool:
    tensor, *given = node.args
    traced = value(tensor) if isinstance(tensor, Node) else None
    if not isinstance(traced, torch.Tensor):
        return False
    names = ("size", "stride", "dtype", "device", "layout")
    asserted = {**dict(zip(names, given)), **node.kwargs}
    # Extents may be symbols, of which a trace knows less.
    if any(asserted.get(name) is not None for name in ("size", "stride")):
        return False
    return all(asserted.get(name) in (None, getattr(traced, name)) for name in ("dtype", "device", "layout"))


def _is_list(node: Node) -> bool:
    """Whether a node's operator gives a list whatever the number of its results."""
    return isinstance(node.target, torch._ops.OpOverload)


def _drop_unused(graph: Graph) -> None:
    """Erases what only the replaced nodes used, and those."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and not node.is_impure():
            graph.erase_node(node)


def _described(
    made: Call, part: Part
) -> tuple[tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...], tuple[Traffic, ...]]:
    """The kernels of a part, and what the operators of each move one by one.

    The compiler names the nodes that its ops came from; a composite op came from the last of several, and those before it
    are found along the graph.
    """
    inside, nodes = set(part.nodes), made.program.nodes
    named = [{nodes[name] for name in names if name in nodes} for _, _, names in made.kernel.regions]
    # A copy is no node of the compiler's, which gives its kernel the name.
    copies = iter([node for node, _ in part.copied()])
    described, traffic = [], []
    for (name, _, _), own in zip(made.kernel.regions, named, strict=True):
        if name == _COPY and (copy := next(copies, None)) is not None:
            own = {copy, *own}
        others = set().union(*named) - own
        computed, open_nodes = set(own), list(own)
        while open_nodes:
            for operand in open_nodes.pop().all_input_nodes:
                if operand in inside and operand not in others and operand not in computed:
                    computed.add(operand)
                    open_nodes.append(operand)
        ops = [node for node in part.nodes if node in computed and not is_getitem(node)]
        described.append((name, tuple((target_name(node), source_line(node)) for node in ops)))
        traffic.append(Traffic.of(ops))
    return tuple(described), tuple(traffic)
