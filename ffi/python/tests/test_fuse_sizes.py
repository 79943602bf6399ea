"""``fuse``: extents of tensors are numbers to a function while it is traced, also where it keeps or writes them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fusewright


def _rows(count: int) -> torch.Tensor:
    return torch.arange(count * 8, dtype=torch.float32).view(count, 8)


def _fused_as(fn: Callable[..., Any], fused: Callable[..., Any]) -> None:
    for count in (4, 4, 6, 2, 4):
        expected, made = fn(_rows(count)), fused(_rows(count))
        assert torch.equal(made, expected)


def by_text(x: torch.Tensor) -> torch.Tensor:
    return x * {"4": 4.0, "6": 6.0}.get(f"{x.shape[0]}", 0.5) + 1


def by_text_of_shape(x: torch.Tensor) -> torch.Tensor:
    return x * (2.0 if str(x.shape) == "torch.Size([4, 8])" else 3.0) + 1


def by_class(x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    assert not isinstance(rows, (float, str))
    return x * (2.0 if isinstance(rows, int) else 3.0) + rows


def by_quotient(x: torch.Tensor) -> torch.Tensor:
    return x * (2.0 if isinstance(x.shape[0] / 2, float) else 3.0) + x.shape[0] / 2


def by_comparison(x: torch.Tensor) -> torch.Tensor:
    return x * (2.0 if isinstance(x.shape[0] > 4, bool) else 3.0) + 1


@pytest.mark.parametrize("fn", [by_text, by_text_of_shape, by_class, by_quotient, by_comparison])
def test_extents_are_numbers_to_a_function(fn: Callable[..., Any]) -> None:
    _fused_as(fn, fusewright.fuse(fn, strict=True))


def test_text_of_extents_is_a_result() -> None:
    def words(x: torch.Tensor) -> tuple[torch.Tensor, str, str]:
        return (x * 2 + 1).relu(), f"{x.shape[0]} rows", repr(tuple(x.shape))

    fused = fusewright.fuse(words, strict=True)
    assert [fused(_rows(count))[1:] for count in (4, 6, 4)] == [words(_rows(count))[1:] for count in (4, 6, 4)]


def test_a_size_that_a_part_computes_is_none_that_it_needs() -> None:
    weight = torch.eye(8)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.sigmoid((x.view(-1, 8) @ weight).view(x.shape[0], 5, 8)) * 2 + 1
        z = y[0:]
        return z.sum(-1) * 2, torch.zeros(z.shape[0], 3)

    fused = fusewright.fuse(fn, strict=True)
    for count in (4, 6):
        x = torch.randn(count, 5, 8)
        torch.testing.assert_close(fused(x), fn(x))
    assert fused.results[0].fusions
