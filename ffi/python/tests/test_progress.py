"""The line that says what is being compiled."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import torch

import fusewright
from fusewright._progress import Line

GRAPH = """graph @g(s: 1..; %x: f32[s, {n}], %w: f32[{n}, 4]) {{
  %a = silu %x {{form = quotient}}
  %b = matmul %a, %w {{out = f32}}
  %c = exp %b
  %d = mul %c, %b
  return %d
}}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def graph(folder: Path, n: int) -> Path:
    path = folder / f"graph{n}.fw"
    path.write_text(GRAPH.format(n=n))
    return path


def test_nothing_is_said_in_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    fusewright.load(graph(tmp_path, 24))
    fusewright.explain(lambda x: torch.relu(x * 2.25) + x, torch.randn(3, 8))
    assert said.getvalue() == ""


def test_every_kernel_of_a_program_is_named_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    program = fusewright.load(graph(tmp_path, 32), progress=True)
    lines = said.getvalue().splitlines()
    assert len(lines) == len(program.kernels) == 2
    assert {line.rpartition("(")[2] for line in lines} == {"1 of 2)", "2 of 2)"}
    assert all(any(f"compiling {kernel.name} " in line for line in lines) for kernel in program.kernels)


def test_parts_of_a_model_are_named_by_their_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    x = torch.randn(3, 8)
    fusewright.explain(lambda x: torch.relu(x * 2.75) + x, x, progress=True)
    assert said.getvalue() == "fusewright: compiling mul relu add (1 of 1)\n"

    def two(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cumsum(torch.sin(x * 3.75) + x + x * x, 0) * 2.5) * x

    said.truncate(0)
    fusewright.explain(two, x, progress=True, splitting_ops=["aten.cumsum"])
    assert {line.rpartition("(")[2] for line in said.getvalue().strip("\0").splitlines()} == {"1 of 2)", "2 of 2)"}


def test_a_terminal_has_one_line_which_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", said := Terminal())
    with Line(None) as line:
        line.begins("early", 1, 3)
        line.from_then = 0.0
        line.begins("norm", 2, 3)
        line.begins("gate", 3, 3)
    text = "fusewright: compiling {} ({} of 3)"
    assert said.getvalue() == "".join(
        ["\r\x1b[K" + text.format("norm", 2), "\r\x1b[K" + text.format("gate", 3), "\r\x1b[K"]
    )


def test_a_terminal_is_silent_if_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", said := Terminal())
    with Line(False) as line:
        line.begins("norm", 1, 1)
    assert said.getvalue() == "" and not line.speaks


def test_a_stream_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", closed)
    with Line(True) as line:
        closed.close()
        line.begins("norm", 1, 1)
    monkeypatch.setattr(sys, "stderr", None)
    with Line(True) as line:
        line.begins("norm", 1, 1)


def test_the_option_is_checked() -> None:
    with pytest.raises(fusewright.CompileError, match="option `progress` is 'yes'"):
        fusewright.explain(torch.relu, torch.zeros(2), progress="yes")
