"""Element types, layouts and memory formats by the numbers of PyTorch's export schema."""

from __future__ import annotations

import torch

# The types that kernels have; what is not here stays PyTorch's.
CODES: dict[torch.dtype, int] = {
    torch.uint8: 1,
    torch.int8: 2,
    torch.int16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.float32: 7,
    torch.float64: 8,
    torch.complex64: 10,
    torch.bool: 12,
    torch.bfloat16: 13,
    torch.uint16: 28,
    torch.float8_e4m3fn: 29,
    torch.float8_e5m2: 30,
    torch.uint32: 34,
    torch.uint64: 35,
}

FORMATS: dict[torch.memory_format, int] = {
    torch.contiguous_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
    torch.preserve_format: 4,
}

STRIDED = 7


def is_known(tensor: torch.Tensor) -> bool:
    """Whether kernels may read or write such a tensor: a strided one of a type of :data:`CODES`, with its own values."""
    return tensor.dtype in CODES and tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()
