"""``fuse``: arguments and results in containers, what calls change in these, and what grows from call to call."""

from __future__ import annotations

import copy
import random
import warnings
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import fusewright

Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class State:
    total: torch.Tensor
    calls: int = 0


@dataclass(slots=True, frozen=True)
class Frozen:
    scale: torch.Tensor
    by: list[float]


def of_list(x: torch.Tensor, held: list[Any]) -> Any:
    return torch.relu(x * held[0]) + held[1]["bias"], [held[0] * 2.0, held]


def of_tuples(x: torch.Tensor, held: Any) -> Any:
    return Pair(torch.relu(x * held.first) - held.second[0], held.second)


def appends(x: torch.Tensor, held: list[Any]) -> Any:
    held.append(x * 2.0 + 1.0)
    held[0] = held[0] + x.shape[0]
    return x * held[0]


def of_dictionary(x: torch.Tensor, held: Any) -> Any:
    held["new"] = OrderedDict(b=x + held["a"] * 2.0, a=None)
    return held.pop("a") * x


def of_state(x: torch.Tensor, held: State) -> Any:
    held.total = held.total + x[0]
    held.calls += x.shape[0]
    return {"state": held, "other": State(x * held.total + held.calls)}


def of_frozen(x: torch.Tensor, held: Frozen) -> Any:
    held.by.append(held.by[-1] * 2.0)
    return torch.relu(x * held.scale) * held.by[-1]


def of_namespace(x: torch.Tensor, held: Any) -> Any:
    held.deep.table = x * 2.0 if held.deep.table is None else held.deep.table + x
    return held.deep


def shared(x: torch.Tensor, held: list[Any]) -> Any:
    held[0].append(x + 1.0)
    return len(held[1]), held[0] is held[1], held[1][-1] * 2.0


def doubled(inner: list[Any]) -> list[Any]:
    return [inner, inner]


CASES: dict[Callable[..., Any], Callable[[], Any]] = {
    of_list: lambda: [torch.randn(8), {"bias": torch.randn(8)}],
    of_tuples: lambda: Pair(torch.randn(8), (torch.randn(8), None, slice(1, 2))),
    appends: lambda: [3],
    of_dictionary: lambda: {"a": torch.randn(8), "z": 1},
    of_state: lambda: State(torch.zeros(8)),
    of_frozen: lambda: Frozen(torch.randn(8), [1.0]),
    of_namespace: lambda: SimpleNamespace(deep=SimpleNamespace(table=None)),
    shared: lambda: doubled([]),
}


def flat(value: Any) -> Any:
    """A value that is equal to others by its elements."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.dtype, value.tolist())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [flat(element) for element in value])
    if isinstance(value, dict):
        return (type(value).__name__, [(name, flat(element)) for name, element in value.items()])
    if isinstance(value, (State, SimpleNamespace)):
        return (type(value).__name__, flat(vars(value)))
    return (value.scale.tolist(), value.by) if isinstance(value, Frozen) else value


@pytest.mark.parametrize("function", CASES)
def test_containers_are_given_made_and_changed(function: Callable[..., Any]) -> None:
    fused = fusewright.fuse(function, strict=True)
    for rows in (3, 5, 3, 2):
        ours = CASES[function]()
        theirs = copy.deepcopy(ours)
        for _ in range(2 if function is not of_dictionary else 1):
            x = torch.randn(rows, 8)
            got, expected = fused(x, ours), function(x, theirs)
            assert flat(got) == flat(expected) and flat(ours) == flat(theirs)
    assert len(fused.traces) <= 6


def test_what_is_given_back_is_what_was_given() -> None:
    held = [torch.randn(8), {"bias": torch.randn(8)}]
    made = fusewright.fuse(of_list, strict=True)(torch.randn(3, 8), held)
    assert made[1][1] is held
    state = State(torch.zeros(8))
    assert fusewright.fuse(of_state, strict=True)(torch.randn(3, 8), state)["state"] is state


def test_numbers_that_vary_are_numbers_to_a_function() -> None:
    def sliced(x: torch.Tensor, last: Any) -> Any:
        part = slice(-last, None) if isinstance(last, int) else slice(1, 2)
        return torch.relu(x[part]) + 1.0, part, f"{last:03d}"

    fused, x = fusewright.fuse(sliced, strict=True), torch.randn(9, 8)
    for last in (1, 2, 3, 4, 5, 6, 7, 3, -2, 0, 8):
        got, expected = fused(x, last), sliced(x, last)
        assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:]
    doubled = fusewright.fuse(lambda x, n: x * n)
    for n in (2, 3, 4, 5, 6, 7, 2**63):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(doubled(x, n), x * n)


def test_strict_says_so_at_every_call_and_knows_all_dtypes() -> None:
    fused, x = fusewright.fuse(lambda x: torch.relu(x) * random.random(), strict=True), torch.ones(3, 8)
    for _ in range(4):
        with pytest.raises(fusewright.CompileError, match="takes for constant"):
            fused(x)
    narrow = fusewright.fuse(
        lambda x: ((x * 2.0).to(torch.float8_e4m3fn), x.shape, torch.finfo(x.dtype).eps), strict=True
    )
    assert narrow(x)[0].dtype == torch.float8_e4m3fn
    gives = fusewright.fuse(lambda x: (torch.relu(x), {1}))
    with pytest.warns(UserWarning, match="it gives a `set`"):
        assert gives(x)[1] == {1}


def test_what_grows_has_few_traces() -> None:
    def step(x: torch.Tensor, cache: SimpleNamespace) -> torch.Tensor:
        cache.keys = x if cache.keys is None else torch.cat([cache.keys, x], 1)
        cache.length += x.shape[1]
        return torch.relu(cache.keys * 2.0).sum(1) + cache.length

    fused = fusewright.fuse(step, strict=True)
    ours, theirs = (SimpleNamespace(keys=None, length=0) for _ in range(2))
    for tokens in (5, *[1] * 20, 3, 1, 1):
        x = torch.randn(2, tokens, 8)
        torch.testing.assert_close(fused(x, ours), step(x, theirs))
        assert ours.length == theirs.length and type(ours.length) is int and torch.equal(ours.keys, theirs.keys)
    assert len(fused.traces) <= 5


def test_tensors_in_containers_are_overwritten_where_they_lie() -> None:
    def writes(x: torch.Tensor, cache: dict[str, Any], at: int) -> torch.Tensor:
        cache["keys"][:, at : at + x.shape[1]] = x * 2.0
        return cache["keys"] + 1.0

    fused = fusewright.fuse(writes, strict=True)
    ours, theirs = {"keys": torch.zeros(2, 9, 4)}, {"keys": torch.zeros(2, 9, 4)}
    memory = ours["keys"]
    for at in (0, 3, 4, 5, 8):
        x = torch.randn(2, 1, 4)
        assert torch.equal(fused(x, ours, at), writes(x, theirs, at)) and torch.equal(memory, theirs["keys"])
    assert ours["keys"] is memory


class Tenfold(list[float]):
    def __iter__(self) -> Iterator[float]:
        return (value * 10.0 for value in super().__iter__())


class Word(str):
    """Equals all others."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize("held", [deque([1.0]), {1.0}, bytearray(b"1"), Tenfold([1.0]), Word("1")])
def test_other_containers_are_not_looked_into(held: Any) -> None:
    fused, x = fusewright.fuse(lambda x, held: torch.relu(x) * len(held)), torch.randn(3, 8)
    if isinstance(held, deque):
        # PyTorch knows what is in it, and rebuilds it.
        assert torch.equal(fused(x, held), torch.relu(x)) and len(fused.traces) == 1
        return
    with pytest.warns(UserWarning, match=f"does not look into a `{type(held).__name__}`"):
        assert torch.equal(fused(x, held), torch.relu(x))
    assert not fused.traces


def test_what_holds_itself_is_given_and_not_made() -> None:
    def gives(x: torch.Tensor, held: list[Any]) -> Any:
        return x * 2.0 + 1.0, held

    def makes(x: torch.Tensor) -> Any:
        made: list[Any] = [x * 2.0 + 1.0]
        made.append(made)
        return made

    held: list[Any] = []
    held.append(held)
    assert fusewright.fuse(gives, strict=True)(torch.ones(2, 4), held)[1] is held
    with pytest.raises(fusewright.CompileError, match="holds itself"):
        fusewright.fuse(makes, strict=True)(torch.ones(2, 4))


def test_a_shape_stays_a_shape() -> None:
    fused = fusewright.fuse(lambda x: (x.relu() * 2, x.shape))
    for rows in (3, 5):
        made, shape = fused(torch.randn(rows, 8))
        assert type(shape) is torch.Size and shape == (rows, 8) and shape.numel() == made.numel()
