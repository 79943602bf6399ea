"""``fuse``: tensors that are not what their dtype and shape tell, modes that see functions, and signs of zeros."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fusewright


def test_the_memory_of_a_tensor_that_is_found_may_be_replaced() -> None:
    weight = torch.ones(1024)
    fused, x = fusewright.fuse(lambda x: (x * weight + weight) * 2.0, strict=True), torch.ones(2, 1024)
    assert torch.equal(fused(x), fused.fn(x))
    weight.data = torch.ones(1)
    assert torch.equal(fused(x), fused.fn(x))


def test_a_mode_sees_functions_and_a_default_device_is_none() -> None:
    class Sevens(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            return made * 0.0 + 7.0 if func is torch.relu else made

    fused, x = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True), torch.randn(4, 8)
    with Sevens():
        assert torch.equal(fused(x), torch.full_like(x, 8.0))
    assert torch.equal(fused(x), fused.fn(x)) and len(fused.traces) == 1
    with Sevens():
        assert torch.equal(fused(x), torch.full_like(x, 8.0))
    makes = fusewright.fuse(lambda x: (torch.relu(x * 2.0) + 1.0, torch.ones(3)), strict=True)
    for device in ("cpu", "meta", "cpu"):
        with torch.device(device):
            assert makes(x)[1].device.type == device
    assert makes(x)[1].device.type == "cpu" and len(makes.traces) == 3


def test_tensors_that_have_no_strides_or_memory_are_not_fused() -> None:
    fused, x = fusewright.fuse(lambda x: x * 2.0 * 3.0), torch.randn(4, 8)
    fused(x)
    for other in (x.to_sparse_csr(), x.to_sparse(), torch.nested.nested_tensor([x, x], layout=torch.strided)):
        with pytest.warns(UserWarning, match="does not look into a"):
            again = fusewright.fuse(fused.fn)
            again(other)
        assert type(fused(other)) is type(fused.fn(other))
    assert torch.equal(fused(torch._efficientzerotensor((4, 8))), torch.zeros(4, 8))


def test_what_needs_numbers_is_traced_for_them() -> None:
    table = {rows: float(rows) for rows in range(8)}
    fused = fusewright.fuse(lambda x: x * table[x.shape[0]] + 1.0, strict=True)
    for rows in (4, 3, 4):
        x = torch.randn(rows, 8)
        assert torch.equal(fused(x), fused.fn(x))
    assert len(fused.traces) == 2


def test_every_other_column_is_one_kind_of_tensor() -> None:
    fused = fusewright.fuse(lambda x: (x + 1.0) * 2.0, strict=True)
    for rows in (4, 4, 6):
        x = torch.randn(rows, 16)[:, ::2]
        assert torch.equal(fused(x), fused.fn(x))
    assert len(fused.traces) == 1


@pytest.mark.parametrize("overwrites", [False, True])
def test_tensors_that_stand_for_their_negatives_or_conjugates_are_what_they_stand_for(overwrites: bool) -> None:
    real = (lambda x: x.mul_(2.0).relu_()) if overwrites else (lambda x: torch.relu(x * 2.0) + 1.0)
    of_complex = (lambda z: z.mul_(z).add_(1.0)) if overwrites else (lambda z: z * z + 1.0)
    x, z = torch.randn(4, 8), torch.randn(4, 8, dtype=torch.complex64)
    for function, plain, turned in (
        (real, x, torch._neg_view),
        (real, z, lambda z: z.conj().imag),
        (of_complex, z, torch.conj),
    ):
        fused = fusewright.fuse(function)
        first = plain.clone() if function is of_complex or plain is x else plain.imag.clone()
        assert torch.equal(fused(first.clone()), function(first.clone()))
        one, other = turned(plain.clone()), turned(plain.clone())
        assert torch.equal(fused(one), function(other)) and torch.equal(one, other)
        assert torch.equal(fused(first.clone()), function(first.clone()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", ["fuse", "torch.compile"])
def test_a_bound_of_zero_keeps_zeros_of_either_sign(way: str, dtype: torch.dtype) -> None:
    functions: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: 1.0 / torch.relu(x),
        lambda x: torch.nn.functional.relu6(x * 1.0) * 1.0,
        lambda x: torch.nn.functional.hardtanh(x * 1.0, 0.0, 1.0) * 1.0,
        lambda x: (x * 1.0).clamp(min=0) * 1.0,
        lambda x: (x * 1.0).clamp_min_(0.0) * 1.0,
        lambda x: (x * 1.0).clamp(-1.0, -0.0) * 1.0,
        lambda x: torch.relu(x * 1.0).square(),
    ]
    x = torch.tensor([-0.0, 0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf")] * 9, dtype=dtype)
    for function in functions:
        torch._dynamo.reset()
        fused = (
            fusewright.fuse(function, strict=True) if way == "fuse" else torch.compile(function, backend="fusewright")
        )
        for rows in (1, 3, len(x)):
            got, expected = fused(x[:rows].clone()), function(x[:rows].clone())
            torch.testing.assert_close(got, expected, rtol=0.0, atol=0.0, equal_nan=True)
            numbers = ~expected.isnan()
            assert torch.equal(torch.signbit(got[numbers]), torch.signbit(expected[numbers]))
