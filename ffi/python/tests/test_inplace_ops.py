"""Operators that write into their arguments: they stay as they are, and what is around them is fused."""

from __future__ import annotations

import pytest
import torch

import fusewright
from fusewright._backend import compile_graph
from fusewright._fuse import Result
from fusewright._options import Options

_library = torch.library.Library("fusewright_tests", "DEF")
_library.define("write_rows(Tensor(a!) cache, Tensor rows, Tensor places) -> ()")
_library.define("scale_(Tensor(a!) x, float by) -> ()")


def _write_rows(cache: torch.Tensor, rows: torch.Tensor, places: torch.Tensor) -> None:
    cache.index_copy_(0, places, rows)


def _scale(x: torch.Tensor, by: float) -> None:
    x.mul_(by)


_library.impl("write_rows", _write_rows, "CPU")
_library.impl("scale_", _scale, "CPU")
for _name in ("write_rows", "scale_"):
    torch.library.register_fake(f"fusewright_tests::{_name}", lambda *_: None, lib=_library)
_ops = torch.ops.fusewright_tests


def step(x: torch.Tensor, weight: torch.Tensor, cache: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """A norm, a write of its rows to a cache, a read of all of it, an operator that scales in place, and a gate."""
    wide = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
    _ops.write_rows(cache, wide, places)
    read = torch.relu(cache * 2) + 1
    _ops.scale_(read, 3.0)
    return torch.nn.functional.silu(read) * read


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("inner", ["eager", "inductor"])
def test_writes_pass_untouched_with_fused_parts_around(inner: str, version: int) -> None:
    results: list[Result] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        return compile_graph(gm, inputs, Options(strict=True, inner=inner), results.append)

    inputs = torch.randn(3, 64), torch.randn(64), torch.randn(8, 64), torch.tensor([5, 0, 2])
    caches = inputs[2].clone(), inputs[2].clone()
    with torch.no_grad(), torch._inductor.config.patch(enable_auto_functionalized_v2=version == 2):
        compiled = torch.compile(step, backend=backend)
        for _ in range(2):
            got = compiled(inputs[0], inputs[1], caches[0], inputs[3])
            expected = step(inputs[0], inputs[1], caches[1], inputs[3])
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(caches[0], caches[1], rtol=1e-5, atol=1e-6)
    (result,) = results
    names = [name for fusion in result.fusions for name, _ in fusion.kernels]
    assert "rms_norm" in names and len(result.fusions) == 3, names


def test_parts_around_writes_are_right() -> None:
    inputs = torch.randn(3, 64), torch.randn(64), torch.randn(8, 64), torch.tensor([5, 0, 2])
    checked = fusewright.check(step, *inputs, strict=True)
    assert checked.passed and len(checked.parts) == 3, str(checked)
