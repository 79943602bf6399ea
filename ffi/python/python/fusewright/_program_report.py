"""What became of the graph of a loaded program, as text and for notebooks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from . import _native
from ._kernel import Kernel
from ._report import Figures, counted, kernel_lines, left_lines, left_table, page, with_line


@dataclass
class ProgramReport:
    """What was fused in a loaded program, and what was not and why; ``str`` gives it as text."""

    #: Name of the file.
    title: str
    #: The kernels, equal ones once, in the order of a call.
    kernels: list[Kernel]
    #: How many operators of a name are in no kernel, by operator and reason.
    left: dict[tuple[str, str], int]
    #: Where those come from: their names in the graph, and the lines of the model where they are known.
    left_at: dict[tuple[str, str], tuple[str, ...]]
    #: Steps of a call, by kind.
    counts: dict[str, int]
    #: What the reference interpreter computes, and why.
    fallbacks: list[tuple[str, str]]
    #: The values of the symbols at which bytes are counted.
    sizes: dict[str, int]
    #: How many kernels were compiled, and how many were taken from the cache on disk.
    counters: dict[str, int]
    _made: _native.Program = field(repr=False, compare=False)

    @classmethod
    def of(cls, made: _native.Program, kernels: list[Kernel]) -> ProgramReport:
        """The report of a program that has these kernels."""
        found: Counter[Kernel] = Counter(kernels)
        together = [
            Kernel(k.name, k.ops, k.sources, k.bytes_fused, k.bytes_unfused, n, k._region) for k, n in found.items()
        ]
        left = Counter((op, reason) for op, reason, _ in made.refused)
        left_at: dict[tuple[str, str], tuple[str, ...]] = {}
        for op, reason, origin in made.refused:
            left_at[op, reason] = with_line(left_at.get((op, reason), ()), origin)
        compiled, from_disk = made.compilations
        counters = {"compiles": compiled, "disk_hits": from_disk}
        sizes = dict(made.bytes_at)
        return cls(made.title, together, dict(left), left_at, made.counts, made.fallbacks, sizes, counters, made)

    def svg(self) -> str:
        """The picture of the kernels beside their operators, as ``fusewright explain --svg`` draws it."""
        return self._made.svg()

    def html(self) -> str:
        """The page of the graph and its kernels, as ``fusewright explain --html`` writes it."""
        return self._made.html()

    def _repr_html_(self) -> str:
        """What notebooks show: the picture and two tables, without links to elsewhere."""
        figures: Figures = {
            "launches": sum(kernel.times for kernel in self.kernels),
            "matrix products": self.counts["matmuls"],
            "attention": self.counts["attentions"],
            "by the reference interpreter": self.counts["references"],
            "compiled now": self.counters["compiles"],
            "from the cache on disk": self.counters["disk_hits"],
        }
        left = left_table(self.left, self.left_at, "Not in kernels")
        return page(figures, self.svg(), self.kernels, self.sizes, left, ())

    def __str__(self) -> str:
        launches = sum(kernel.times for kernel in self.kernels)
        ops = sum(kernel.times * len(kernel.ops) for kernel in self.kernels)
        names = {"matmuls": "matrix products", "attentions": "attention", "references": "by reference"}
        rest = [f"{name}: {self.counts[kind]}" for kind, name in names.items() if self.counts[kind]]
        first = f"{self.title}: {counted(ops, 'operator', 's')} run as {counted(launches, 'launch', 'es')}"
        lines = [", ".join([f"{first} of {counted(len(self.kernels), 'kernel', 's')}", *rest])]
        lines += [line for kernel in self.kernels for line in kernel_lines(kernel)]
        lines += [f"by the reference interpreter: {label}: {reason}" for label, reason in self.fallbacks]
        if self.left:
            lines += ["not in kernels:", *left_lines(self.left, self.left_at)]
        return "\n".join(lines)

    __repr__ = __str__
