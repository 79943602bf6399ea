"""Writes of rows at chosen places into a tensor of the caller, as of keys and values into a cache: a part of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusewright
from fusewright import _fuse

SLOTS, HEADS, WIDTH = 12, 2, 16


def store(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Scales keys, writes them to the cache and reads them."""
    cache[slots] = torch.relu(keys * 2.0) + 1.0
    return cache.sum()


def store_flat(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """The same into pages, through a view of them."""
    cache.view(-1, WIDTH)[slots] = (torch.relu(keys * 2.0) + 1.0)[:, 0]
    return cache.sum()


def read_before(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """The old elements are read behind the write."""
    old = cache.clone()
    cache[slots] = torch.relu(keys * 2.0) + 1.0
    return old.cos() - cache


def read_in_it(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """What is written is computed from what is overwritten."""
    cache[slots] = torch.relu(cache[slots] * 2.0) + keys
    return cache.sum()


def added(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    cache.index_put_((slots,), torch.relu(keys * 2.0) + 1.0, accumulate=True)
    return cache.sum()


def twice(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    cache[slots] = torch.relu(keys * 2.0) + 1.0
    cache[slots + 1] = torch.relu(keys * 3.0) + 1.0
    return cache.sum()


def unwritten(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """A new tensor: the caller's stays as it is."""
    return torch.index_put(cache, (slots,), torch.relu(keys * 2.0) + 1.0)


FUNCTIONS = (store, store_flat, read_before, read_in_it, added, twice, unwritten)


def inputs(slots: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(SLOTS, HEADS, WIDTH), torch.randn(len(slots), HEADS, WIDTH), torch.tensor(slots).long()


def same(function: Callable[..., torch.Tensor], fused: Callable[..., torch.Tensor], *given: torch.Tensor) -> None:
    """Results and all arguments are eager's afterwards, to the bit but for sums."""
    own, others = [t.clone() for t in given], [t.clone() for t in given]
    got, expected = fused(*own), function(*others)
    torch.testing.assert_close(got, expected)
    for a, b in zip(own, others, strict=True):
        assert torch.equal(a, b)


def parts(function: Callable[..., object], *given: torch.Tensor) -> list[_fuse.Fusion]:
    return fusewright.explain(function, *given).graphs[0].fusions


@pytest.mark.parametrize("slots", [[3, 0, 7], [1], [-1, 2, -12], []], ids=str)
@pytest.mark.parametrize("inner", ["eager", "inductor"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_callers_see_what_was_written(function: Callable[..., torch.Tensor], inner: str, slots: list[int]) -> None:
    fused = torch.compile(function, backend=fusewright.backend, options={"strict": True, "inner": inner})
    with torch.no_grad():
        for _ in range(2):
            same(function, fused, *inputs(slots))


@pytest.mark.parametrize("function", [store, store_flat])
def test_a_write_is_a_part_of_the_kernel_of_its_rows(function: Callable[..., torch.Tensor]) -> None:
    fusions = parts(function, *inputs([3, 0, 7]))
    made = [made for fusion in fusions for made in fusion.call.record.outputs if made.overwrites is not None]
    assert len(made) == 1
    ops = [op for fusion in fusions for _, ops in fusion.kernels for op, _ in ops]
    assert "aten.index_put.default" in ops
    assert not fusewright.explain(function, *inputs([3, 0, 7])).left


def test_keys_and_values_are_written_by_one_kernel() -> None:
    def step(keys: torch.Tensor, values: torch.Tensor, new: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        queries, key, value = new.view(-1, 4, WIDTH).split([2, 1, 1], 1)
        keys.view(-1, 1, WIDTH)[slots] = torch.relu(key * 2.0) + 1.0
        values.view(-1, 1, WIDTH)[slots] = value
        return torch.relu(queries * 2.0) + 1.0

    given = (
        *(torch.randn(3, SLOTS, WIDTH) for _ in range(2)),
        torch.randn(5, 4 * WIDTH),
        torch.tensor([3, 0, 35, 9, -2]),
    )
    (fusion,) = parts(step, *given)
    assert len(fusion.kernels) == 1
    assert sum(made.overwrites is not None for made in fusion.call.record.outputs) == 2
    same(step, torch.compile(step, backend=fusewright.backend, options={"strict": True}), *given)


@pytest.mark.parametrize("function", [read_before, read_in_it, unwritten, twice])
def test_a_tensor_that_something_reads_as_it_was_is_not_overwritten(function: Callable[..., torch.Tensor]) -> None:
    fusions = parts(function, *inputs([3, 0, 7]))
    assert all(made.overwrites is None for fusion in fusions for made in fusion.call.record.outputs)


def test_of_equal_slots_one_wins() -> None:
    fused = torch.compile(store, backend=fusewright.backend, options={"strict": True})
    cache, keys, slots = inputs([4, 4, 5, 4])
    old = cache.clone()
    fused(cache, keys, slots)
    rows = torch.relu(keys * 2.0) + 1.0
    assert any(torch.equal(cache[4], row) for row in (rows[0], rows[1], rows[3])) and torch.equal(cache[5], rows[2])
    untouched = [i for i in range(SLOTS) if i not in (4, 5)]
    assert torch.equal(cache[untouched], old[untouched])


def test_places_beyond_the_tensor_write_nothing() -> None:
    fused = torch.compile(store, backend=fusewright.backend, options={"strict": True})
    whole = torch.zeros(3 * SLOTS, HEADS, WIDTH)
    for place in (SLOTS, SLOTS + 2, -SLOTS - 1, 1 << 40):
        whole.zero_()
        fused(whole[SLOTS : 2 * SLOTS], torch.ones(2, HEADS, WIDTH), torch.tensor([3, place]))
        assert whole.flatten(1).sum(1).nonzero().flatten().tolist() == [SLOTS + 3]


@pytest.mark.parametrize("lies", ["with gaps", "turned", "shifted"])
def test_a_cache_that_kernels_cannot_read_as_it_lies_is_written_too(lies: str) -> None:
    fused = torch.compile(store, backend=fusewright.backend, options={"strict": True})
    _, keys, slots = inputs([3, 0, 7])

    def cache() -> torch.Tensor:
        torch.manual_seed(1)
        if lies == "with gaps":
            return torch.randn(SLOTS, HEADS, 2 * WIDTH)[..., :WIDTH]
        if lies == "turned":
            return torch.randn(HEADS, SLOTS, WIDTH).transpose(0, 1)
        return torch.randn(SLOTS * HEADS * WIDTH + 1)[1:].view(SLOTS, HEADS, WIDTH)

    for _ in range(2):
        own, other = cache(), cache()
        torch.testing.assert_close(fused(own, keys, slots), store(other, keys, slots))
        assert torch.equal(own, other)


def test_a_new_number_of_rows_writes_with_the_same_kernel() -> None:
    fused = torch.compile(store, backend=fusewright.backend, options={"strict": True}, dynamic=True)
    compiled = set()
    for rows in (3, 9, 2, 12):
        same(store, fused, *inputs(list(range(rows))))
        compiled.add(fusewright.counters()["compiles"])
    assert len(compiled) == 1


def test_eager_functions_write_too() -> None:
    fused = fusewright.fuse(store, strict=True)
    for _ in range(2):
        same(store, fused, *inputs([3, 0, 7]))


def test_what_is_written_is_checked() -> None:
    assert fusewright.check(store, *inputs([3, 0, 7]), strict=True).passed


def rows_apart(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One row is written, another is read."""
    z = x * 2
    z[0] = y[0] + 1
    return z[2] * 3


def rows_that_overlap(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    z[0:2] = y[0:2]
    z[1:3] *= 3
    return z


def columns_apart(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    z[:, 0] = y[:, 1]
    z[:, 2] += 5
    return z


def rows_in_turn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    z[0], z[1] = x[0], y[0]
    z[2] = z[1] - z[0]
    return z


def rows_of_the_caller(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[0] = y[0] * 2
    x[2] += 5
    return x * 1


def boxes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 3
    z[..., 0::2] = z[..., 0::2].clamp(0, 3)
    z[..., 1::2] = z[..., 1::2].clamp(0, 2) - y[..., 1::2]
    return z


PARTS = (rows_apart, rows_that_overlap, columns_apart, rows_in_turn, rows_of_the_caller, boxes)


@pytest.mark.parametrize("function", PARTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("begin", [0, 2])
@pytest.mark.parametrize("door", ["compile", "fuse"])
def test_what_is_read_is_what_stands_at_its_place(function: Callable[..., torch.Tensor], begin: int, door: str) -> None:
    rows = torch.randn(begin + 6, 4)
    ours, theirs = rows.clone(), rows.clone()
    fused = (
        fusewright.fuse(function, strict=True)
        if door == "fuse"
        else torch.compile(function, backend=fusewright.backend, options={"strict": True})
    )
    with torch.no_grad():
        made = fused(ours[begin : begin + 3], ours[begin + 3 :])
        expected = function(theirs[begin : begin + 3], theirs[begin + 3 :])
    assert torch.equal(made, expected) and torch.equal(ours, theirs)
