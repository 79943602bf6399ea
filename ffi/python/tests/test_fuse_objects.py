"""``fuse``: objects with slots, containers of other kinds, and objects that are gone."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import fusewright
from fusewright import _eager


class State:
    __slots__ = ("__weakref__", "calls", "total")

    def __init__(self, calls: int = 0) -> None:
        self.total, self.calls = torch.zeros(8), calls


@dataclass(slots=True, frozen=True)
class Scale:
    by: list[float]


class Cache:
    def __init__(self) -> None:
        self.scale = 2.0


def accumulate(x: torch.Tensor, state: State) -> torch.Tensor:
    state.total = state.total + x.sum(0)
    state.calls += 1
    return x * state.total


@pytest.mark.filterwarnings("ignore:fusewright cannot trace")
def test_slots_change_once_a_call() -> None:
    ours, theirs = State(), State()
    fused = fusewright.fuse(accumulate)
    for count in (4, 4, 5):
        x = torch.randn(count, 8)
        assert torch.equal(fused(x, ours), accumulate(x, theirs))
        assert ours.calls == theirs.calls and torch.equal(ours.total, theirs.total)


def test_slots_that_others_change_are_looked_at() -> None:
    state, x = State(2), torch.randn(4, 8)
    fused = fusewright.fuse(lambda x, state: (x * state.calls + 1).relu(), strict=True)
    for calls in (2, 3, 2):
        state.calls = calls
        assert torch.equal(fused(x, state), (x * calls + 1).relu())


@pytest.mark.parametrize("kind", [weakref.WeakKeyDictionary, bytearray, Scale])
@pytest.mark.filterwarnings("ignore:fusewright cannot trace")
def test_other_containers_change_once_a_call(kind: type) -> None:
    key, held = Cache(), kind([]) if kind is Scale else kind()

    def counts(x: torch.Tensor) -> torch.Tensor:
        if isinstance(held, weakref.WeakKeyDictionary):
            held[key] = held.get(key, 0) + 1
            return x * held[key]
        into: Any = held.by if isinstance(held, Scale) else held
        into.append(1)
        return x * len(into)

    fused = fusewright.fuse(counts)
    for call in (1, 2, 3):
        assert torch.equal(fused(torch.ones(4, 8)), torch.full((4, 8), float(call)))


def first(x: torch.Tensor, cache: Any) -> torch.Tensor:
    return (x * cache.scale + 1).relu()


def sets(x: torch.Tensor, cache: Any) -> torch.Tensor:
    if not hasattr(cache, "made"):
        cache.made = 3.0
    return (x * cache.made + 1).relu()


@pytest.mark.parametrize("fn", [first, sets])
def test_objects_are_not_kept(fn: Callable[..., Any]) -> None:
    fused, known = fusewright.fuse(fn, strict=True), []
    for _ in range(3):
        cache = Cache()
        known.append(weakref.ref(cache))
        for count in (3, 4, 3):
            assert torch.equal(fused(torch.ones(count, 8), cache), fn(torch.ones(count, 8), cache))
        del cache
    gc.collect()
    assert [of() for of in known] == [None] * 3
    assert fused.traces == []


def test_many_objects_have_the_last_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_eager, "_MOST_OBJECTS", 64)
    fused, caches = fusewright.fuse(first, strict=True), [Cache() for _ in range(70)]
    for cache in caches:
        assert torch.equal(fused(torch.ones(3, 8), cache), torch.full((3, 8), 3.0))
    assert 60 <= len(fused.traces) <= 65
    with pytest.warns(UserWarning, match="traces first for each new `Cache`"):
        for _ in range(70):
            fused(torch.ones(3, 8), Cache())


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a function or a module, not 3"):
        fusewright.fuse(3)  # type: ignore[call-overload]


def test_a_write_into_another_tensor_is_named() -> None:
    held = torch.zeros(4, 8)

    def writes(x: torch.Tensor) -> torch.Tensor:
        held.copy_(x * 2)
        return held + 1

    with pytest.warns(UserWarning, match="writes into a tensor that is no argument"):
        assert torch.equal(fusewright.fuse(writes)(torch.ones(4, 8)), torch.full((4, 8), 3.0))
