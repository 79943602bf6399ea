"""``fuse``: extents of tensors are numbers to a function while it is traced, also where it keeps or writes them."""

import functools
from collections.abc import Callable
from types import SimpleNamespace
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


class Kept:
    rows: Any = None
    shape: Any = None


class Slotted:
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: Any = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.rows is None:
            self.rows = x.shape[0]
        return x * self.rows * 2


def _class() -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    Kept.rows = Kept.shape = None

    def keeps(x: torch.Tensor) -> torch.Tensor:
        if Kept.rows is None:
            Kept.rows, Kept.shape = x.shape[0], x.shape
        return x * Kept.rows * 2

    return keeps, lambda: [Kept.rows, *Kept.shape]


def _object_of_a_class() -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    Kept.rows = SimpleNamespace()

    def keeps(x: torch.Tensor) -> torch.Tensor:
        if not hasattr(Kept.rows, "first"):
            Kept.rows.first = x.shape[0]
        return x * Kept.rows.first * 2

    return keeps, lambda: [Kept.rows.first]


def _slots() -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    keeps = Slotted()
    return keeps, lambda: [keeps.rows]


def _cached_list() -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    @functools.lru_cache
    def held() -> list[Any]:
        return []

    def keeps(x: torch.Tensor) -> torch.Tensor:
        if not held():
            held().append((x.shape[0], x.shape[0] / 2))
        return x * held()[0][0] * 2

    return keeps, lambda: list(held()[0])


def _cache() -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    now: list[Any] = [4]

    @functools.lru_cache
    def rows() -> Any:
        return now[0]

    def keeps(x: torch.Tensor) -> torch.Tensor:
        now[0] = x.shape[0]
        return x * rows() * 2

    return keeps, lambda: [rows()]


@pytest.mark.parametrize("make", [_class, _object_of_a_class, _slots, _cached_list, _cache])
@pytest.mark.filterwarnings("ignore:fusewright cannot trace")
def test_extents_that_are_kept_are_numbers(make: Callable[..., Any]) -> None:
    fn, held = make()
    fused = fusewright.fuse(fn)
    made = [fused(_rows(count)) for count in (4, 4, 6, 2)]
    assert all(type(number) in (int, float) for number in held())
    assert held()[0] == 4
    assert all(torch.equal(one, _rows(count) * 4 * 2) for one, count in zip(made, (4, 4, 6, 2)))


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
