"""``fusewright.fuse``: what a function keeps for later calls, wherever it does, and what else outlives a trace."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import fusewright

_TABLE: torch.Tensor | None = None
_TABLES: dict[str, torch.Tensor] = {}


class Keeps(torch.nn.Module):
    """Makes a table in its first call, and keeps it in one of many places."""

    of_class: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.inner = SimpleNamespace(deep=SimpleNamespace(table=None))
        self.tables: dict[str, dict[str, torch.Tensor]] = {"a": {}}
        self.lists: tuple[list[torch.Tensor], deque[torch.Tensor]] = ([], deque())

    def attribute(self, x: torch.Tensor) -> torch.Tensor:
        if self.inner.deep.table is None:
            self.inner.deep.table = x[:1] * 0.0 + 2.0
        return torch.relu(x * self.inner.deep.table) + 1.0

    def dictionary(self, x: torch.Tensor) -> torch.Tensor:
        if "t" not in self.tables["a"]:
            self.tables["a"]["t"] = x[:1] * 0.0 + 2.0
        return torch.relu(x * self.tables["a"]["t"]) + 1.0

    def lists_in_a_tuple(self, x: torch.Tensor) -> torch.Tensor:
        for kept in self.lists:
            if not kept:
                kept.append(x[:1] * 0.0 + 2.0)
        return torch.relu(x * self.lists[0][0] * self.lists[1][0] * 0.5) + 1.0

    def attribute_of_the_class(self, x: torch.Tensor) -> torch.Tensor:
        if Keeps.of_class is None:
            Keeps.of_class = x[:1] * 0.0 + 2.0
        return torch.relu(x * Keeps.of_class) + 1.0

    def view_of_another(self, x: torch.Tensor) -> torch.Tensor:
        if Keeps.of_class is None:
            Keeps.of_class = (x * 0.0 + 2.0)[0]
        return torch.relu(x * Keeps.of_class) + 1.0


def in_a_global(x: torch.Tensor) -> torch.Tensor:
    global _TABLE
    if _TABLE is None:
        _TABLE = x[:1] * 0.0 + 2.0
    return torch.relu(x * _TABLE) + 1.0


def in_a_dictionary_of_the_module(x: torch.Tensor) -> torch.Tensor:
    if "t" not in _TABLES:
        _TABLES["t"] = x[:1] * 0.0 + 2.0
    return torch.relu(x * _TABLES["t"]) + 1.0


def in_a_variable() -> Callable[[torch.Tensor], torch.Tensor]:
    table = None

    def keeps(x: torch.Tensor) -> torch.Tensor:
        nonlocal table
        if table is None:
            table = x[:1] * 0.0 + 2.0
        return torch.relu(x * table) + 1.0

    return keeps


def in_a_cache() -> Callable[[torch.Tensor], torch.Tensor]:
    @functools.lru_cache
    def table(width: int) -> torch.Tensor:
        return torch.full((1, width), 2.0)

    return lambda x: torch.relu(x * table(16)) + 1.0


def keepers() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    of_modules = ("attribute", "dictionary", "lists_in_a_tuple", "attribute_of_the_class", "view_of_another")
    return {
        **{name: getattr(Keeps(), name) for name in of_modules},
        "a global": in_a_global,
        "a dictionary of the module": in_a_dictionary_of_the_module,
        "a variable": in_a_variable(),
        "a cache": in_a_cache(),
    }


@pytest.mark.parametrize("keeper", keepers())
def test_what_a_first_call_keeps_is_real(keeper: str) -> None:
    global _TABLE
    _TABLE = Keeps.of_class = None
    _TABLES.clear()
    function = keepers()[keeper]
    fused = fusewright.fuse(function, strict=True)
    for rows, dtype in ((4, torch.float32), (4, torch.float32), (7, torch.float32), (4, torch.float16)):
        x = torch.randn(rows, 16, dtype=dtype)
        expected = torch.relu(x * torch.full((1, 16), 2.0)) + 1.0
        if keeper != "a cache" and dtype != torch.float32:
            # What was kept is of the first call's dtype, as it is without `fuse`.
            expected = function(x)
        assert torch.equal(fused(x), expected) and torch.equal(function(x), expected)
    assert len(fused.traces) == 2


class Layer:
    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None

    def update(self, keys: torch.Tensor) -> torch.Tensor:
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys])
        return self.keys


def test_a_trace_that_ends_early_leaves_nothing_behind() -> None:
    class Result:
        def __init__(self, value: Any) -> None:
            self.value = value

    def gives_an_object(x: torch.Tensor, layer: Layer) -> Result:
        return Result(layer.update(x * 2.0))

    def asks(x: torch.Tensor, layer: Layer) -> Result:
        keys = layer.update(x * 2.0)
        return Result(keys if float(keys.sum()) > 0.0 else -keys)

    for function in (gives_an_object, asks):
        fused, layer, x = fusewright.fuse(function), Layer(), torch.ones(2, 4)
        with pytest.warns(UserWarning, match="cannot trace"):
            assert torch.equal(fused(x, layer).value, torch.full((2, 4), 2.0))
        assert torch.equal(layer.keys, torch.full((2, 4), 2.0))


def test_an_interrupt_leaves_nothing_behind() -> None:
    # An iterator is nothing that is put back.
    calls = itertools.count()

    class Interrupted(Keeps):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made = self.attribute(x)
            if next(calls) == 0:
                raise KeyboardInterrupt
            return made

    module, x = Interrupted(), torch.randn(3, 8)
    fused = fusewright.fuse(module, strict=True)
    with pytest.raises(KeyboardInterrupt):
        fused(x)
    assert module.inner.deep.table is None and gc.isenabled()
    for _ in range(2):
        assert torch.equal(fused(x), torch.relu(x * 2.0) + 1.0)


def test_what_cannot_be_looked_into_is_left_alone() -> None:
    class Proxy:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("there is nothing behind it")

        @property
        def __dict__(self) -> Any:
            raise RuntimeError("there is nothing behind it")

    around, x = SimpleNamespace(within=SimpleNamespace(proxy=Proxy()), by=2.0), torch.randn(3, 4)
    fused = fusewright.fuse(lambda x, around: torch.relu(x * around.by) + 1.0, strict=True)
    for _ in range(2):
        assert torch.equal(fused(x, around), fused.fn(x, around))


def test_functions_without_tensors_give_what_they_give() -> None:
    for function in (lambda: None, lambda n=3: n * 2, lambda: (1, [2.0, None])):
        fused = fusewright.fuse(function, strict=True)
        assert [fused(), fused()] == [function()] * 2


class Meter:
    total: Any = 0


_LOG: list[Any] = []
_COUNT = 0


def meters(x: torch.Tensor) -> torch.Tensor:
    Meter.total += x.shape[0]
    return x * 2.0


def logs(x: torch.Tensor) -> torch.Tensor:
    _LOG.append(x.shape[0] / 2)
    return x * 2.0


def counts(x: torch.Tensor) -> torch.Tensor:
    global _COUNT
    _COUNT += 1
    return x * 2.0


def makes(x: torch.Tensor) -> torch.Tensor:
    global _MADE
    if "_MADE" not in globals():
        _MADE = x[:1] * 0.0 + 2.0
    return torch.relu(x * _MADE)


def test_a_global_that_a_first_call_makes_is_real() -> None:
    globals().pop("_MADE", None)
    fused = fusewright.fuse(makes, strict=True)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 8)
        assert torch.equal(fused(x), torch.relu(x * 2.0)) and type(globals()["_MADE"]) is torch.Tensor
    assert len(fused.traces) == 1 and "Fake" not in repr(globals()["_MADE"])


@pytest.mark.parametrize("effect", [meters, logs, counts])
@pytest.mark.parametrize("is_helper", [False, True])
def test_effects_of_a_function_and_its_helpers_happen_at_every_call(effect: Any, is_helper: bool) -> None:
    global _COUNT
    Meter.total, _COUNT = 0, 0
    _LOG.clear()
    held = effect

    class Calls(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(held(x)) + 1.0

    fused = fusewright.fuse(Calls() if is_helper else effect)
    with pytest.warns(UserWarning, match="sets attributes, or changes lists"):
        for rows in (3, 4, 5, 5):
            fused(torch.ones(rows, 8))
    found: Any = {meters: [Meter.total], logs: _LOG, counts: [_COUNT]}[effect]
    assert all(type(number) in (int, float) for number in found)
    assert list(found) == {meters: [17], logs: [1.5, 2.0, 2.5, 2.5], counts: [4]}[effect]


def test_a_gradient_is_not_of_a_trace() -> None:
    def reads(x: torch.Tensor) -> torch.Tensor:
        return x * 2.0 if x.grad is None else x * x.grad

    x = torch.randn(3, 8)
    x.grad = torch.randn(3, 8)
    with pytest.warns(UserWarning, match="looks at a gradient"):
        assert torch.equal(fusewright.fuse(reads)(x), reads(x))


@fusewright.fuse(strict=True)
def decorated(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2.0) + 1.0


def test_copies_have_the_function_and_traces_of_their_own() -> None:
    class Holds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = fusewright.fuse(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), strict=True)

    module, x = Holds(), torch.randn(3, 4)
    with torch.no_grad():
        expected = module.act(x)
        for copied in (copy.deepcopy(module), copy.copy(module)):
            assert torch.equal(copied.act(x), expected)
        act = pickle.loads(pickle.dumps(module.act))
        assert not act.traces and torch.equal(act(x), expected) and act.options == module.act.options
        assert copy.deepcopy(module).act.fn[0].weight is not module.act.fn[0].weight
    decorated(x)
    assert pickle.loads(pickle.dumps(decorated)) is decorated and copy.deepcopy(decorated) is decorated


@pytest.mark.skipif(sys.platform == "win32", reason="skipped: children of a fork (there is no fork)")
def test_a_child_of_a_fork_traces_whatever_its_parent_did() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(x: torch.Tensor) -> torch.Tensor:
        begun.set()
        ended.wait(60)
        return torch.relu(x * 5.0) + 1.0

    x = torch.randn(3, 4)
    torch.set_num_threads(1)
    thread = threading.Thread(target=fusewright.fuse(slow), args=(x,))
    thread.start()
    assert begun.wait(60) and not gc.isenabled()
    child = os.fork()
    if child == 0:
        fused = fusewright.fuse(lambda x: torch.relu(x * 7.0) + 1.0, strict=True, threads=1)
        os._exit(0 if gc.isenabled() and torch.equal(fused(x), fused.fn(x)) else 1)
    ended.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and gc.isenabled()


@pytest.mark.skipif(
    torch.__version__ < (2, 15),
    reason="skipped: compilation beside a trace (this PyTorch refuses compiled calls of other threads meanwhile)",
)
def test_a_trace_beside_a_compilation_waits_for_it() -> None:
    begun = threading.Event()
    x, failed = torch.randn(3, 4), []

    def slow(x: torch.Tensor) -> torch.Tensor:
        begun.set()
        # Time for the other to begin, were it not to wait.
        threading.Event().wait(0.3)
        return torch.relu(x * 5.0) + 1.0

    def compiles() -> None:
        begun.wait(60)
        try:
            torch.compile(lambda x: torch.relu(x * 7.0) + 1.0, backend=fusewright.backend)(x)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=compiles)
    thread.start()
    fused = fusewright.fuse(slow, strict=True)
    assert torch.equal(fused(x), slow(x))
    thread.join()
    assert not failed
