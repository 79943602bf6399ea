"""What is decided for a GPU without one: graphs of tensors that are not there, and the text of calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from models import AddNorm
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import fusewright
from fusewright import _fuse, _native, _nodes, _ops
from fusewright._call import _written
from fusewright._options import Options
from fusewright._record import Made, Record

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="skipped: a machine without a GPU (this has one)")


def traced(function: object, *shapes: tuple[tuple[int, ...], torch.dtype, str]) -> torch.fx.GraphModule:
    """The graph of a function of tensors on devices that need not be here."""
    with FakeTensorMode(), torch.no_grad():
        tensors = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in shapes]
        return make_fx(function)(*tensors)


def norm(x: torch.Tensor, weight: torch.Tensor, epsilon: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def test_a_number_of_the_host_goes_into_kernels_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "HAS_CUDA", True)
    monkeypatch.setattr(_fuse, "target", lambda _: "cpu")
    graph = traced(
        norm,
        ((8, 256), torch.bfloat16, "cuda"),
        ((256,), torch.bfloat16, "cuda"),
        ((), torch.float32, "cpu"),
    ).graph
    (fusion,) = _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function).fusions
    assert [name for name, _ in fusion.kernels] == ["rms_norm"]
    record = fusion.call.record
    (scalar,) = record.scalars
    assert scalar[1] == "float32"
    text = _written(record, {}, "launch()").__doc__
    assert f"a{scalar[0]} = full((), a{scalar[0]}.item(), dtype=float32, device=device)" in text


def test_tensors_of_two_devices_are_no_part() -> None:
    graph = traced(
        lambda x, y: torch.relu(x * 2.0) + y.to("cuda"),
        ((8, 16), torch.float32, "cuda"),
        ((8, 16), torch.float32, "cpu"),
    ).graph
    from fusewright._nodes import refusal

    reasons = [refusal(node) for node in graph.nodes if node.op == "call_function"]
    assert sum("lie on" in (reason or "") for reason in reasons) == 1


@pytest.mark.parametrize(("built", "device"), [(False, "cuda:0"), (False, "cuda:1"), (True, "meta")])
def test_what_kernels_cannot_run_on_is_left(monkeypatch: pytest.MonkeyPatch, built: bool, device: str) -> None:
    monkeypatch.setattr(_native, "HAS_CUDA", built)
    graph = traced(lambda x: torch.relu(x * 2.0) + 1.0, ((8, 16), torch.float32, device)).graph
    result = _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function)
    assert not result.fusions and all("this build has no kernels" in why for _, why in result.left)


class OnHost:
    """The kernels of a program on the host, as if they were on a GPU."""

    def __init__(self, kernel: _native.Kernel, device: int | None) -> None:
        self.kernel, self.device = kernel, device

    def __getattr__(self, name: str) -> object:
        return getattr(self.kernel, name)

    def on(self, device: int) -> OnHost:
        return OnHost(self.kernel, device)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Programs for GPUs are compiled for the host; the devices that each was compiled for."""
    devices: list[int] = []
    real = _native.compile

    def compile(name: str, program: bytes, target: str, *, device: int = 0, **options: object) -> object:
        devices.append(device)
        kernel, outside = real(name, program, "cpu", **options)
        return OnHost(kernel, device), outside

    monkeypatch.setattr(_native, "HAS_CUDA", True)
    monkeypatch.setattr(_native, "compile", compile)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda on: (9, 0) if on.index < 2 else (8, 0))
    return devices


def fused(*devices: str) -> list[_fuse.Fusion]:
    """What becomes of one function on each of some devices."""
    made = []
    for device in devices:
        graph = traced(lambda x: torch.relu(x * 2.5) + 0.5, ((8, 16), torch.float32, device)).graph
        made += _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function).fusions
    return made


def test_devices_of_one_kind_share_code_and_others_have_their_own(compiles: list[int]) -> None:
    made = fused("cuda:1", "cuda:0", "cuda:1", "cuda:2")
    assert compiles == [1, 2]
    records = [fusion.call.record for fusion in made]
    assert [(record.target, record.device) for record in records] == [
        ("cuda:sm_90", 1),
        ("cuda:sm_90", 0),
        ("cuda:sm_90", 1),
        ("cuda:sm_80", 2),
    ]
    assert [fusion.call.kernel.device for fusion in made] == [1, 0, 1, 2]
    keys = [record.packed() for record in records]
    assert keys[0] == keys[2] and len(set(keys)) == 3
    assert all(record == Record.unpacked(record.packed()) for record in records)


def test_layers_on_two_devices_are_a_part_each(compiles: list[int]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.relu((torch.relu(x * 2.0) + 1.0).to("cuda:1") * 3.0) - 1.0

    graph = traced(model, ((8, 16), torch.float32, "cuda:0")).graph
    result = _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function)
    assert [fusion.call.record.device for fusion in result.fusions] == [0, 1]


@pytest.mark.parametrize(("devices", "enters"), [(1, False), (4, True)])
def test_a_call_has_its_own_device_current(
    monkeypatch: pytest.MonkeyPatch, compiles: list[int], devices: int, enters: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch._C, "_cuda_exchangeDevice", lambda _: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_maybeExchangeDevice", lambda _: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    (fusion,) = fused("cuda:1")
    text = fusion.call.function.__doc__
    assert text is not None and "stream(1)" in text
    assert ("before = exchange(1)" in text) == enters == ("if before != 1: restore(before)" in text)


def test_a_call_ends_with_the_device_that_it_began_with() -> None:
    record = Record("{}", "cuda:sm_90", 1, "exact", None, 1, 0, (), (), (Made("float32", ("2",), ("1",)),))
    seen: list[object] = []
    scope = {
        "exchange": lambda device: seen.append(device) or 0,
        "restore": seen.append,
        "launch": lambda address: seen.append("launch"),
        "empty": lambda shape, strides, dtype: torch.empty(shape, dtype=dtype),
    }
    call = _written(record, scope, "launch(a0.data_ptr())")
    assert call(torch.ones(2)).shape == (2,) and seen == [1, "launch", 0]
    with pytest.raises(AttributeError):
        call(None)
    assert seen[3:] == [1, 0]


def test_the_operator_refuses_tensors_of_another_device_when_it_is_traced(compiles: list[int]) -> None:
    (fusion,) = fused("cuda:1")
    part = _ops.register(fusion.call.record, fusion.call.function)
    with FakeTensorMode():
        right, wrong = (torch.empty(8, 16, device=f"cuda:{index}") for index in (1, 0))
        (made,) = torch.ops.fusewright.call([right], [], part)
        assert made.device == right.device
        with pytest.raises(fusewright.CallError, match="input 0 lies on cuda:0, the kernels run on cuda:1"):
            torch.ops.fusewright.call([wrong], [], part)


def test_numbers_are_no_scalars_where_everything_is_on_the_host() -> None:
    from fusewright import fuse

    fused = fuse(norm, strict=True)
    model = AddNorm()
    fused(torch.randn(4, 256).bfloat16(), model.weight.detach(), torch.tensor(1e-6))
    assert fused.results[0].fusions[0].call.record.scalars == ()


def test_many_comparisons_of_few_rows_are_made_on_a_gpu() -> None:
    def judged(call: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> bool:
        graph = traced(call, (shape, torch.float32, "cuda")).graph
        return any(_nodes._compares_too_much(node) for node in graph.nodes if node.op == "call_function")

    assert not judged(lambda x: torch.cumsum(x, -1), 1, 512)
    assert judged(lambda x: torch.cumsum(x, -1), 64, 512)
    assert not judged(lambda x: torch.sort(x, dim=-1).values, 64, 512)
    assert judged(lambda x: torch.sort(x, dim=-1).values, 64, 513)
    assert not judged(lambda x: torch.topk(x, 4).values, 64, 1000)
    assert judged(lambda x: torch.topk(x, 17).values, 64, 1000)


def test_a_view_that_is_read_on_both_sides_views_what_the_call_gives() -> None:
    def call(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        view = (torch.relu(x * 2.0) + 1.0).unsqueeze(0)
        return torch.bmm(view, w), torch.relu(view * 3.0)

    graph = traced(call, ((8, 16), torch.float32, "cpu"), ((1, 16, 4), torch.float32, "cpu")).graph
    (fusion,) = _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function).fusions
    left = {str(node.target) for node in graph.nodes if node.op == "call_function"}
    assert not left & {"aten.mul.Tensor", "aten.relu.default", "aten.add.Tensor"}, left
    assert len(fusion.call.record.outputs) == 2


def test_a_copy_into_another_order_is_a_part_on_a_gpu_alone(compiles: list[int]) -> None:
    def heads_to_rows(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).contiguous().flatten(2)

    graph = traced(heads_to_rows, ((2, 6, 9, 64), torch.bfloat16, "cuda:0")).graph
    (fusion,) = _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function).fusions
    assert [name for name, _ in fusion.kernels] == ["copy"] and compiles == [0]
    graph = traced(heads_to_rows, ((2, 6, 9, 64), torch.bfloat16, "cpu")).graph
    assert not _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function).fusions
