"""Kernels on tensors of other libraries: anything that speaks DLPack."""

from __future__ import annotations

import numpy
import pytest
import torch

import fusewright
from fusewright._native import Kernel


def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y) + y


@pytest.fixture
def kernel() -> Kernel:
    fused = fusewright.fuse(gate, strict=True)
    fused(torch.randn(3, 16), torch.randn(3, 16))
    return fused.results[0].fusions[0].call.kernel


def test_arrays_are_read_and_written_where_they_are(kernel: Kernel) -> None:
    for rows in (2, 5, 200):
        x, y = numpy.random.rand(2, rows, 16).astype(numpy.float32)
        result = numpy.zeros((rows, 16), numpy.float32)
        kernel.call([x, torch.from_numpy(y)], [result])
        assert (result == gate(torch.from_numpy(x), torch.from_numpy(y)).numpy()).all()


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        ([(4, 16), (5, 16)], (4, 16), "must be"),
        ([(4, 16), (4, 8)], (4, 16), "must be"),
        ([(4, 16), (4, 0)], (4, 16), "must be"),
        ([(4, 16)], (4, 16), "takes 2 inputs"),
        ([(4, 16), (4, 16)], (5, 16), "output 0"),
    ],
)
def test_sizes_are_checked(
    kernel: Kernel, inputs: list[tuple[int, ...]], output: tuple[int, ...], message: str
) -> None:
    with pytest.raises(fusewright.CallError, match=message):
        kernel.call([torch.zeros(shape) for shape in inputs], [torch.zeros(output)])


def test_types_order_and_kind_are_checked(kernel: Kernel) -> None:
    good = torch.zeros(4, 16)
    with pytest.raises(fusewright.CallError, match="got f64"):
        kernel.call([good, good.double()], [good.clone()])
    with pytest.raises(fusewright.CallError, match="row-major"):
        kernel.call([good, torch.zeros(16, 4).t()], [good.clone()])
    with pytest.raises(AttributeError, match="__dlpack__"):
        kernel.call([good, [1.0]], [good.clone()])
