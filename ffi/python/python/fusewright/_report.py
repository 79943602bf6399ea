"""What reports have in common: their lines of text, and their HTML for notebooks.

A notebook shows the picture, one table of kernels and one of what is left. There is no script and nothing from elsewhere.
Rules of style hold below one class alone, so that the page around stays as it is, and colours are made of the page's own, so
that they suit light and dark whoever chooses between these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import TypeAlias

from ._kernel import Kernel

#: Numbers at the head of a page, by what they count.
Figures: TypeAlias = dict[str, int]

_STYLE = """
.fusewright { font: 14px/1.5 system-ui, sans-serif; color: inherit; }
.fusewright dl { display: flex; flex-wrap: wrap; gap: 4px 32px; margin: 0 0 14px; }
.fusewright dl div { display: flex; flex-direction: column-reverse; }
.fusewright dt { opacity: .65; font-size: 12.5px; font-weight: 400; }
.fusewright dd { margin: 0; font-size: 18px; font-variant-numeric: tabular-nums; }
.fusewright table { border-collapse: collapse; margin: 0 0 18px; font-size: 13px; color: inherit; background: none; }
.fusewright caption { text-align: left; font-weight: 600; font-size: 15px; padding: 0 0 4px; }
.fusewright caption { caption-side: top; color: inherit; }
.fusewright tr { background: none; }
.fusewright th, .fusewright td { text-align: left; vertical-align: top; padding: 3px 18px 3px 0; }
.fusewright th, .fusewright td { border: 0 solid rgb(128 128 128 / .35); border-bottom-width: 1px; }
.fusewright th { font-weight: 500; white-space: nowrap; opacity: .65; }
.fusewright .number { text-align: right; font-variant-numeric: tabular-nums; }
.fusewright .saved { background: linear-gradient(hsl(210 70% 55% / .35), hsl(210 70% 55% / .35)) no-repeat left; }
.fusewright .saved { background-size: var(--share) 100%; }
.fusewright summary { cursor: pointer; }
.fusewright details div { opacity: .65; overflow-wrap: anywhere; }
.fusewright .picture { overflow-x: auto; margin: 0 0 18px; }
.fusewright svg text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: currentColor; stroke: none; }
.fusewright svg text.head { font: 600 14px system-ui, sans-serif; }
.fusewright svg text.note { font: 12px system-ui, sans-serif; fill-opacity: .65; }
.fusewright svg path { stroke: currentColor; stroke-opacity: .35; fill: none; }
.fusewright svg .library rect { fill: rgb(128 128 128 / .1); stroke: rgb(128 128 128 / .6); stroke-dasharray: 3 3; }
.fusewright svg .reference rect { fill: rgb(128 128 128 / .25); stroke: rgb(128 128 128 / .8); }
"""
#: Lines of a model that the text shows for an operator and a reason; the page has all of them.
_SHOWN = 4
#: The picture's own rules, which would hold for all of a page.
_OWN_STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)
_HUE = re.compile(r'<g class="h(\d+)">')


def counted(number: int, noun: str, plural: str) -> str:
    """A number and what it counts."""
    return f"{number} {noun}{'' if number == 1 else plural}"


def kernel_lines(kernel: Kernel) -> list[str]:
    """A kernel in a report: its name and figures, its operators, and the lines of the model."""
    saved = kernel.saved()
    figure = "" if saved is None else f", {saved:.1f}x less memory moved"
    head = f"  {kernel.times} x {kernel.name}: {counted(len(kernel.ops), 'operator', 's')}{figure}"
    return [head, f"      {' '.join(kernel.ops)}", *(f"      at {source}" for source in kernel.sources)]


def with_line(lines: tuple[str, ...], line: str | None) -> tuple[str, ...]:
    """Lines of a model and one more, if it is known and none of them."""
    return lines if line is None or line in lines else (*lines, line)


def left_lines(left: Mapping[tuple[str, str], int], left_at: Mapping[tuple[str, str], tuple[str, ...]]) -> list[str]:
    """Operators in no kernel in a report: how many, why, and the first lines of the model that they come from."""
    lines = []
    for (op, reason), times in _ordered(left):
        lines.append(f"  {times} x {op}: {reason}")
        sources = left_at.get((op, reason), ())
        lines += [f"      at {source}" for source in sources[:_SHOWN]]
        if len(sources) > _SHOWN:
            lines.append(f"      and {len(sources) - _SHOWN} more")
    return lines


def _ordered(left: Mapping[tuple[str, str], int]) -> list[tuple[tuple[str, str], int]]:
    return sorted(left.items(), key=lambda item: (-item[1], item[0]))


def page(
    figures: Figures,
    picture: str,
    kernels: Iterable[Kernel],
    sizes: Mapping[str, int],
    left: str,
    unfused: Iterable[str],
) -> str:
    """A report as one element with its own style. Texts of the model are escaped; the picture and ``left`` are markup."""
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures.items())
    hues = sorted({int(hue) for hue in _HUE.findall(picture)})
    coloured = "".join(
        f".fusewright svg .h{hue} rect {{ fill: hsl({hue * 30} 60% 50% / .28); stroke: hsl({hue * 30} 50% 50%); }}\n"
        for hue in hues
    )
    drawn = f'<div class="picture">{_OWN_STYLE.sub("", picture)}</div>' if picture else ""
    left_as_it_is = "".join(f"<p>Left as it is: {escape(why)}</p>" for why in unfused)
    tables = f"{_kernels(list(kernels), sizes)}{left_as_it_is}{left}"
    return f'<div class="fusewright"><style>{_STYLE}{coloured}</style><dl>{shown}</dl>{drawn}{tables}</div>'


def _kernels(kernels: list[Kernel], sizes: Mapping[str, int]) -> str:
    if not kernels:
        return "<p>Nothing was fused.</p>"
    at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    moved = f"bytes at {escape(at)}" if at else "bytes"
    rows = "".join(map(_kernel, kernels))
    return (
        '<table><caption>Kernels</caption><tr><th class="number">launches</th><th>kernel</th>'
        f'<th class="number">{moved}</th><th class="number">one by one</th><th>saved</th></tr>{rows}</table>'
    )


def _kernel(kernel: Kernel) -> str:
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


def left_table(
    left: Mapping[tuple[str, str], int], left_at: Mapping[tuple[str, str], tuple[str, ...]], caption: str
) -> str:
    """Operators in no kernel as a table, whose reasons open to show the lines of the model; nothing if there is none."""
    if not left:
        return ""
    rows = "".join(
        f'<tr><td class="number">{times}</td><td>{escape(key[0])}</td><td>{_opened(key[1], left_at.get(key, ()))}</td></tr>'
        for key, times in _ordered(left)
    )
    head = '<tr><th class="number">operators</th><th>operator</th><th>why</th></tr>'
    return f"<table><caption>{caption}</caption>{head}{rows}</table>"


def _opened(reason: str, lines: tuple[str, ...]) -> str:
    if not lines:
        return escape(reason)
    shown = "".join(f"<div>{escape(line)}</div>" for line in lines)
    return f"<details><summary>{escape(reason)}</summary>{shown}</details>"
