"""Kernels of a process: what is compiled once, side by side, and not at all."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import fusewright
from fusewright import _fuse, _native, _store
from fusewright._options import Options


def parts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Three parts, two of them equal, with products between."""
    a = torch.relu(x * 2.0 + 1.25) @ y
    b = torch.relu(a * 2.0 + 1.25) @ y
    return torch.sigmoid(b * 0.625) - 1.0


def fused(width: int) -> _fuse.Result:
    x = torch.randn(width, width)
    graph = make_fx(parts, tracing_mode="fake")(x, x).graph
    return _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function)


def test_programs_of_a_graph_are_compiled_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    real, both = _native.compile, threading.Barrier(2, timeout=60)
    compiled = []

    def compile(name: str, program: bytes, target: str, **options: object) -> object:
        both.wait()
        compiled.append(program)
        return real(name, program, target, **options)

    monkeypatch.setattr(_native, "compile", compile)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    hits = _store.hits()
    result = fused(17)
    assert len(result.fusions) == 3 and len(compiled) == 2 and _store.hits() - hits == 1
    # All is known now.
    again = fused(17)
    assert len(compiled) == 2 and _store.hits() - hits == 4
    assert [f.call.kernel for f in again.fusions] == [f.call.kernel for f in result.fusions]


def test_a_program_that_raises_is_named_by_its_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    real = _native.compile

    def compile(name: str, program: bytes, target: str, **options: object) -> object:
        if b"sigmoid" in program:
            raise fusewright.CompileError("no such kernel")
        return real(name, program, target, **options)

    monkeypatch.setattr(_native, "compile", compile)
    with pytest.raises(fusewright.CompileError, match="no such kernel") as raised:
        fused(18)
    assert raised.value.op is not None and "aten.sigmoid.default" in raised.value.op


def test_where_no_thread_begins_programs_are_compiled_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(*_: object) -> object:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_store.ThreadPoolExecutor, "submit", submit)
    assert len(fused(19).fusions) == 3
