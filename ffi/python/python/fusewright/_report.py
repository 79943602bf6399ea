"""A report as HTML for notebooks: one table of kernels, one of what is left, no script and nothing from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._explain import KernelReport, Report

# The look of the page that `fusewright explain --html` writes, within an element of its own.
_STYLE = """
.fusewright { color-scheme: light dark; --soft: #6a7280; --line: #d5d9e0; --bar: hsl(210 70% 55% / .35); }
.fusewright { font: 14px/1.5 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .fusewright { --soft: #98a1b0; --line: #343b46; } }
.fusewright dl { display: flex; flex-wrap: wrap; gap: 4px 32px; margin: 0 0 14px; }
.fusewright dl div { display: flex; flex-direction: column-reverse; }
.fusewright dt { color: var(--soft); font-size: 12.5px; font-weight: 400; }
.fusewright dd { margin: 0; font-size: 18px; font-variant-numeric: tabular-nums; }
.fusewright table { border-collapse: collapse; margin: 0 0 18px; font-size: 13px; }
.fusewright caption { text-align: left; font-weight: 600; font-size: 15px; padding: 0 0 4px; caption-side: top; }
.fusewright th, .fusewright td { text-align: left; vertical-align: top; padding: 3px 18px 3px 0; }
.fusewright th, .fusewright td { border-bottom: 1px solid var(--line); }
.fusewright th { color: var(--soft); font-weight: 500; white-space: nowrap; }
.fusewright .number { text-align: right; font-variant-numeric: tabular-nums; }
.fusewright .saved { background: linear-gradient(var(--bar), var(--bar)) no-repeat left / var(--share) 100%; }
.fusewright summary { cursor: pointer; }
.fusewright details div { color: var(--soft); overflow-wrap: anywhere; }
"""


def html(report: Report) -> str:
    """The report as one element with its own style. Texts of the model are escaped."""
    kernels = report.kernels
    launches = sum(kernel.times for kernel in kernels)
    figures = {
        "graphs": len(report.graphs),
        "operators fused": sum(kernel.times * len(kernel.ops) for kernel in kernels),
        "launches": launches,
        "different kernels": len(kernels),
        "compiled now": report.counters.get("compiles", 0),
        "from the cache on disk": report.counters.get("disk_hits", 0),
    }
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures.items())
    return f'<div class="fusewright"><style>{_STYLE}</style><dl>{shown}</dl>{_kernels(report, kernels)}{_left(report)}</div>'


def _kernels(report: Report, kernels: list[KernelReport]) -> str:
    if not kernels:
        return "<p>Nothing was fused.</p>"
    at = ", ".join(f"{name} = {value}" for name, value in report.sizes.items())
    moved = f"bytes at {escape(at)}" if at else "bytes"
    rows = "".join(map(_kernel, kernels))
    return (
        '<table><caption>Kernels</caption><tr><th class="number">launches</th><th>kernel</th>'
        f'<th class="number">{moved}</th><th class="number">one by one</th><th>saved</th></tr>{rows}</table>'
    )


def _kernel(kernel: KernelReport) -> str:
    saved = kernel.saved()
    if saved is None:
        share, figure = 0.0, ""
    else:
        # The part of the memory traffic of its operators that is gone.
        share, figure = max(0.0, 1 - 1 / saved) if saved else 0.0, f"{saved:.2f} x"
    lines = "".join(f"<div>{escape(source)}</div>" for source in kernel.sources)
    ops = f"<div>{escape(' '.join(kernel.ops))}</div>"
    return (
        f'<tr><td class="number">{kernel.times}</td>'
        f"<td><details><summary>{escape(kernel.name)}, {len(kernel.ops)} ops</summary>{ops}{lines}</details></td>"
        f'<td class="number">{_bytes(kernel.bytes_fused)}</td><td class="number">{_bytes(kernel.bytes_unfused)}</td>'
        f'<td class="saved" style="--share: {share:.0%}">{figure}</td></tr>'
    )


def _bytes(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _left(report: Report) -> str:
    unfused = "".join(f"<p>Left as it is: {escape(why)}</p>" for why in report.unfused)
    if not report.left:
        return unfused
    ordered = sorted(report.left.items(), key=lambda item: (-item[1], item[0]))
    rows = "".join(
        f'<tr><td class="number">{times}</td><td>{escape(op)}</td><td>{escape(reason)}</td></tr>'
        for (op, reason), times in ordered
    )
    head = '<tr><th class="number">nodes</th><th>operator</th><th>why</th></tr>'
    return f"{unfused}<table><caption>Left to PyTorch</caption>{head}{rows}</table>"
