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
from ._native import CompileError
from ._options import Options


@dataclass(frozen=True)
class KernelReport:
    """A generated kernel: its name, the operators that it computes, the lines of the model, and how many calls are equal."""

    name: str
    ops: tuple[str, ...]
    sources: tuple[str, ...]
    #: Bytes that it moves, and that its operators would move one by one, at the sizes of :attr:`Report.sizes`.
    bytes_fused: int | None
    bytes_unfused: int | None
    times: int = 1

    def saved(self) -> float | None:
        """By how much more memory its operators would move one by one; ``None`` also of a copy, which nothing moves twice."""
        if not self.bytes_fused or not self.bytes_unfused:
            return None
        return self.bytes_unfused / self.bytes_fused


@dataclass
class Report:
    """What became of the graphs of a model; ``str`` gives it as text."""

    #: Per graph of Dynamo's, in the order in which they were compiled.
    graphs: list[Result] = field(default_factory=list)
    #: Kernels that were compiled, taken from disk, and found in this process, for these graphs.
    counters: dict[str, int] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """What notebooks show: a page of its own, without links to elsewhere."""
        from ._report import html

        return html(self)

    @property
    def kernels(self) -> list[KernelReport]:
        """The kernels, equal ones once, in the order of their first calls."""
        found: Counter[KernelReport] = Counter()
        for result in self.graphs:
            for fusion in result.fusions:
                found.update(_kernels(fusion))
        return [KernelReport(**{**vars(kernel), "times": times}) for kernel, times in found.items()]

    @property
    def left(self) -> dict[tuple[str, str], int]:
        """How many nodes of an operator stay PyTorch's, by operator and reason."""
        left: Counter[tuple[str, str]] = Counter()
        for result in self.graphs:
            left.update(result.left)
        return dict(left)

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
        counted = [(launches, "launch", "es"), (len(kernels), "kernel", "s"), (calls, "call", "s")]
        launched, of, within = (_count(*noun) for noun in counted)
        graphs = _count(len(self.graphs), "graph", "s")
        lines = [f"{graphs}: {_count(ops, 'operator', 's')} run as {launched} of {of} in {within}"]
        for kernel in kernels:
            saved = kernel.saved()
            figure = "" if saved is None else f", {saved:.1f}x less memory moved"
            lines.append(f"  {kernel.times} x {kernel.name}: {_count(len(kernel.ops), 'operator', 's')}{figure}")
            lines.append(f"      {' '.join(kernel.ops)}")
            lines += [f"      at {source}" for source in kernel.sources]
        lines += [f"left as it is: {why}" for why in self.unfused]
        if self.left:
            lines.append("left to PyTorch:")
            ordered = sorted(self.left.items(), key=lambda item: (-item[1], item[0]))
            lines += [f"  {times} x {op}: {reason}" for (op, reason), times in ordered]
        return "\n".join(lines)

    __repr__ = __str__


def _count(number: int, noun: str, plural: str) -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def _kernels(fusion: Fusion) -> list[KernelReport]:
    reports = []
    bytes_moved = fusion.call.kernel.bytes
    for (name, ops), (fused, unfused) in zip(fusion.kernels, bytes_moved, strict=True):
        sources = dict.fromkeys(source for _, source in ops if source is not None)
        names = tuple(op.removeprefix("aten.").partition(".")[0] for op, _ in ops)
        reports.append(KernelReport(name, names, tuple(sources), fused, unfused))
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

    before = _native.counters()
    with torch.no_grad(), own_errors():
        torch.compile(model, backend=observed)(*inputs)
    after = _native.counters()
    report.counters = {name: after[name] - before[name] for name in ("compiles", "disk_hits")}
    _expect.check(given.expect, report.graphs)
    return report


def _keywords(model: Callable[..., Any]) -> Collection[str]:
    """The names of a model's arguments, where they can be told."""
    try:
        return inspect.signature(getattr(model, "forward", model)).parameters.keys()
    except (TypeError, ValueError):
        return ()
