"""Results of kernels beside PyTorch's, judged by the values that the graph itself allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from . import _native
from ._backend import compile_graph, own_errors
from ._call import symbols
from ._eager import Fused
from ._fuse import Call, Result
from ._graph import memory_order, value
from ._native import CompileError, Error
from ._nodes import is_getitem, target_name
from ._options import Options

#: A node as it was: its operator, and what it is called with.
_Step = tuple[Node, Any, tuple[Any, ...], dict[str, Any]]


@dataclass
class PartCheck:
    """What the calls of one fused part gave, beside what PyTorch gives for the same tensors."""

    #: Names of its kernels, and the operators that they compute.
    kernels: tuple[str, ...]
    ops: tuple[str, ...]
    calls: int = 0
    elements: int = 0
    #: Elements of which the graph allows one value alone: of these no other bits pass.
    exact: int = 0
    #: Elements of other bits than PyTorch's.
    mismatched: int = 0
    #: Elements of the kernels', and of PyTorch's, that the graph does not allow.
    outside: int = 0
    expected_outside: int = 0
    #: In words, the first element that is wrong.
    first_wrong: str | None = None
    passed: bool = True

    def __str__(self) -> str:
        if self.passed:
            verdict = "right"
        elif self.outside:
            verdict = f"WRONG: {self.first_wrong}"
        else:
            verdict = f"right, but PyTorch's is not what the graph says: {self.first_wrong}"
        return (
            f"{' + '.join(self.kernels)}: {verdict}; {self.calls} calls, {self.elements} elements, {self.exact} of one "
            f"value, {self.mismatched} of other bits than PyTorch's"
        )


class Checker:
    """A backend of ``torch.compile`` that checks every call of a fused part while the model runs.

    Each element must lie between the least and the greatest value that its graph allows: in the order of a sum, in the
    accumulator of a product and in the last places of functions such as ``exp`` there is freedom, in all else there is
    none, so that a part of exact functions must give PyTorch's bits. PyTorch's own results are judged the same way. Equal
    elements keep their order when kernels sort, as with ``stable=True``; where PyTorch gives them in another, as it may, its
    result is said to be outside.

    It is slow. Options are those of :func:`fusewright.backend` but ``inner`` and the mode ``relaxed``. Raises
    ``fusewright.CompileError`` for others.
    """

    def __init__(self, **options: Any) -> None:
        self.options = Options.of(options)
        if self.options.mode != "exact":
            raise CompileError(f"mode {self.options.mode!r} drops roundings, and what is checked is that none is")
        if self.options.inner != "eager":
            raise CompileError("what is not fused is PyTorch's while parts are checked: `inner` must be 'eager'")
        #: The parts of all graphs, in the order in which they were compiled, and why graphs were left as they are.
        self.parts: list[PartCheck] = []
        self.unfused: list[str] = []
        #: All that a function that was given to ``fuse`` does beside what its trace knows.
        self.breaches: list[str] = []
        # By which Dynamo calls a backend.
        self.__name__ = "fusewright.Checker"

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        return compile_graph(gm, example_inputs, self.options, self._observe, self._insert)

    @property
    def passed(self) -> bool:
        """Whether all that was run so far is right."""
        return not self.breaches and all(part.passed for part in self.parts)

    def __str__(self) -> str:
        left = [f"a graph is left as it is: {why}" for why in self.unfused]
        return "\n".join([*map(str, self.parts), *left, *self.breaches]) or "nothing was fused"

    def _observe(self, result: Result) -> None:
        if result.why is not None:
            self.unfused.append(result.why)

    def _insert(self, graph: Graph, call: Call, tensors: list[Node], sizes: list[Node]) -> Node:
        own = list(call.program.nodes.values())
        ops = tuple(dict.fromkeys(target_name(node) for node in own if not is_getitem(node)))
        part = PartCheck(tuple(name for name, _, _ in call.kernel.regions), ops)
        self.parts.append(part)
        reference = _Reference(call, tensors)

        def checked(*given: Any) -> Any:
            made = call.function(*given)
            _judge(part, call, given, made if isinstance(made, tuple) else (made,), reference(*given))
            return made

        return graph.call_function(checked, (*tensors, *sizes))


def check(model: Callable[..., Any], *inputs: Any, **options: Any) -> Checker:
    """Runs a model once, without gradients, and checks every fused part on what it is really given.

    Of what :func:`fuse` gives, the trace is compared with the function, too: that it reads and changes nothing else. Options
    are those of :class:`Checker`. The result says what was checked; its ``passed`` whether all is right.
    """
    checker = Checker(**options)
    with torch.no_grad(), own_errors():
        if isinstance(model, Fused):
            checker.breaches += model.breaches(*inputs)
            model = model.fn
        torch.compile(model, backend=checker)(*inputs)
    return checker


class _Reference:
    """The operators of a part as PyTorch runs them."""

    def __init__(self, call: Call, tensors: Sequence[Node]) -> None:
        program = call.program
        # The graph is edited behind this, and its nodes lose their operands.
        self._steps: dict[Node, _Step] = {}
        open_nodes = list(program.outputs)
        given = {*program.inputs, *tensors}
        while open_nodes:
            node = open_nodes.pop()
            if node in self._steps or node in given or node.op != "call_function":
                continue
            if not isinstance(value(node), torch.SymInt):
                self._steps[node] = (node, node.target, node.args, dict(node.kwargs))
                open_nodes.extend(node.all_input_nodes)
        self._given = list(zip(program.inputs, tensors, strict=True))
        self._outputs = list(program.outputs)
        self._values = symbols(call.record)
        self._named = call.program.symbols

    def __call__(self, *given: Any) -> list[torch.Tensor]:
        known: dict[Node, Any] = {}
        sizes = {self._named[name]: size for name, size in self._values(*given).items()}
        for pair, tensor in zip(self._given, given, strict=False):
            known.update(dict.fromkeys(pair, tensor))
        open_nodes = list(self._outputs)
        while open_nodes:
            node = open_nodes[-1]
            if node in known:
                open_nodes.pop()
                continue
            if isinstance(size := value(node), torch.SymInt):
                expression: Any = size.node.expr
                known[node] = int(expression.subs(sizes))
                continue
            _, target, args, kwargs = self._steps[node]
            operands: list[Node] = []
            map_arg((args, kwargs), operands.append)
            lacking = [operand for operand in operands if operand not in known]
            open_nodes.extend(lacking)
            if not lacking:
                args, kwargs = map_arg((args, kwargs), known.__getitem__)
                known[node] = target(*args, **kwargs)
        return [known[node] for node in self._outputs]


def _judge(
    part: PartCheck, call: Call, given: Sequence[Any], made: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> None:
    orders = [memory_order(value(node)) for node in call.program.outputs]
    taken = call.program.orders
    inputs = [
        _on_host(tensor.permute(taken[i]) if i in taken else tensor)
        for i, tensor in enumerate(given[: len(call.program.inputs)])
    ]
    ours, theirs = (
        [_on_host(tensor.permute(order)) for tensor, order in zip(tensors, orders, strict=True)]
        for tensors in (made, expected)
    )
    part.calls += 1
    if not all(tensor.numel() for tensor in inputs):
        return
    try:
        judged = _native.judge(call.program.text, symbols(call.record)(*given), inputs, ours, theirs)
    except Error as error:
        error.op = " ".join(part.ops)
        raise
    for output in judged:
        part.elements += output.elements
        part.exact += output.exact
        part.mismatched += output.mismatched
        part.outside += output.outside
        part.expected_outside += output.expected_outside
        part.passed &= output.passed
        part.first_wrong = part.first_wrong or output.first_wrong


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous()
