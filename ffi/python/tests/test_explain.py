"""Reports, counters and errors: what a user reads."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch
from models import AddNorm, Gated

import fusewright
from fusewright import _native, _store
from fusewright._options import Options

README = Path(__file__).parents[1] / "README.md"


def test_a_report_names_kernels_lines_and_what_is_left() -> None:
    x = torch.randn(8, 64)
    report = fusewright.explain(Gated(), x)
    text = str(report)
    (kernel,) = report.kernels
    assert kernel.name == "silu_mul" and {"silu", "mul"} <= set(kernel.ops)
    assert kernel.saved() is not None and kernel.saved() > 1.2
    assert re.search(r"models\.py:\d+", text)
    (product,) = (key for key in report.left if key[1] == "a library computes it")
    (line,) = report.left_at[product]
    assert re.fullmatch(r".*models\.py:\d+", line) and f"{product[0]}: {product[1]}\n      at {line}" in text
    assert line in report._repr_html_()


def test_an_operator_by_itself_is_left_and_listed() -> None:
    report = fusewright.explain(
        lambda x: torch.cumsum(torch.relu(x * 3) + 1, 0) * 2, torch.randn(4, 8), splitting_ops=["aten.cumsum"]
    )
    reasons = {
        "aten.mul.Tensor": "a kernel of its own would save no launch",
        "aten.cumsum.default": "it splits the graph",
    }
    assert report.left == {(op, reason): 1 for op, reason in reasons.items()}


def test_equal_layers_are_compiled_once() -> None:
    layers = torch.nn.ModuleList(AddNorm() for _ in range(6))

    class Stack(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.mm(layer(x, x)[0].float(), torch.eye(256)).bfloat16()
            return x

    before = fusewright.counters()
    report = fusewright.explain(Stack(), torch.randn(8, 256).bfloat16())
    after = fusewright.counters()
    assert sum(kernel.times for kernel in report.kernels) >= 6
    assert after["memory_hits"] - before["memory_hits"] >= 4
    assert after["compiles"] - before["compiles"] <= 3


def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    if "fusewright" not in {point.name for point in entry_points(group="torch_dynamo_backends")}:
        pytest.skip("skipped: the backend's name (the package is not installed)")
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 10
    exec(compile(code.replace("range(50)", "range(2)"), str(README), "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out
    assert "add_rms_norm" in printed and re.search(r"\d x as fast", printed)


def test_a_program_that_is_none_is_an_error_of_ours() -> None:
    with pytest.raises(fusewright.CompileError, match="schema") as caught:
        _store.compiled(b"{}", "cpu", None, Options())
    assert isinstance(caught.value, fusewright.Error) and caught.value.op is None
    with pytest.raises(fusewright.CompileError, match="target"):
        _store.compiled(b"{}", "abacus", None, Options())


def test_errors_name_the_op_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise _native.UnavailableError("no memory for code")

    monkeypatch.setattr(_native, "compile", refused)
    with pytest.raises(fusewright.UnavailableError, match="no memory for code") as caught:
        fusewright.fuse(lambda x: torch.relu(x * 3.5) + 2.5, strict=True)(torch.randn(3, 8))
    assert "aten.mul.Tensor" in str(caught.value.op)


def test_a_call_that_does_not_fit_is_refused() -> None:
    fused = fusewright.fuse(lambda x: torch.relu(x * 4.5) + 2.5, strict=True)
    fused(torch.randn(3, 8))
    kernel = fused.results[0].fusions[0].call.kernel
    with pytest.raises(fusewright.CallError, match="tensors"):
        kernel.launch((3,), (0,))
    with pytest.raises(fusewright.CallError, match="symbol"):
        kernel.launch((-3,), (0, 0))
    with pytest.raises(fusewright.CallError, match="symbols"):
        kernel.launch((), (0, 0))


def test_a_place_where_dynamo_ends_a_graph_is_named() -> None:
    """Sizes that depend on elements: what comes behind is another graph, and the operator itself PyTorch's."""
    report = fusewright.explain(lambda x: (torch.nonzero(x), torch.relu(x) * 2), torch.randn(4, 8))
    assert len(report.breaks) == 1 and "aten.nonzero" in report.breaks[0] and "\n" not in report.breaks[0]
    assert report.breaks[0] in str(report) and "aten.nonzero" in report._repr_html_()
    assert fusewright.explain(torch.relu, torch.randn(4, 8)).breaks == []
