"""Functions whose graphs are of every shape that parts are cut from: results must be eager PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from models import steps_apart

import fusewright


def interleaved_rope(x: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(x.shape[0], dtype=torch.float32), torch.arange(1, x.shape[1] // 2 + 1))
    turned = torch.view_as_complex(x.float().view(x.shape[0], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(1).to(x.dtype)


FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "layer_norm": lambda x: F.layer_norm(torch.relu(x), (x.shape[-1],)) * 2.0,
    "softmax": lambda x: torch.softmax(x * 0.5, -1) - 1.0,
    "halves": lambda x: [torch.relu(half) * 2.0 for half in x.chunk(2, -1)],
    "three_parts": lambda x: [torch.tanh(part) + 1.0 for part in x.split([8, 16, 8], -1)],
    "joined": lambda x: torch.cat([torch.relu(x), x * 2.0 - 1.0], -1),
    "stacked": lambda x: torch.stack([torch.relu(x), x + 1.0], 1).flatten(0, 1) * 3.0,
    "where": lambda x: torch.where(x > 0.5, x * 2.0, torch.exp(x)),
    "compares": lambda x: (x * 2.0 > 1.0) & (x + 1.0 < 2.0),
    "largest": lambda x: torch.max(torch.relu(x) * 2.0, -1),
    "place_of_largest": lambda x: torch.argmax(torch.relu(x) + x, -1),
    "same_result_twice": lambda x: (y := torch.relu(x * 2.0), y),
    "equal_results": lambda x: (torch.relu(x * 2.0), torch.relu(x * 2.0)),
    "input_as_result": lambda x: (x, torch.relu(x * 2.0) + x),
    "view_of_input": lambda x: (x[:, :4], torch.relu(x * 2.0) + x),
    "view_of_result": lambda x: ((y := torch.relu(x * 2.0) + x), y[:, ::2], y.t()),
    "simplified_away": lambda x: (x * 1.0 + 0.0, torch.relu(x) + 1.0),
    "constant_result": lambda x: (torch.ones(4) * 2.0 + 1.0, torch.relu(x) + 1.0),
    "turned": lambda x: torch.relu(x.t() * 2.0).contiguous() + 1.0,
    "turned_and_left": lambda x: torch.relu(x.t() * 2.0) + 1.0,
    "stretched": lambda x: torch.relu(x[:, None, :].expand(-1, 3, -1) * 2.0) + 1.0,
    "rows_reduced": lambda x: torch.relu(x * 2.0).sum(0) + 1.0,
    "all_reduced": lambda x: (torch.relu(x * 2.0) + 1.0).mean(),
    "number_of_rows": lambda x: torch.relu(x) * x.shape[0] + x.shape[0] / 2,
    "narrowed": lambda x: (x * 3.0).to(torch.bfloat16).float() + 1.0,
    "quantised": lambda x: torch.clamp(torch.round(x * 20.0), -128, 127).to(torch.int8),
    "chosen_rows": lambda x: torch.relu(x)[torch.tensor([1, 0, 1])] * 2.0,
    "sums_so_far": lambda x: torch.cumsum(torch.relu(x), -1) * 2.0,
    "through_a_product": lambda x: torch.relu((torch.relu(x * 2.0) + 1.0) @ torch.ones(32, 8)) * 2.0,
    "around_a_product": lambda x: (y := torch.relu(x) + 1.0) * (y @ torch.ones(32, 32)) - y,
    "interleaved_rope": interleaved_rope,
    "mask": lambda x: torch.softmax(x.masked_fill(torch.arange(32) > 20, float("-inf")), -1) * 2.0,
    "top": lambda x: torch.topk(torch.relu(x) + x, 2, -1),
    "made_in_place": lambda x: torch.relu(x).mul_(2.0).add_(1.0),
}
#: Representable numbers between results: sums in another order, and functions that are not exact.
APART = 96


@pytest.mark.parametrize("rows", [1, 5, 300])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("door", ["backend", "fuse"])
def test_results_are_eager_ones(name: str, rows: int, door: str) -> None:
    function, x = FUNCTIONS[name], torch.randn(max(rows, 2) if name == "chosen_rows" else rows, 32)
    if door == "fuse":
        fused = fusewright.fuse(function, strict=True)
    else:
        fused = torch.compile(function, backend=fusewright.backend, options={"strict": True})
    with torch.no_grad():
        got, expected = (list(torch.utils._pytree.tree_leaves(f(x.clone()))) for f in (fused, function))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype == torch.float32:
            close = steps_apart(a, b) <= APART or torch.allclose(a, b, rtol=1e-5, atol=1e-6)
            assert close
        else:
            assert torch.equal(a, b)


def test_sizes_that_only_kernels_know_are_left_to_pytorch() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(-1, 2)
        y[..., :1].mul_(2)
        return y * 1

    compiled = torch.compile(halves, backend="fusewright", dynamic=True, options={"strict": True})
    for rows, lanes in ((8, 9), (7, 6), (4, 5)):
        x = torch.randn(rows, lanes).t()
        assert torch.equal(compiled(x.clone()), halves(x.clone()))
