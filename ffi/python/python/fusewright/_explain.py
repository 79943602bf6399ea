"""What was fused in a model, and what was not and why."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _expect, _native
from ._backend import compile_graph, own_errors
from ._fuse import Fusion, Result
from ._kernel import Kernel
from ._native import CompileError
from ._nodes import is_view_operator
from ._options import Options
from ._report import Figures, counted, kernel_lines, left_lines, left_table, page


@dataclass
class Report:
    """What became of the graphs of a model; ``str`` gives it as text."""

    #: Per graph of Dynamo's, in the order in which they were compiled.
    graphs: list[Result] = field(default_factory=list)
    #: Kernels that were compiled, taken from disk, and found in this process, for these graphs.
    counters: dict[str, int] = field(default_factory=dict)
    #: Where Dynamo ended a graph, in words: PyTorch runs what lies there.
    breaks: list[str] = field(default_factory=list)

    def svg(self) -> str:
        """The picture of the kernels beside their operators, graph behind graph, in the order of their calls."""
        steps: list[_native.Step] = []
        for step in (step for result in self.graphs for step in result.steps):
            if isinstance(step, str):
                steps.append((None, [_short(step)], None, None))
            else:
                counted_bytes = zip(step.kernels, step.call.kernel.bytes, step.moved(), strict=True)
                for (name, ops), (fused, _), unfused in counted_bytes:
                    steps.append((name, [_short(op) for op, _ in ops if not _is_view(op)], fused, unfused))
        return _native.picture(counted(len(self.graphs), "graph", "s"), steps)

    def _repr_html_(self) -> str:
        """What notebooks show: the picture and two tables, without links to elsewhere."""
        kernels = self.kernels
        figures: Figures = {
            "graphs": len(self.graphs),
            "operators fused": sum(kernel.times * len(kernel.ops) for kernel in kernels),
            "launches": sum(kernel.times for kernel in kernels),
            "different kernels": len(kernels),
            "compiled now": self.counters.get("compiles", 0),
            "from the cache on disk": self.counters.get("disk_hits", 0),
        }
        picture = self.svg() if kernels else ""
        outside = [*self.unfused, *(f"between graphs: {why}" for why in self.breaks)]
        left = left_table(self.left, self.left_at, "Left to PyTorch")
        return page(figures, picture, kernels, self.sizes, left, outside)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, equal ones once, in the order of their first calls."""
        found: Counter[Kernel] = Counter()
        for result in self.graphs:
            for fusion in result.fusions:
                found.update(_kernels(fusion))
        return [dataclasses.replace(kernel, times=times) for kernel, times in found.items()]

    @property
    def left(self) -> dict[tuple[str, str], int]:
        """How many nodes of an operator stay PyTorch's, by operator and reason."""
        left: Counter[tuple[str, str]] = Counter()
        for result in self.graphs:
            left.update(result.left)
        return dict(left)

    @property
    def left_at(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The lines of the model that those nodes come from, where they are known."""
        lines: dict[tuple[str, str], tuple[str, ...]] = {}
        for key, found in (item for result in self.graphs for item in result.left_at.items()):
            lines[key] = tuple(dict.fromkeys((*lines.get(key, ()), *found)))
        return lines

    @property
    def unfused(self) -> list[str]:
        """Why graphs stay as they are, for each that does."""
        return [result.why for result in self.graphs if result.why is not None]

    @property
    def sizes(self) -> dict[str, int]:
        """The values of the symbols at which bytes are counted."""
        fusions = (fusion for result in self.graphs for fusion in result.fusions)
        return {name: value for fusion in fusions for name, value in fusion.call.kernel.bytes_at}

    def __str__(self) -> str:
        kernels = self.kernels
        calls = sum(len(result.fusions) for result in self.graphs)
        ops = sum(kernel.times * len(kernel.ops) for kernel in kernels)
        launches = sum(kernel.times for kernel in kernels)
        nouns = [(launches, "launch", "es"), (len(kernels), "kernel", "s"), (calls, "call", "s")]
        launched, of, within = (counted(*noun) for noun in nouns)
        graphs = counted(len(self.graphs), "graph", "s")
        lines = [f"{graphs}: {counted(ops, 'operator', 's')} run as {launched} of {of} in {within}"]
        lines += [line for kernel in kernels for line in kernel_lines(kernel)]
        lines += [f"left as it is: {why}" for why in self.unfused]
        lines += [f"between graphs, by PyTorch: {why}" for why in self.breaks]
        if self.left:
            lines += ["left to PyTorch:", *left_lines(self.left, self.left_at)]
        return "\n".join(lines)

    __repr__ = __str__


def _short(op: str) -> str:
    """An operator without its namespace and overload."""
    return op.removeprefix("aten.").partition(".")[0]


def _is_view(op: str) -> bool:
    """Whether an operator, such as ``aten.split.Tensor``, moves no memory."""
    found: Any = torch.ops
    for part in op.split("."):
        found = getattr(found, part, None)
    return is_view_operator(found)


def _kernels(fusion: Fusion) -> list[Kernel]:
    reports = []
    kernel = fusion.call.kernel
    each = zip(fusion.kernels, kernel.bytes, fusion.moved(), kernel.parts(), strict=True)
    for (name, ops), (fused, _), unfused, part in each:
        sources = dict.fromkeys(source for _, source in ops if source is not None)
        names = tuple(_short(op) for op, _ in ops)
        reports.append(Kernel(name, names, tuple(sources), fused, unfused, 1, part))
    return reports


def explain(model: Callable[..., Any], *inputs: Any, **options: Any) -> Report:
    """Compiles a model for these inputs, without gradients, and says what was fused and what was not.

    Options are those of :func:`fusewright.backend`, but ``capture_sizes``. The model itself is left as it is; keywords of
    its own are given by ``functools.partial``. ``expect`` is of all graphs of the model together. Raises ``fusewright.Error``
    for an unknown option, and ``fusewright.ExpectationError``.
    """
    if not callable(model):
        raise TypeError(f"`explain` takes a function or a module, not {model!r}")
    own = _keywords(model)
    for name in options:
        if name in own and not hasattr(Options, name):
            raise CompileError(
                f"`{name}` is no option but the model's: give it by `functools.partial(model, {name}=…)`"
            )
    given, report = Options.of(options, without=("capture_sizes",), by="`explain`"), Report()
    # Of all graphs together.
    chosen = dataclasses.replace(given, expect=())

    def observed(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(gm, example_inputs, chosen, report.graphs.append)

    before, broken = _native.counters(), _breaks()
    with torch.no_grad(), own_errors():
        torch.compile(model, backend=observed)(*inputs)
    after = _native.counters()
    report.breaks = [_in_short(why) for why in (_breaks() - broken).elements()]
    report.counters = {name: after[name] - before[name] for name in ("compiles", "disk_hits")}
    _expect.check(given.expect, report.graphs)
    return report


def _breaks() -> Counter[str]:
    """How often Dynamo has ended a graph so far, by its reasons."""
    return Counter(torch._dynamo.utils.counters["graph_break"])


def _in_short(why: str) -> str:
    """The head and the explanation of a reason of Dynamo's, which has lines of hints too."""
    head, *lines = (line.strip() for line in why.splitlines())
    explained = (line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: "))
    return ": ".join([head, *explained])


def _keywords(model: Callable[..., Any]) -> Collection[str]:
    """The names of a model's arguments, where they can be told."""
    try:
        return inspect.signature(getattr(model, "forward", model)).parameters.keys()
    except (TypeError, ValueError):
        return ()
