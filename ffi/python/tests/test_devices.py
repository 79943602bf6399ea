"""What is decided for a GPU without one: graphs of tensors that are not there, and the text of calls."""

from __future__ import annotations

import pytest
import torch
from models import AddNorm
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from fusewright import _fuse, _native
from fusewright._call import _written
from fusewright._options import Options


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


@pytest.mark.parametrize(
    ("built", "device", "reason"), [(True, "cuda:1", "first GPU"), (False, "cuda:0", "this build")]
)
def test_what_kernels_cannot_run_on_is_left(
    monkeypatch: pytest.MonkeyPatch, built: bool, device: str, reason: str
) -> None:
    monkeypatch.setattr(_native, "HAS_CUDA", built)
    graph = traced(lambda x: torch.relu(x * 2.0) + 1.0, ((8, 16), torch.float32, device)).graph
    result = _fuse.fuse_graph(graph, Options(strict=True), _fuse.insert_function)
    assert not result.fusions and all(reason in why for _, why in result.left)


def test_numbers_are_no_scalars_where_everything_is_on_the_host() -> None:
    from fusewright import fuse

    fused = fuse(norm, strict=True)
    model = AddNorm()
    fused(torch.randn(4, 256).bfloat16(), model.weight.detach(), torch.tensor(1e-6))
    assert fused.results[0].fusions[0].call.record.scalars == ()
