"""On several NVIDIA GPUs of a process: kernels run where the tensors are, whichever device is current."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from models import AddNorm, Gated, steps_apart

import fusewright
from fusewright import _capture, _native

COUNT = torch.cuda.device_count() if torch.cuda.is_available() and _native.HAS_CUDA else 0
pytestmark = pytest.mark.skipif(COUNT < 2, reason=f"skipped: two GPUs ({COUNT} here, or a module without cuda)")


def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * 2.0) + 1.0


def doors() -> dict[str, Callable[[Any], Any]]:
    def compiled(inner: str) -> Callable[[Any], Any]:
        options = {"strict": True, "inner": inner}
        return lambda model: torch.compile(model, backend=fusewright.backend, options=options)

    return {"eager": compiled("eager"), "inductor": compiled("inductor"), "fuse": fusewright.fuse(strict=True)}


@pytest.mark.parametrize("door", ["eager", "inductor", "fuse"])
@pytest.mark.parametrize("current", [0, 1])
def test_results_lie_where_the_tensors_do(door: str, current: int) -> None:
    fused = doors()[door](doubled)
    with torch.cuda.device(current), torch.no_grad():
        for index in (1, 0, 1):
            x = torch.randn(33, 512, device=f"cuda:{index}")
            y = fused(x)
            assert y.device == x.device and torch.equal(y, doubled(x))
            assert torch.cuda.current_device() == current


def test_code_of_one_device_is_loaded_on_the_next() -> None:
    def norms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        wide = x.float() * 3.0
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w

    fused = fusewright.fuse(norms, strict=True)
    counts = []
    for index in range(2):
        x, w = torch.randn(7, 640, device=f"cuda:{index}").half(), torch.randn(640, device=f"cuda:{index}").half()
        assert steps_apart(fused(x, w), norms(x, w)) <= 2
        counts.append(fusewright.counters())
    assert torch.cuda.get_device_capability(0) != torch.cuda.get_device_capability(1) or all(
        counts[0][name] == counts[1][name] for name in ("compiles", "disk_hits")
    )
    assert counts[1]["launches"] > counts[0]["launches"]


def test_layers_of_one_graph_on_two_devices() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = AddNorm().to("cuda:0"), AddNorm().to("cuda:1")

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            norm, total = self.first(x, y)
            return self.second(norm.to("cuda:1"), total.to("cuda:1"))[0]

    model = Both()
    results = []
    backend = fusewright.backend
    compiled = torch.compile(model, backend=backend, options={"strict": True, "expect": {"add_rms_norm": 2}})
    with torch.no_grad():
        for rows in (4, 64):
            x, y = (torch.randn(rows, 256, device="cuda:0").bfloat16() for _ in range(2))
            results.append((compiled(x, y), model(x, y)))
    assert all(steps_apart(got, expected) <= 2 and got.device.index == 1 for got, expected in results)


def test_streams_and_graphs_of_the_second_device() -> None:
    device = torch.device("cuda:1")
    model, x = Gated(4096).to(device).half(), torch.randn(8, 4096, device=device).half()
    fused = torch.compile(model, backend=fusewright.backend, options={"strict": True})
    with torch.no_grad():
        fused(x)
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.fill_(0.5)
            late = fused(x)
        stream.synchronize()
        assert steps_apart(late, model(x)) <= 2
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            y = fused(x)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn(8, 4096, device=device).half())
            graph.replay()
            torch.cuda.synchronize(device)
            assert steps_apart(y, model(x)) <= 2


def test_pieces_are_recorded_on_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x = torch.cumsum(torch.relu(x * 2.0) + 1.0, 0)
        return torch.relu(x * 0.5) - 1.0

    recorded_on = list[int]()

    def recorder(run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        recorded_on.append(torch.cuda.current_device())
        return by_cuda(run)

    by_cuda = _capture.by_cuda
    monkeypatch.setattr(_capture, "by_cuda", recorder)
    options = {"strict": True, "capture_sizes": [8], "splitting_ops": ["aten.cumsum"]}
    # What PyTorch records on by default is of the GPU of the process's first graph: it must not matter which that was.
    for index in (0, 1):
        compiled = torch.compile(model, backend=fusewright.backend, options=options)
        for rows in (8, 8, 9, 8):
            x = torch.randn(rows, 64, device=f"cuda:{index}")
            torch._dynamo.mark_dynamic(x, 0)
            with torch.no_grad(), warnings.catch_warnings():
                warnings.filterwarnings("error", "The CUDA Graph is empty")
                assert torch.equal(compiled(x), model(x))
    assert recorded_on == [0, 0, 1, 1], "two pieces on each"


def test_tensors_of_two_devices_are_refused_by_name() -> None:
    def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * y) + y

    x, y = torch.randn(8, 64, device="cuda:0"), torch.randn(8, 64, device="cuda:1")
    for door in doors().values():
        with pytest.raises(Exception, match=r"cuda:0.*cuda:1|cuda:1.*cuda:0"), torch.no_grad():
            door(added)(x, y)
    fused = fusewright.fuse(added, strict=True)
    fused(x, x)
    kernel = fused.results[0].fusions[0].call.kernel
    made = torch.empty_like(x)
    with pytest.raises(fusewright.CallError, match="input 1 lies on cuda:1, the kernels run on cuda:0"):
        kernel.call([x, y], [made])
    with pytest.raises(fusewright.CallError, match="output 0 lies on cuda:0, the kernels run on cuda:1"):
        kernel.on(1).call([y, y], [made])


def _bound(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """How far a rank's result may be from the exact one, each sum being off by as many roundings as it has terms."""
    unit, x, up, down = 2.0**-24, x.double(), up.double(), down.double()
    wide = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    # The mean, its root, their product and the sum of the product.
    terms = 2 * x.shape[-1] + 8
    hidden, hidden_off = wide @ up, terms * unit * (wide.abs() @ up.abs())
    gate = hidden.relu().square() * 0.5
    gate_off = hidden.relu() * hidden_off + hidden_off.square() + 4 * unit * gate
    return gate_off @ down.abs() + (down.shape[0] + 1) * unit * (gate @ down.abs())


def _rank(rank: int, world: int, folder: str) -> None:
    """A rank of a model whose columns are split: it has a device of its own, as tensor-parallel engines have."""
    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    up, down = torch.randn(256, 512), torch.randn(512, 256)
    x = torch.randn(5, 256)
    own = slice(rank * 512 // world, (rank + 1) * 512 // world)
    up, down, x = (tensor.cuda() for tensor in (up[:, own].contiguous(), down[own].contiguous(), x))

    def shard(x: torch.Tensor) -> torch.Tensor:
        wide = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (torch.nn.functional.relu(wide @ up).square() * 0.5) @ down

    compiled = torch.compile(shard, backend=fusewright.backend, options={"strict": True})
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            partial = compiled(x)
        graph.replay()
        torch.cuda.synchronize()
        expected, bound = shard(x).double(), _bound(x, up, down)
    assert partial.device.index == rank and fusewright.counters()["launches"] > 0
    # Either may be off.
    assert ((partial.double() - expected).abs() <= 2 * bound).all()
    torch.save((partial.double().cpu(), bound.cpu()), f"{folder}/{rank}.pt")


def test_ranks_have_a_process_and_a_device_each(tmp_path: Any) -> None:
    torch.multiprocessing.spawn(_rank, (2, str(tmp_path)), nprocs=2)
    of_ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    torch.multiprocessing.spawn(_rank, (1, str(tmp_path)), nprocs=1)
    whole, bound = torch.load(tmp_path / "0.pt")
    summed, bounds = (sum(values) for values in zip(*of_ranks))
    assert ((summed - whole).abs() <= bounds + bound).all()
