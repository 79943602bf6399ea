"""Calls of the operator by what compilers write: at once where nothing else is to see them, else by PyTorch's dispatcher."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import fusewright
from fusewright import _operator, _ops
from fusewright._fuse import Result


@pytest.fixture
def part() -> str:
    """A part that takes one tensor of any number of rows and gives one."""
    fused = torch.compile(lambda x: torch.relu(x) * 2.0, backend=backend, dynamic=True)
    results.clear()
    with torch.no_grad():
        fused(torch.randn(4, 8))
    call = results[0].fusions[0].call
    return _ops.register(call.record, call.function)


results: list[Result] = []


def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
    from fusewright._backend import compile_graph
    from fusewright._options import Options

    return compile_graph(gm, inputs, Options(strict=True), results.append)


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class _SeenAsFunction(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_a_call_that_nothing_else_sees_is_made_at_once(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(_operator, "_call", lambda *args: called.append(args) or [])
    operator, x = torch.ops.fusewright.call.default, torch.randn(4, 8)
    for grad, at_once in ((torch.no_grad, True), (torch.inference_mode, True), (torch.enable_grad, False)):
        called.clear()
        with grad():
            operator([x], [], part)
        assert bool(called) is at_once, grad


def modes() -> dict[str, Callable[[], contextlib.AbstractContextManager[Any]]]:
    return {"dispatch": _Seen, "function": _SeenAsFunction}


@pytest.mark.parametrize("mode", modes())
def test_modes_see_the_operator(mode: str, part: str) -> None:
    operator, x = torch.ops.fusewright.call.default, torch.randn(4, 8)
    with torch.no_grad(), modes()[mode]() as seen:
        operator([x], [], part)
    assert operator in seen.seen or operator.overloadpacket in seen.seen


def test_tracing_sees_the_operator(part: str) -> None:
    operator, x = torch.ops.fusewright.call.default, torch.randn(4, 8)
    with torch.no_grad():
        traced = make_fx(lambda x: operator([x], [], part)[0], tracing_mode="fake")(x)
        assert next(node.target for node in traced.graph.nodes if node.op == "call_function") is operator
        with FakeTensorMode() as fake:
            (shown,) = operator([fake.from_tensor(x)], [], part)
        assert type(shown).__name__ == "FakeTensor" and shown.shape == x.shape
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            operator([x], [], part)
    assert any("fusewright::call" in event.name for event in profile.events())


def test_a_subclass_and_a_transform_see_the_operator(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(torch.Tensor):
        pass

    operator, x = torch.ops.fusewright.call.default, torch.randn(4, 8)
    with torch.no_grad():
        (made,) = operator([x.as_subclass(Named)], [], part)
        assert type(made) is Named
        (plain,) = operator([torch.nn.Parameter(x)], [], part)
        assert torch.equal(plain, torch.relu(x) * 2.0)
        monkeypatch.setattr(_operator, "_call", None)
        assert not _operator._is_plain([x.as_subclass(Named)])
        torch.func.vmap(lambda row: [_operator._is_plain([row]) and pytest.fail("it is batched"), row][1])(x)
    assert fusewright.counters()["calls"] >= 2
