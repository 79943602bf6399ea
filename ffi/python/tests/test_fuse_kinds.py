"""``fusewright.fuse``: which calls are of one kind, and which are the function's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import fusewright


def shifted(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2.0 + 1.0


def by_order(x: torch.Tensor) -> torch.Tensor:
    return shifted(x) if x.is_contiguous() else shifted(x) - x


def by_stride(x: torch.Tensor) -> torch.Tensor:
    return shifted(x) if x.stride(0) > 50 else shifted(x) - x


def by_place(x: torch.Tensor) -> torch.Tensor:
    return shifted(x) if x.storage_offset() > 10 else shifted(x) - x


def overlapped(x: torch.Tensor) -> torch.Tensor:
    return shifted(torch.as_strided(x, (4, 8), (1, 1))) + 1.0


def behind(x: torch.Tensor) -> torch.Tensor:
    return shifted(torch.as_strided(x, (2, 8), (8, 1), x.storage_offset() + 8))


def lying(rows: int) -> list[torch.Tensor]:
    """Tensors of so many rows, of eight elements each, in every place and order."""
    wide, tall = torch.randn(rows + 3, 60), torch.randn(8, rows)
    return [
        torch.randn(rows, 8),
        wide[:rows, :8],
        wide[2 : rows + 2, 8:16],
        wide[3:, ::7][:, :8],
        tall.t(),
        torch.randn(rows, 1).expand(rows, 8),
        torch.randn(8).expand(rows, 8),
        torch.randn(rows, rows + 8)[:, :8],
    ]


@pytest.mark.parametrize("function", [by_order, by_stride, by_place, overlapped, behind])
def test_functions_may_look_at_how_tensors_lie(function) -> None:
    fused = fusewright.fuse(function, strict=True)
    for rows in (4, 9, 8, 61, 4, 1, 60):
        for i, x in enumerate(lying(rows)):
            if function is behind and x.storage_offset() + 24 > x.untyped_storage().nbytes() // 4:
                continue
            if function is overlapped and x.storage_offset() + 11 > x.untyped_storage().nbytes() // 4:
                continue
            assert torch.equal(fused(x), function(x)), (rows, i)


def test_a_kind_has_strides_that_go_with_its_rows() -> None:
    fused = fusewright.fuse(shifted, strict=True)
    for rows in (4, 9, 60, 17):
        for x in (torch.randn(8, rows).t(), torch.randn(3, rows, 8).transpose(0, 1), torch.randn(rows, 61)[:, :8]):
            assert torch.equal(fused(x), shifted(x))
    assert len(fused.traces) == 3


@pytest.mark.parametrize("batch", [1, 3])
def test_the_last_of_any_number_of_rows_is_one_kind(batch: int) -> None:
    for last in (lambda x: x[:, -1], lambda x: x[:, -1:]):
        fused = fusewright.fuse(shifted, strict=True)
        for tokens in range(4, 24):
            x = last(torch.randn(batch, tokens, 8))
            assert torch.equal(fused(x), shifted(x))
        assert len(fused.traces) == 1


def test_a_view_that_one_order_has_not_is_refused_by_pytorch() -> None:
    def flat(x: torch.Tensor) -> torch.Tensor:
        return shifted(x.view(-1))

    fused = fusewright.fuse(flat)
    x = torch.randn(4, 8)
    assert torch.equal(fused(x), flat(x))
    with pytest.raises(RuntimeError, match="view"):
        fused(torch.randn(8, 4).t())
    assert torch.equal(fused(x), flat(x)) and len(fused.traces) == 1


def test_arguments_by_name_are_arguments() -> None:
    def scaled(x: torch.Tensor, y: torch.Tensor, *, by: float = 2.0, other: torch.Tensor | None = None) -> torch.Tensor:
        z = torch.relu(x * by) - y
        return z if other is None else z * other

    fused = fusewright.fuse(scaled, strict=True)
    x, y, w = (torch.randn(4, 8) for _ in range(3))
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, y), {}),
        ((x,), {"y": y}),
        ((), {"y": y, "x": x}),
        ((), {"x": x, "y": y}),
        ((x, y), {"by": 3.0}),
        ((x, y), {"by": 2.0}),
        ((x, y), {"other": w}),
        ((y, x), {"other": w, "by": -1.0}),
    ]
    for _ in range(2):
        for args, named in calls:
            assert torch.equal(fused(*args, **named), scaled(*args, **named)), named
    assert len(fused.traces) == len(calls)
    with pytest.raises(TypeError, match="nothing"):
        fusewright.fuse(scaled)(x, y, nothing=1)


class Doubled(torch.Tensor):
    """Tensors whose ops give twice as much."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})) * 2


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.ops = list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("is_called", [False, True])
def test_transforms_modes_and_classes_of_tensors_take_the_functions_own_ops(is_called: bool) -> None:
    fused = fusewright.fuse(shifted, strict=True)
    x = torch.randn(5, 8)
    if is_called:
        fused(x)
    assert torch.equal(torch.func.vmap(fused)(x), shifted(x))
    assert torch.equal(torch.func.grad(lambda x: fused(x).sum())(x), torch.func.grad(lambda x: shifted(x).sum())(x))
    for mine, theirs in zip(*(torch.func.jvp(each, (x,), (x,)) for each in (fused, shifted))):
        assert torch.equal(mine, theirs)
    with torch.autograd.forward_ad.dual_level():
        made = fused(torch.autograd.forward_ad.make_dual(x, x))
        assert torch.autograd.forward_ad.unpack_dual(made).tangent is not None
    with Seen() as seen:
        fused(x)
    assert seen.ops == ["aten::relu", "aten::mul.Tensor", "aten::add.Tensor"]
    assert "aten.relu.default" in [str(node.target) for node in make_fx(fused)(x).graph.nodes]
    with FakeTensorMode() as mode:
        assert fused(mode.from_tensor(x)).shape == x.shape
    assert fused(mode.from_tensor(x)).shape == x.shape
    other = x.as_subclass(Doubled)
    assert torch.equal(torch.Tensor(fused(other)), torch.Tensor(shifted(other)))
    assert len(fused.traces) == is_called
