"""Ops whose kernels compare all elements with each other are left to PyTorch where rows are long."""

from __future__ import annotations

import pytest
import torch

import fusewright

REASON = "compare all elements"


def beside(op: str, width: int) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """What is left of a row's op between others, its result and PyTorch's."""

    def call(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x * 2.0) + 1.0
        made = {
            "sort": lambda: torch.sort(y, dim=-1).values,
            "topk": lambda: torch.topk(y, 8, dim=-1).values,
            "cumsum": lambda: torch.cumsum(y, -1),
        }[op]()
        return torch.relu(made - 1.5) * 3.0

    fused = fusewright.fuse(call, strict=True)
    x = torch.randn(5, width)
    with torch.no_grad():
        got = fused(x)
    left = [name for result in fused.results for name, reason in result.left if REASON in reason]
    return left, got, call(x)


@pytest.mark.parametrize("op", ["sort", "topk", "cumsum"])
def test_long_rows_are_left(op: str) -> None:
    left, got, expected = beside(op, 3000)
    assert [name.split(".")[1] for name in left] == [op]
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("op", ["sort", "topk", "cumsum"])
def test_short_rows_are_not(op: str) -> None:
    left, got, expected = beside(op, 40)
    assert left == []
    torch.testing.assert_close(got, expected)


def test_lengths_that_are_not_known_are_left() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cumsum(torch.relu(x * 2.0), 0) * 3.0)

    fused = torch.compile(call, backend=fusewright.backend, options={"strict": True}, dynamic=True)
    for rows in (3, 900):
        x = torch.rand(rows, 4)
        torch.testing.assert_close(fused(x), call(x))
