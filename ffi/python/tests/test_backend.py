"""The backend of ``torch.compile``: what it computes, when it compiles, and what it leaves alone."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from models import AddNorm, Gated, steps_apart

import fusewright

SIZES = (4, 5, 9, 33, 128)


def compiled(model: torch.nn.Module, **options: object) -> torch.nn.Module:
    return torch.compile(model, backend=fusewright.backend, options={"strict": True}, **options)


@pytest.mark.parametrize("inner", ["eager", "inductor"])
def test_one_compilation_serves_all_row_counts(inner: str) -> None:
    model = AddNorm()
    fused = torch.compile(model, backend=fusewright.backend, options={"strict": True, "inner": inner})
    compiles = set()
    for rows in SIZES:
        x, residual = torch.randn(2, rows, 256).bfloat16().unbind()
        x, residual = x.clone(), residual.clone()
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(residual, 0)
        with torch.no_grad():
            norm, total = fused(x, residual)
            expected, expected_total = model(x, residual)
        assert torch.equal(total, expected_total)
        assert steps_apart(norm, expected) <= 1
        compiles.add(fusewright.counters()["compiles"])
    assert len(compiles) == 1


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_an_embedding_is_read_by_the_kernel_that_norms_it(dtype: torch.dtype) -> None:
    table, weight = torch.randn(50, 64).bfloat16(), torch.rand(64).bfloat16()

    def embedded(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.nn.functional.embedding(ids, table, padding_idx=3)
        return x, torch.nn.functional.rms_norm(x, (64,), weight)

    for shape in ((7,), (2, 5), (1, 1), (0,)):
        ids = torch.randint(0, 50, shape, dtype=dtype)
        with torch.no_grad():
            report = fusewright.explain(embedded, ids)
            (x, normed), (expected, expected_normed) = torch.compile(embedded, backend="fusewright")(ids), embedded(ids)
        assert torch.equal(x, expected) and steps_apart(normed, expected_normed) <= 1
        assert "aten.embedding.default" not in str(report) or shape == (0,)


def test_epsilon_arrives_as_a_tensor_where_everything_is_dynamic() -> None:
    model = AddNorm()
    fused = compiled(model, dynamic=True)
    before = fusewright.counters()["calls"]
    for rows in SIZES:
        x, residual = torch.randn(rows, 256).bfloat16(), torch.randn(rows, 256).bfloat16()
        with torch.no_grad():
            norm, _ = fused(x, residual)
            assert steps_apart(norm, model(x, residual)[0]) <= 1
    assert fusewright.counters()["calls"] - before == len(SIZES)


def test_rows_without_a_bound_may_be_one() -> None:
    model = AddNorm()
    fused = compiled(model)
    counts = []
    for rows in (7, 1, 12):
        x, residual = torch.randn(rows, 256).bfloat16(), torch.randn(rows, 256).bfloat16()
        if not counts:
            torch._dynamo.decorators.mark_unbacked(x, 0)
            torch._dynamo.decorators.mark_unbacked(residual, 0)
        with torch.no_grad():
            norm, total = fused(x, residual)
            assert torch.equal(total, x + residual)
            assert steps_apart(norm, model(x, residual)[0]) <= 1
        counts.append(fusewright.counters()["compiles"])
    assert len(set(counts)) == 1


def test_products_stay_with_the_framework() -> None:
    model = Gated()
    with torch.no_grad():
        x = torch.randn(6, 64)
        expected, fused = model(x), compiled(model)(x)
    assert steps_apart(fused, expected) <= 8
    report = fusewright.explain(model, x)
    assert [kernel.name for kernel in report.kernels] == ["silu_mul"]
    assert any("mm" in op or "linear" in op for op, _ in report.left)


def test_a_break_in_a_graph_makes_two() -> None:
    class Broken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = AddNorm(), AddNorm()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.first(x, x)[0]
            torch._dynamo.graph_break()
            return self.second(y, x)[0]

    model, x = Broken(), torch.randn(6, 256).bfloat16()
    report = fusewright.explain(model, x)
    assert len([result for result in report.graphs if result.fusions]) == 2
    with torch.no_grad():
        assert steps_apart(compiled(model)(x), model(x)) <= 2


def test_training_falls_through() -> None:
    model = Gated()
    before = fusewright.counters()["calls"]
    x = torch.randn(6, 64, requires_grad=True)
    compiled(model)(x).square().sum().backward()
    gradients = [x.grad, model.up.weight.grad]
    x.grad = model.up.weight.grad = None
    model(x).square().sum().backward()
    for got, expected in zip(gradients, [x.grad, model.up.weight.grad], strict=True):
        torch.testing.assert_close(got, expected)
    assert fusewright.counters()["calls"] == before


def test_results_keep_the_order_of_memory() -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.transpose(1, 2) * 2.0 + 1.0).transpose(1, 2).view(x.shape[0], -1)

    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        assert torch.equal(compiled(turned)(x), turned(x))


def test_inputs_that_are_written_are_written() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x * 2.0) + cache
        cache.copy_(y)
        return torch.sigmoid(y * 0.5) + x

    x, cache = torch.randn(4, 16), torch.randn(4, 16)
    other = cache.clone()
    with torch.no_grad():
        got, expected = compiled(step)(cache, x), step(other, x)
    torch.testing.assert_close(got, expected)
    assert torch.equal(cache, other)


def test_what_goes_wrong_leaves_the_graph_unfused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("the compiler is on holiday")

    monkeypatch.setattr("fusewright._backend.fuse_graph", broken)
    model, x = AddNorm(), torch.randn(4, 256).bfloat16()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = torch.compile(model, backend=fusewright.backend)(x, x)
        assert torch.equal(got[0], model(x, x)[0])
    ours = [str(w.message) for w in caught if "fusewright" in str(w.message)]
    assert len(ours) == 1 and "the compiler is on holiday" in ours[0]
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="on holiday"):
        compiled(model)(x, x)


def test_unknown_options_are_named() -> None:
    with pytest.raises(Exception, match="unknown option `speed`"), torch.no_grad():
        torch.compile(AddNorm(), backend=fusewright.backend, options={"speed": 11})(*torch.randn(2, 4, 256).bfloat16())


def test_forgotten_functions_free_their_kernels() -> None:
    from fusewright import _store

    kernels = _store._kernels
    before = set(kernels)

    def run() -> set[tuple[object, ...]]:
        fused = compiled(lambda x: torch.relu(x * 1.25) + 0.75)
        with torch.no_grad():
            fused(torch.randn(3, 24))
        return set(kernels) - before

    own = run()
    assert len(own) == 1
    torch._dynamo.reset()
    gc.collect()
    assert own.isdisjoint(kernels)
