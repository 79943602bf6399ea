"""Copies of tensors into another order of their axes, which are kernels of their own where those are faster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fusewright
from fusewright import _fuse, _nodes
from fusewright._graph import read_order

HEADS, WIDTH = 6, 40


@pytest.fixture
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are kernels on the host as they are on a GPU."""
    monkeypatch.setattr(_nodes, "_COPIES_ON", ("cuda", "cpu"))


def kernels(function: Callable[..., object], *inputs: torch.Tensor) -> list[list[tuple[str, tuple[str, ...]]]]:
    """By part, the names of the kernels and of their operators."""
    result = fusewright.explain(function, *inputs).graphs[0]
    return [
        [(name, tuple(op.removeprefix("aten.").partition(".")[0] for op, _ in ops)) for name, ops in fusion.kernels]
        for fusion in result.fusions
    ]


def heads_to_rows(x: torch.Tensor) -> torch.Tensor:
    """What a model does with what attention gives."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def test_a_transposed_copy_is_a_part(on_the_host: None) -> None:
    x = torch.randn(2, HEADS, 9, WIDTH)
    assert kernels(heads_to_rows, x) == [[("copy", ("transpose", "clone"))]]
    report = str(fusewright.explain(heads_to_rows, x))
    assert "1 x copy: 2 operators\n" in report and "left to PyTorch" not in report


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("of the same order", lambda x: x.clone()),
        ("that keeps its strides", lambda x: x.transpose(1, 2).clone(memory_format=torch.preserve_format)),
        ("of leading rows", lambda x: x[:1].clone()),
        ("of lanes that are apart", lambda x: x.transpose(2, 3).contiguous()),
        ("of every second lane", lambda x: x[..., ::2].contiguous()),
        ("of runs that are no vectors", lambda x: x[..., :12].contiguous()),
    ],
)
def test_other_copies_are_left(on_the_host: None, name: str, function: Callable[..., object]) -> None:
    assert kernels(function, torch.randn(2, HEADS, 9, WIDTH)) == [], name


def test_copies_are_left_where_kernels_are_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nodes, "_COPIES_ON", ())
    assert kernels(heads_to_rows, torch.randn(2, HEADS, 9, WIDTH)) == []


def test_copies_are_left_to_inductor(on_the_host: None) -> None:
    report = fusewright.explain(heads_to_rows, torch.randn(2, HEADS, 9, WIDTH), inner="inductor")
    assert not report.kernels


def test_several_copies_are_kernels_of_one_part(on_the_host: None) -> None:
    def split(x: torch.Tensor) -> list[torch.Tensor]:
        rows = x.view(x.shape[0], x.shape[1], 3, -1, WIDTH)
        return [part.transpose(1, 2).contiguous() for part in rows.unbind(2)]

    (part,) = kernels(split, torch.randn(2, 9, 3 * 4 * WIDTH))
    assert [name for name, _ in part] == ["copy"] * 3 and all(ops[-1] == "clone" for _, ops in part)


def test_a_copy_of_what_a_part_gives_as_well_is_a_part_of_its_own(on_the_host: None) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        computed = torch.relu(x * 2.0) + 1.0
        return computed, computed.transpose(1, 2).contiguous()

    x = torch.randn(2, HEADS, 9, WIDTH)
    assert kernels(function, x) == [[("row", ("mul", "relu", "add"))], [("copy", ("clone",))]]
    fused = torch.compile(function, backend=fusewright.backend, options={"strict": True})
    assert all(map(torch.equal, fused(x), function(x)))


DTYPES = (torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool)
COPIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "heads to rows": heads_to_rows,
    "rows to heads": lambda x: x.transpose(1, 2).contiguous().flatten(0, 1),
    "last to first": lambda x: x.permute(2, 1, 0, 3).contiguous(),
    "a part of the heads": lambda x: x[:, 1:4].transpose(1, 2).contiguous(),
    "a part of the lanes": lambda x: x[..., 16:32].contiguous(),
    "repeated": lambda x: x[:, :, None].expand(-1, -1, 3, -1, -1).clone(memory_format=torch.contiguous_format),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("width", [32, 40, 208])
def test_copies_are_right(on_the_host: None, name: str, width: int, dtype: torch.dtype) -> None:
    function = COPIES[name]
    fused = torch.compile(function, backend=fusewright.backend, options={"strict": True}, dynamic=False)
    for rows in (1, 7, 0):
        x = (torch.randn(2, HEADS, rows, width) * 50).to(dtype)
        got, expected = fused(x), function(x)
        assert torch.equal(got, expected) and got.stride() == expected.stride()
        # Memory that begins elsewhere than an allocation.
        shifted = torch.cat([x.flatten()[:0], torch.zeros(3).to(dtype), x.flatten()])[3:].view(x.shape)
        assert torch.equal(fused(shifted), expected)


def test_a_new_number_of_rows_compiles_nothing(on_the_host: None) -> None:
    fused = torch.compile(heads_to_rows, backend=fusewright.backend, options={"strict": True})
    compiled = set()
    for rows in (5, 64, 2, 1000):
        x = torch.randn(2, HEADS, rows, WIDTH)
        torch._dynamo.mark_dynamic(x, 2)
        assert torch.equal(fused(x), heads_to_rows(x))
        compiled.add(fusewright.counters()["compiles"])
    assert len(compiled) == 1


def test_what_lies_in_another_order_is_read_as_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(gate) * x.transpose(1, 2).flatten(2)

    copied: list[torch.Tensor] = []
    contiguous = torch.Tensor.contiguous
    # As attention gives it: heads first, and rows outermost in memory.
    x = torch.randn(2, 9, HEADS, WIDTH).transpose(1, 2)
    gate = torch.randn(2, 9, HEADS * WIDTH)
    expected = function(x, gate)
    fused = torch.compile(function, backend=fusewright.backend, options={"strict": True})
    fused(x, gate)
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda t, **k: copied.append(t) or contiguous(t, **k))
    torch.testing.assert_close(fused(x, gate), expected)
    assert not copied
    # Of other strides than those that were traced.
    (fusion,) = fusewright.explain(function, x, gate).graphs[0].fusions
    assert dict(fusion.call.record.orders) == {fusion.call.program.inputs.index(_heads(fusion)): (0, 2, 1, 3)}
    order = [0, 1] if fusion.call.program.inputs[0].meta["val"].ndim == 4 else [1, 0]
    given = [(x.clone(memory_format=torch.contiguous_format), gate)[i] for i in order]
    torch.testing.assert_close(fusion.call.function(*given), expected)
    assert copied
    assert fusewright.check(function, x, gate, strict=True).passed


def _heads(fusion: _fuse.Fusion) -> torch.fx.Node:
    return next(node for node in fusion.call.program.inputs if node.meta["val"].ndim == 4)


@pytest.mark.parametrize(
    ("tensor", "order"),
    [
        (torch.empty(4, 6, 40), None),
        (torch.empty(6, 4, 40).transpose(0, 1), [1, 0, 2]),
        (torch.empty(6, 4, 80)[..., :40].transpose(0, 1), None),
        (torch.empty(4, 40, 6).transpose(1, 2), None),
        (torch.empty(6, 4, 12).transpose(0, 1), None),
        (torch.empty(6, 1, 40).transpose(0, 1), None),
    ],
)
def test_rows_that_stay_whole_vectors_are_read_in_another_order(tensor: torch.Tensor, order: list[int] | None) -> None:
    assert read_order(tensor) == order


def test_functions_of_what_lies_in_another_order_give_that_order() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2.0) + 1.0

    x = torch.randn(2, 9, HEADS, WIDTH).transpose(1, 2)
    fused = torch.compile(function, backend=fusewright.backend, options={"strict": True})
    got, expected = fused(x), function(x)
    assert torch.equal(got, expected) and got.stride() == expected.stride()
    assert kernels(function, x) == [[("row", ("mul", "relu", "add"))]]
