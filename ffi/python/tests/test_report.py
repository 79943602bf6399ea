"""Reports as HTML, and the logger under ``TORCH_LOGS``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import torch
from models import Gated

import fusewright
from fusewright import Kernel, Report, _native


class Elements(HTMLParser):
    """Fails on elements that do not nest; keeps texts and names."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attributes}
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    assert not elements.open and "script" not in elements.seen and "url(" not in page
    return elements


def rules(page: str) -> list[str]:
    """The selectors of all rules of style."""
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    return [one.strip() for style in styles for rule in style.split("}")[:-1] for one in rule.split("{")[0].split(",")]


def test_a_report_of_a_model_shows_its_kernels_and_what_is_left() -> None:
    report = fusewright.explain(Gated(), torch.randn(8, 64))
    elements = parsed(report._repr_html_())
    text = " ".join(elements.text)
    (kernel,) = report.kernels
    assert f"silu_mul, {len(kernel.ops)} ops" in text and f"{kernel.bytes_fused:,}" in text
    assert f"{kernel.saved():.2f} x" in text and "a library computes it" in text and "models.py:" in text
    assert elements.seen.count("table") == 2
    # The product is drawn ahead of the kernel that reads it.
    chips = elements.text[elements.text.index("One kernel per op: 2 kernels") :]
    assert chips.index("mm") < chips.index("silu") < chips.index("silu_mul")


def test_a_page_of_a_notebook_keeps_its_styles(tmp_path: Path) -> None:
    (tmp_path / "gate.fw").write_text(
        "graph @g(s: 1..; %x: f32[s, 4]) {\n  %y = silu %x {form = quotient}\n  return %y\n}\n"
    )
    for page in (
        fusewright.explain(Gated(), torch.randn(8, 64))._repr_html_(),
        fusewright.load(tmp_path / "gate.fw")._repr_html_(),
        fusewright.load(tmp_path / "gate.fw").explain()._repr_html_(),
    ):
        elements = parsed(page)
        assert page.startswith('<div class="fusewright">') and elements.seen.count("svg") == 1
        assert rules(page) and all(selector.startswith(".fusewright") for selector in rules(page))
        # Whoever chooses between light and dark has chosen the colour of the text.
        assert "prefers-color-scheme" not in page and "color: inherit" in page and "currentColor" in page
        assert not re.search(r"\sid=", page)


def test_an_empty_report_says_so() -> None:
    assert "Nothing was fused." in parsed(Report()._repr_html_()).text


def test_names_of_a_model_are_escaped() -> None:
    class Odd(Report):
        kernels = [Kernel("<script>", ("a<b",), ("<i>.py:1",), None, None)]
        left = {("<b>", "&"): 1}

    elements = parsed(Odd()._repr_html_())
    assert {"<script>, 1 ops", "a<b", "<i>.py:1", "<b>", "&"} <= set(elements.text)
    drawn = parsed(_native.picture("<t>", [("<script>", ["a<b"], None, None), (None, ["<c>"], None, None)]))
    assert {"<t>", "<script>", "a<b", "<c>"} <= set(drawn.text)


def test_torch_logs_shows_the_packages_messages() -> None:
    code = "import torch, fusewright; fusewright.fuse(lambda x: torch.relu(x * 2.0) + x.sin())(torch.ones(3, 4))"
    shown = {}
    for setting in ("", "fusewright", "+fusewright"):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TORCH_LOGS": setting}
        if not setting:
            # PyTorch itself fails where the variable is set and empty.
            del environment["TORCH_LOGS"]
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        shown[setting] = ["] kernel " in ran.stderr, "kernels: 1," in ran.stderr]
    assert shown == {"": [False, False], "fusewright": [False, True], "+fusewright": [True, True]}
