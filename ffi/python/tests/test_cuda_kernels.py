"""``fusewright.Kernel`` on an NVIDIA GPU: kernels of loaded programs by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

import fusewright
from fusewright import Kernel, _native

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not _native.HAS_CUDA, reason="skipped: cuda (no device, or a module without it)"
)

SCALED = """graph @scaled(s: 0..; %x: bf16[s, 64], %w: bf16[64]) {
  %0 = cast %x {to = f32, round = rne}
  %1 = literal f32 2.0
  %2 = mul %0, %1
  %3 = cast %w {to = f32, round = rne}
  %4 = mul %2, %3
  %5 = cast %4 {to = bf16, round = rne}
  return %5
}
"""
WRITE = """graph @write(n: 1.., s: 1..; %cache: f32[n, 8], %slots: i64[s], %x: f32[s, 8]) {
  %y = neg %x
  %new = scatter %cache, %slots, %y {axis = 0}
  return %new updates %cache
}
"""


def loaded(text: str, folder: Path) -> Kernel:
    path = folder / "graph.fw"
    path.write_text(text)
    (kernel,) = fusewright.load(path, target="cuda").kernels
    return kernel


@pytest.fixture
def scaled(tmp_path: Path) -> Kernel:
    return loaded(SCALED, tmp_path)


def arrays(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A tensor of so many rows, weights, and the result."""
    x, w = torch.randn(rows, 64, device="cuda").bfloat16(), torch.randn(64, device="cuda").bfloat16()
    return x, w, (x.float() * 2.0 * w.float()).bfloat16()


@pytest.mark.parametrize("rows", [0, 1, 7, 512, 4099])
def test_a_kernel_is_called_on_tensors(scaled: Kernel, rows: int) -> None:
    x, w, expected = arrays(rows)
    result = scaled(x, w)
    assert result.device == x.device and torch.equal(result, expected)
    out = torch.zeros_like(x)
    scaled.launch([x, w], [out])
    assert torch.equal(out, expected)
    # What is not without gaps is copied first.
    wide = torch.zeros(rows, 128, device="cuda").bfloat16()
    wide[:, ::2] = x
    assert torch.equal(scaled(wide[:, ::2], w), expected)


def test_the_stream_of_the_caller_is_used(scaled: Kernel) -> None:
    x, w, expected = arrays(4099)
    late = torch.zeros_like(x)
    stream = torch.cuda.Stream()
    scaled(late, w)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # Waits long enough that a launch on another stream would read zeros.
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        result = scaled(late, w)
    stream.synchronize()
    assert torch.equal(result, expected)


def test_a_kernel_that_overwrites_gives_the_input(tmp_path: Path) -> None:
    kernel = loaded(WRITE, tmp_path)
    x, cache = torch.randn(2, 8, device="cuda"), torch.zeros(5, 8, device="cuda")
    given = {"x": x, "cache": cache, "slots": torch.tensor([3, 0], device="cuda")}
    inputs = [given[wanted.name] for wanted in kernel.inputs]
    assert kernel(*inputs) is cache
    assert torch.equal(cache[[3, 0]], -x) and (cache[[1, 2, 4]] == 0).all()
    with pytest.raises(fusewright.CallError, match="is another array"):
        kernel.launch(inputs, [torch.zeros(5, 8, device="cuda")])


def test_errors_of_calls_name_the_array(scaled: Kernel) -> None:
    x, w, _ = arrays(3)
    with pytest.raises(fusewright.CallError, match="takes 2 arrays"):
        scaled(x)
    with pytest.raises(fusewright.CallError, match="got f32"):
        scaled(x.float(), w)
    with pytest.raises(fusewright.CallError, match="takes tensors of torch"):
        scaled(numpy.zeros((3, 64), numpy.float32), w)
    with pytest.raises(fusewright.CallError, match="input 1"):
        scaled(x, w.cpu())
    # As many bytes, and another shape.
    with pytest.raises(fusewright.CallError, match=r"output `out0` is bf16\[3, 64\], got bf16\[64, 3\]"):
        scaled.launch([x, w], [torch.zeros(64, 3, device="cuda").bfloat16()])
    with pytest.raises(fusewright.CallError, match=r"output `out0` is bf16\[3, 64\], got f32\[3, 64\]"):
        scaled.launch([x, w], [torch.zeros(3, 64, device="cuda")])
    with pytest.raises(fusewright.CallError, match="output 0"):
        scaled.launch([x, w], [torch.zeros(64, 3, device="cuda").bfloat16().t()])
    with pytest.raises(fusewright.CallError, match="output 0"):
        scaled.launch([x, w], [torch.zeros(3, 64).bfloat16()])


def test_stages_are_in_the_order_of_compilation(scaled: Kernel) -> None:
    stages = scaled.stages
    assert list(stages)[:3] == ["body", "lowered", "expanded"] and ".visible .entry" in str(stages["ptx"])
