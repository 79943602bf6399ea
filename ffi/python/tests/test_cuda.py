"""On an NVIDIA GPU: the stream and the memory are PyTorch's, with CUDA graphs and without."""

from __future__ import annotations

import gc
import time

import pytest
import torch
from models import AddNorm, Gated, steps_apart
from torch.fx.experimental.proxy_tensor import make_fx

import fusewright
from fusewright import _fuse, _native
from fusewright._options import Options

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not _native.HAS_CUDA, reason="skipped: cuda (no device, or a module without it)"
)


@pytest.fixture(autouse=True)
def on_the_gpu():
    with torch.device("cuda"):
        yield


@pytest.mark.parametrize("inner", ["eager", "inductor"])
def test_one_compilation_serves_all_row_counts(inner: str) -> None:
    model = AddNorm().cuda()
    fused = torch.compile(model, backend=fusewright.backend, options={"strict": True, "inner": inner})
    compiles = set()
    for rows in (4, 9, 33, 1024):
        x, residual = torch.randn(rows, 256).bfloat16(), torch.randn(rows, 256).bfloat16()
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(residual, 0)
        with torch.no_grad():
            norm, total = fused(x, residual)
            expected, expected_total = model(x, residual)
        assert torch.equal(total, expected_total) and steps_apart(norm, expected) <= 1
        compiles.add(fusewright.counters()["compiles"])
    assert len(compiles) == 1


def test_a_stream_of_the_caller_is_used() -> None:
    fused = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True)
    x = torch.randn(4096, 4096)
    fused(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # Waits long enough that work on another stream would read the old elements.
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        y = fused(x)
    stream.synchronize()
    assert torch.equal(y, torch.full_like(y, 7.0))


def test_calls_are_captured() -> None:
    model, x = Gated(4096).cuda().half(), torch.randn(8, 4096).half()
    fused = torch.compile(model, backend=fusewright.backend, options={"strict": True})
    with torch.no_grad():
        fused(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = fused(x)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn(8, 4096).half())
            graph.replay()
            assert steps_apart(y, model(x)) <= 2


def test_a_graph_outlives_the_function_that_was_captured() -> None:
    fused = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True)
    x = torch.randn(64, 512)
    fused(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = fused(x)
    del fused
    gc.collect()
    # Loads and unloads others meanwhile.
    for width in range(3, 9):
        fusewright.fuse(lambda x: torch.relu(x) + 1.0, strict=True)(torch.randn(width, width))
    gc.collect()
    x.fill_(2.0)
    graph.replay()
    assert torch.equal(y, torch.full_like(y, 5.0))


def test_several_kernels_have_memory_between_them() -> None:
    def chained(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x * 2.0, 0)
        return torch.softmax(torch.relu(y + w), -1)

    fused = fusewright.fuse(chained, strict=True)
    x, w = torch.randn(300, 200), torch.randn(200)
    torch.testing.assert_close(fused(x, w), chained(x, w))


def test_a_tensor_between_vectors_is_moved() -> None:
    fused = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True)
    whole = torch.randn(16 * 64 + 1)
    x = whole[1:].view(16, 64)
    assert torch.equal(fused(x), torch.relu(x * 2.0) + 1.0)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("rows", [1, 64, 3000])
def test_calls_wait_for_what_precedes_them(rows: int, captured: bool) -> None:
    """A launch may begin while the kernel before it ends; what it reads, the weight too, may be what that one writes."""
    module = torch.nn.RMSNorm(4096, eps=1e-6).bfloat16()
    norm = fusewright.fuse(lambda x, weight: torch.nn.functional.rms_norm(x, (4096,), weight, 1e-6), strict=True)
    x, weight = torch.randn(rows, 4096).bfloat16(), module.weight.detach()

    def steps(call) -> list[torch.Tensor]:
        y, scale, seen = x, weight.clone(), []
        for step in range(40):
            if step % 3 == 0:
                scale.mul_(1.0 + (step % 2) / 2 - 0.25)
            y = call(y, scale)
            if step % 5 == 0:
                y.add_(x)
            seen.append(y.clone() if step % 4 == 0 else y)
        return seen

    def alone(*args: torch.Tensor) -> torch.Tensor:
        torch.cuda.synchronize()
        y = norm(*args)
        torch.cuda.synchronize()
        return y

    expected = steps(alone)
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = steps(norm)
        for _ in range(20):
            graph.replay()
    else:
        got = steps(norm)
    for step, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert torch.equal(a, b), f"step {step}"


@pytest.mark.parametrize("splitting", [[], ["aten.cumsum"]])
def test_pieces_are_recorded_and_replayed(splitting: list[str]) -> None:
    norm = torch.nn.RMSNorm(64).cuda()

    def model(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = norm(x * 2.0) * scale
        z = torch.cumsum(x, 0)
        return norm(z + x), x

    options = {"strict": True, "capture_sizes": [1, 8, 16], "splitting_ops": splitting}
    compiled = torch.compile(model, backend=fusewright.backend, options=options)
    kept = []
    for rows, scale in ((8, 1.5), (8, 1.5), (16, 1.5), (8, -2.0), (9, 0.5), (8, 1.5), (16, 3.0)):
        x = torch.randn(rows, 64)
        torch._dynamo.mark_dynamic(x, 0)
        number = torch.tensor(scale, device="cpu")
        with torch.no_grad():
            kept.append((compiled(x, number), model(x, number)))
    # Results of one call outlive the next.
    for got, expected in kept:
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert not torch.cuda.is_current_stream_capturing()


def test_a_graph_of_the_caller_takes_what_would_be_recorded() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2.0) + 1.0

    options = {"strict": True, "capture_sizes": [8]}
    compiled = torch.compile(model, backend=fusewright.backend, options=options)
    x = torch.randn(8, 64)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x)
        x.fill_(2.0)
        graph.replay()
    assert torch.equal(y, torch.full_like(y, 5.0))


def test_kernels_are_loaded_and_dropped_beside_a_capture() -> None:
    x = torch.randn(16, 64)
    gone = fusewright.fuse(lambda x: torch.relu(x * 3.0) - 1.0, strict=True)
    kept = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True)
    gone(x)
    kept(x)
    (kernel,) = (fusion.call.kernel for fusion in kept.results[0].fusions)
    # What other tests left, graphs of PyTorch among them, goes first.
    gc.collect()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kept(x)
        del gone
        gc.collect()
        # Another kernel of the process is loaded: what compiles is a process or a library, which no capture forbids.
        _native.compile("part", kept.results[0].fusions[0].call.record.program.encode(), _target())
    x.fill_(2.0)
    graph.replay()
    assert torch.equal(y, torch.full_like(y, 5.0)) and kernel.device == 0


def _target() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"cuda:sm_{major}{minor}"


def test_dropping_a_function_waits_for_no_stream() -> None:
    # To look through all that a process with PyTorch holds would take about as long as the stream is busy.
    gc.collect()
    gc.freeze()
    x = torch.randn(16, 64)
    # Comparisons of `strict` wait for the stream.
    fused = fusewright.fuse(lambda x: torch.relu(x * 7.0) - 3.0)
    expected = fused(x)
    torch.cuda.synchronize()
    busy = torch.cuda.Stream()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(500_000_000)
        y = fused(x)
    begin = time.perf_counter()
    del fused
    gc.collect()
    dropped = time.perf_counter() - begin
    gc.unfreeze()
    assert not busy.query(), "the stream is still busy"
    busy.synchronize()
    assert torch.equal(y, expected)
    print(f"{dropped * 1e3:.1f} ms to drop the function")


def test_rows_are_put_in_order_unless_they_are_long() -> None:
    cases = (
        (40, torch.sort, False),
        (512, torch.sort, False),
        (513, torch.sort, True),
        (40, lambda y: torch.topk(y, 32), False),
        (600, lambda y: torch.topk(y, 4), False),
        (600, lambda y: torch.topk(y, 32), True),
    )
    for lanes, found, left in cases:
        x = torch.randn(3, lanes)
        fused = fusewright.fuse(lambda x, found=found: found(torch.relu(x * 2.0) + 1.0).values * 3.0, strict=True)
        torch.testing.assert_close(fused(x), found(torch.relu(x * 2.0) + 1.0).values * 3.0)
        reasons = [reason for result in fused.results for _, reason in result.left]
        assert any("compare all elements" in reason for reason in reasons) == left


def test_counts_and_their_sums_are_computed_where_integers_lie() -> None:
    def call(ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ordered, places = torch.sort(ids.reshape(-1), stable=True)
        counts = torch.histc(ordered.int(), bins=128, min=0, max=127)
        return ordered, places // 8, torch.cumsum(counts, 0, dtype=torch.int32)

    # Of lengths that are not known, sorts are PyTorch's.
    fused = torch.compile(call, backend="fusewright", dynamic=False, options={"strict": True})
    for _ in range(2):
        ids = torch.randint(-2, 131, (32, 8))
        for got, expected in zip(fused(ids), call(ids), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)
    graph = make_fx(call)(ids).graph
    assert not _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function).left


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.uint8, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(1, 32, 2048, 96), (2, 5, 7, 48), (1, 8, 300, 128), (3, 4, 0, 64)], ids=str)
def test_copies_into_another_order_are_kernels(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def heads_to_rows(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).contiguous()

    x = torch.randint(0, 100, shape).to(dtype)
    fused = torch.compile(heads_to_rows, backend="fusewright", dynamic=False, options={"strict": True})
    with torch.no_grad():
        assert torch.equal(fused(x), heads_to_rows(x))
    # Of no elements there is nothing to copy: PyTorch says that they lie in order.
    assert [kernel.name for kernel in fusewright.explain(heads_to_rows, x).kernels] == ["copy"] * (x.numel() > 0)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 512])
def test_rows_are_written_into_a_cache_where_it_lies(rows: int, captured: bool) -> None:
    def step(keys: torch.Tensor, values: torch.Tensor, new: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        queries, key, value = new.view(-1, 6, 64).split([2, 2, 2], 1)
        keys.view(-1, 2, 64)[slots] = torch.relu(key * 2.0) + 1.0
        values.view(-1, 2, 64)[slots] = value
        return torch.relu(queries * 2.0) + 1.0

    pages = [torch.randn(64, 16, 2, 64).bfloat16() for _ in range(2)]
    new = torch.randn(rows, 6 * 64).bfloat16()
    slots = torch.randperm(1024)[:rows] - torch.randint(0, 2, (rows,)) * 1024
    (fusion,) = fusewright.explain(step, *pages, new, slots).graphs[0].fusions
    assert sum(made.overwrites is not None for made in fusion.call.record.outputs) == 2
    own, others = [page.clone() for page in pages], [page.clone() for page in pages]
    fused = torch.compile(step, backend="fusewright", dynamic=False, options={"strict": True})
    with torch.no_grad():
        got = fused(*own, new, slots)
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                got = fused(*own, new, slots)
            for page, other, old in zip(own, others, pages, strict=True):
                page.copy_(old)
                other.copy_(old)
            new.copy_(torch.randn(rows, 6 * 64))
            graph.replay()
        assert torch.equal(got, step(*others, new, slots))
    assert all(map(torch.equal, own, others))
