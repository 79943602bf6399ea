"""``fusewright.Kernel``: kernels of reports and programs by themselves, with their code and their calls."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch
from models import AddNorm, Gated
from test_book import ROOT

import fusewright
from fusewright import Kernel, TensorSpec

#: Graphs that torch exported.
FIXTURES = [] if ROOT is None else sorted((ROOT / "fixtures").glob("*.train.pt2"))
GATE = """graph @gate(s: 1..; %x: f32[s, 8], %y: f32[s, 8]) {
  %a = silu %x {form = quotient}
  %b = mul %a, %y
  return %b
}
"""
WRITE = """graph @write(n: 1.., s: 1..; %cache: f32[n, 8], %slots: i64[s], %x: f32[s, 8]) {
  %y = silu %x {form = quotient}
  %new = scatter %cache, %slots, %y {axis = 0}
  return %new updates %cache
}
"""


def loaded(text: str, folder: Path) -> fusewright.Program:
    path = folder / "graph.fw"
    path.write_text(text)
    return fusewright.load(path)


@pytest.fixture
def gate(tmp_path: Path) -> Kernel:
    (kernel,) = loaded(GATE, tmp_path).kernels
    return kernel


def test_a_kernel_says_what_it_takes_and_gives(gate: Kernel) -> None:
    assert gate.name == "silu_mul" and set(gate.ops) == {"silu", "mul"} and gate.target == "cpu"
    assert gate.symbols == {"s": (1, None)}
    assert gate.inputs == tuple(TensorSpec(name, "f32", ("s", 8)) for name in "xy")
    assert gate.outputs == (TensorSpec("out0", "f32", ("s", 8)),)


def test_stages_are_in_the_order_of_compilation(gate: Kernel) -> None:
    stages = gate.stages
    assert list(stages)[:4] == ["body", "lowered", "expanded", "clif"]
    assert all(isinstance(stages[name], str) for name in ("body", "lowered", "expanded", "clif"))
    assert "graph @" in str(stages["body"]) and any(isinstance(form, bytes) for form in stages.values())


def test_a_kernel_is_called_on_arrays(gate: Kernel) -> None:
    for rows in (1, 7):
        x, y = torch.randn(2, rows, 8)
        expected = torch.nn.functional.silu(x) * y
        assert torch.allclose(gate(x, y), expected)
        result = gate(x.numpy(), y.numpy(), threads=1)
        assert isinstance(result, numpy.ndarray) and numpy.allclose(result, expected.numpy(), rtol=1e-5)
        out = numpy.zeros((rows, 8), numpy.float32)
        gate.launch([x, y], [out])
        assert (out == result).all()


def test_a_kernel_that_overwrites_gives_the_input(tmp_path: Path) -> None:
    (kernel,) = loaded(WRITE, tmp_path).kernels
    x, cache = torch.randn(2, 8), torch.zeros(5, 8)
    given = {"x": x, "cache": cache, "slots": torch.tensor([3, 0])}
    arrays = [given[wanted.name] for wanted in kernel.inputs]
    result = kernel(*arrays)
    assert result is cache
    assert torch.allclose(cache[[3, 0]], torch.nn.functional.silu(x)) and (cache[[1, 2, 4]] == 0).all()
    with pytest.raises(fusewright.CallError, match="is another array"):
        kernel.launch(arrays, [torch.zeros(5, 8)])


def test_errors_of_calls_name_the_array(gate: Kernel) -> None:
    x = torch.zeros(3, 8)
    with pytest.raises(fusewright.CallError, match="takes 2 arrays"):
        gate(x)
    with pytest.raises(fusewright.CallError, match="got f64"):
        gate(x, x.double())
    with pytest.raises(fusewright.CallError, match="has 1 outputs, got 2"):
        gate.launch([x, x], [x, x])
    with pytest.raises(fusewright.CallError, match=r"output `out0` is f32\[3, 8\], got f32\[4, 8\]"):
        gate.launch([x, x], [torch.zeros(4, 8)])
    with pytest.raises(fusewright.CallError, match="output `out0` is overwritten, and is not in row-major order"):
        gate.launch([x, x], [torch.zeros(8, 3).t()])


def test_kernels_of_a_report_are_called_too() -> None:
    report = fusewright.explain(Gated(), torch.randn(8, 64))
    (kernel,) = report.kernels
    arrays = [torch.randn(*(8 if isinstance(n, str) else n for n in wanted.shape)) for wanted in kernel.inputs]
    result = kernel(*arrays)
    assert result.shape[-1] == 64 and "clif" in kernel.stages
    fused = arrays[0] if len(arrays) == 1 else torch.cat(arrays, -1)
    gate, up = fused.chunk(2, -1)
    assert torch.allclose(result.reshape(8, 64), (torch.nn.functional.silu(gate) * up).reshape(8, 64), atol=1e-6)


def test_equal_kernels_are_one_of_a_report() -> None:
    layers = torch.nn.ModuleList(AddNorm() for _ in range(4))

    def model(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = torch.mm(layer(x, x)[0].float(), torch.eye(256)).bfloat16()
        return x

    report = fusewright.explain(model, torch.randn(8, 256).bfloat16())
    assert max(kernel.times for kernel in report.kernels) >= 3


def test_a_record_without_code_says_so() -> None:
    record = Kernel("silu_mul", ("silu", "mul"), (), None, None)
    with pytest.raises(fusewright.CallError, match="without code"):
        record.stages  # noqa: B018


def test_weights_are_inputs_of_a_kernel(tmp_path: Path) -> None:
    norm = torch.nn.RMSNorm(16, eps=1e-6)
    torch.export.save(torch.export.export(norm, (torch.rand(4, 16),)), tmp_path / "norm.pt2")
    (kernel,) = fusewright.load(tmp_path / "norm.pt2").kernels
    x, weight = torch.randn(4, 16), torch.rand(16)
    given = [weight if wanted.shape == (16,) else x for wanted in kernel.inputs]
    assert len(given) == 2
    assert torch.allclose(kernel(*given), torch.nn.functional.rms_norm(x, (16,), weight, 1e-6), atol=1e-6)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_every_kernel_of_the_fixtures_can_be_called_by_itself(path: Path) -> None:
    program = fusewright.load(path)
    assert program.counts["kernels"] == sum(kernel.times for kernel in program.explain().kernels)
    for kernel in program.kernels:
        code = kernel._compiled()
        assert len(code.outputs) == len(kernel.outputs) and kernel.ops


def test_there_are_fixtures() -> None:
    if ROOT is None:
        pytest.skip("skipped: kernels of the fixtures (no checkout around the tests)")
    assert len(FIXTURES) >= 10


def test_arrays_that_overlap_are_refused(gate: Kernel) -> None:
    memory = torch.randn(11, 8)
    x, y = memory[:5].clone(), torch.randn(5, 8)
    expected = torch.nn.functional.silu(x) * y
    with pytest.raises(fusewright.CallError, match="output `out0` overlaps a part of input `x`"):
        gate.launch([memory[:5], y], [memory[1:6]])
    # Side by side, and where an input lies as a whole.
    memory[:5] = x
    gate.launch([memory[:5], y], [memory[5:10]])
    assert torch.equal(memory[5:10], expected) and torch.equal(memory[:5], x)
    gate.launch([memory[:5], y], [memory[:5]])
    assert torch.equal(memory[:5], expected)
    two = fusewright.explain(lambda x: ((s := x + 1), s.relu() * 2), x).kernels[0]
    out = torch.empty(5, 8)
    with pytest.raises(fusewright.CallError, match="outputs `out0` and `out1` overlap"):
        two.launch([x], [out, out])


def test_what_is_no_dense_array_is_named(gate: Kernel) -> None:
    x = torch.randn(5, 8)
    with pytest.raises(fusewright.CallError, match="input `y` is sparse_coo; it must be a dense tensor"):
        gate(x, x.to_sparse())
    with pytest.raises(fusewright.CallError, match="input `x` is nested"):
        gate(torch.nested.nested_tensor([x, x]), x)
    with pytest.raises(fusewright.CallError, match="`inputs` of kernel `silu_mul` is no list of arrays but NoneType"):
        gate.launch(None, None)  # type: ignore[arg-type]
    with pytest.raises(fusewright.CallError, match=r"input `y` is f32\[s, 8\], got f32\[5, 9\]"):
        gate(x, torch.randn(5, 9))


def test_a_dynamic_quantiser_is_listed_whole() -> None:
    def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = x.float()
        scale = wide.abs().amax(-1, keepdim=True) / 127
        return (wide / scale).round().clamp(-128, 127).to(torch.int8), scale

    (kernel,) = fusewright.explain(quantised, torch.randn(33, 100, dtype=torch.bfloat16)).kernels
    assert kernel.ops == ("_to_copy", "abs", "amax", "div", "div", "round", "clamp", "_to_copy")
    # Each operator reads and writes: 3,300 elements in two bytes, four or one, and 33 scales.
    n, m = 33 * 100, 33
    one_by_one = [6 * n, 8 * n, 4 * n + 4 * m, 8 * m, 8 * n + 4 * m, 8 * n, 8 * n, 5 * n]
    assert kernel.bytes_unfused == sum(one_by_one) and kernel.bytes_fused == 3 * n + 4 * m
