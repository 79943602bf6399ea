"""What PyTorch runs between fused parts: short calls, which give the same tensors as the operators that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_custom_ops import gate_into, turn

import fusewright
from fusewright import _short

Found = Counter[str]


def heads(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Views of fused results and of new memory between operators that are not fused, as attention has them."""
    rows = torch.relu(x + 1.0) * 2.0
    whole = x.new_empty(x.shape[0], 96)
    gate_into(whole, rows @ weight)
    query, key, rest = whole.split([32, 32, 32], -1)
    query, key = query.view(-1, 4, 8), key.view(-1, 4, 8)
    turn(query, key, torch.sigmoid(rest.view(-1, 4, 8)) + 1.0)
    out = torch.empty(x.shape[0], 32)
    gate_into(out.view(-1, 4, 8), query)
    flat = out.view(-1, 4, 8).view(-1, 32).view(x.shape[0], 32)
    return torch.relu(flat @ weight[:32, :32]) * 2.0 + 1.0, key, flat.detach()


def turned(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Views of what does not lie in row-major order."""
    rows = (torch.relu(x) * 2.0 + 1.0).t()
    part = rows[8:40].view(4, 8, -1)
    product = torch.bmm(part, part.transpose(1, 2))
    return torch.sigmoid(product.view(-1, 64) + 1.0) * 3.0


def given_back(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Results that are views of others, or of what came in."""
    rows = torch.relu(x + weight[:1, :64]) * 2.0
    return rows.view(-1), rows.view(-1, 64), rows, x.view(-1, 64), x.detach()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.Graph]:
    """The graphs as they run."""
    found: list[torch.fx.Graph] = []
    bind = _short.bind

    def seen(graph: torch.fx.Graph) -> None:
        bind(graph)
        found.append(graph)

    from fusewright import _backend, _kept

    monkeypatch.setattr(_backend, "bind", seen)
    monkeypatch.setattr(_kept, "bind", seen)
    return found


def given(rows: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, 64), torch.randn(64, 96)


def names(graph: torch.fx.Graph) -> Found:
    return Counter(str(node.target).rpartition("aten.")[2].partition(".")[0] for node in graph.nodes)


@pytest.mark.parametrize("function", [heads, turned, given_back], ids=lambda function: function.__name__)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_results_lie_as_those_of_pytorch(
    function: Callable[..., Any], dynamic: bool, graphs: list[torch.fx.Graph]
) -> None:
    compiled = torch.compile(function, backend="fusewright", options={"strict": True}, dynamic=dynamic, fullgraph=True)
    for rows in (24, 24, 17) if dynamic else (24, 24):
        given_here = given(rows)
        with torch.no_grad():
            for got, want in zip(*map(_several, (compiled(*given_here), function(*given_here))), strict=True):
                assert got.shape == want.shape and got.stride() == want.stride()
                assert torch.allclose(got, want, rtol=1e-6, atol=1e-6)
    assert graphs


def _several(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_what_lies_as_it_was_made_is_viewed_by_one_short_call(graphs: list[torch.fx.Graph]) -> None:
    with torch.no_grad():
        torch.compile(heads, backend="fusewright", options={"strict": True}, dynamic=True)(*given())
    (graph,) = graphs
    found = names(graph)
    # The write to all of `out` needs no view of it, and what comes of that none but its own.
    for operator in ("view", "split_with_sizes", "as_strided", "empty", "new_empty"):
        assert found[operator] == 0, found
    assert sum("_empty_strided_" in str(node.target) for node in graph.nodes) == 2


def test_memory_that_nobody_looks_at_is_taken_again(graphs: list[torch.fx.Graph]) -> None:
    def several(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, kept = torch.relu(x + 1.0) * 2.0, []
        for turn_of in range(4):
            made = torch.empty(x.shape[0], 64)
            gate_into(made, rows)
            if turn_of == 1:
                # A view that leaves the graph.
                kept.append(made.view(-1, 32))
            rows = torch.sigmoid(made @ weight[:, :64]) + 1.0
        return rows, *kept

    x, weight = given()
    with torch.no_grad():
        got = torch.compile(several, backend="fusewright", options={"strict": True}, dynamic=True)(x, weight)
        for one, other in zip(got, several(x, weight), strict=True):
            assert torch.allclose(one, other, rtol=1e-6, atol=1e-6)
    (graph,) = graphs
    assert sum("_empty_strided_" in str(node.target) for node in graph.nodes) == 2


def test_what_an_operator_of_pytorch_gives_is_viewed_as_it_lies(graphs: list[torch.fx.Graph]) -> None:
    """Tracing may say other strides than the operator gives."""

    def rest(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid((x @ weight).view(-1, 4, 24).view(-1, 32) @ weight[:32]) + 1.0

    x, weight = given()
    with torch.no_grad():
        got = torch.compile(rest, backend="fusewright", options={"strict": True}, dynamic=True)(x, weight)
        assert torch.allclose(got, rest(x, weight), rtol=1e-6, atol=1e-6)
    (graph,) = graphs
    assert names(graph)["view"] == 1 and not any("_reinterpret" in str(node.target) for node in graph.nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_with_a_turned_weight_is_one_call(dtype: torch.dtype, graphs: list[torch.fx.Graph]) -> None:
    linear, biased = torch.nn.Linear(64, 96, bias=False, dtype=dtype), torch.nn.Linear(96, 32, dtype=dtype)

    def layers(x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(x[:, :1], biased(torch.relu(linear(x)) * 2.0), biased.weight[:, :64])

    compiled = torch.compile(layers, backend="fusewright", options={"strict": True}, dynamic=True)
    with torch.no_grad():
        for rows in (5, 1, 0):
            x = torch.randn(rows, 64, dtype=dtype)
            assert torch.equal(compiled(x), layers(x))
    called = Counter(getattr(node.target, "__name__", node.target) for node in graphs[0].nodes)
    assert called["linear"] == 2 and called["addmm"] == 1 and called["t"] == 0, called


def test_what_is_computed_twice_is_computed_once(graphs: list[torch.fx.Graph]) -> None:
    def layers(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for _ in range(3):
            mask = torch.where(weight[:64, :64] > 0, 1.0, 1)
            x = torch.cumsum(x @ mask, 1) + torch.rand_like(x) * 0
        # Results that are equal stay apart.
        return x, x.relu() + 1.0, x.relu() + 1.0

    x, weight = given()
    with torch.no_grad():
        got = torch.compile(layers, backend="fusewright", options={"strict": True})(x, weight)
    for one, other in zip(got, layers(x, weight), strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
    assert got[1].data_ptr() != got[2].data_ptr()
    report = fusewright.explain(layers, x, weight)

    def count(name: str) -> int:
        within = sum(kernel.times * kernel.ops.count(name) for kernel in report.kernels)
        return within + sum(times for (op, _), times in report.left.items() if op.split(".")[1] == name)

    # Random numbers are others each time.
    assert (count("where"), count("rand_like"), count("relu")) == (1, 3, 1), report


def test_a_kept_graph_calls_parts_without_the_operator(graphs: list[torch.fx.Graph]) -> None:
    if not hasattr(torch._dynamo.config, "enable_aot_compile"):
        pytest.skip("skipped: aot_compile (this PyTorch has none)")
    x, weight = given()
    with torch._dynamo.config.patch(enable_aot_compile=True), torch.no_grad():
        compiled = torch.compile(heads, fullgraph=True, backend=fusewright.backend, options={"strict": True})
        made = compiled.aot_compile(((x, weight), {}))
        before = fusewright.counters()["calls"]
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            results = made(x, weight)
    for got, want in zip(results, heads(x, weight), strict=True):
        assert torch.allclose(got, want, rtol=1e-6, atol=1e-6)
    assert fusewright.counters()["calls"] - before >= 3 and len(graphs) == 1
    assert not any("fusewright::call" in event.name for event in profile.events())
