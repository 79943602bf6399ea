"""Small models, and how far results may be apart."""

from __future__ import annotations

import torch
from torch import nn


class AddNorm(nn.Module):
    """A residual sum and its RMS norm, as Llama and its kin write it."""

    def __init__(self, hidden: int = 256, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden).to(dtype))
        self.variance_epsilon = 1e-6

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + residual
        wide = h.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * scaled.to(x.dtype), h


class Gated(nn.Module):
    """SiLU of one half of a product, times the other half."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, 2 * hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.up(x).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up


def steps_apart(a: torch.Tensor, b: torch.Tensor) -> int:
    """The most representable numbers that lie between two elements of the same place."""
    kind = {2: torch.int16, 4: torch.int32}[a.element_size()]

    def ordered(t: torch.Tensor) -> torch.Tensor:
        bits = t.contiguous().view(kind).long()
        return torch.where(bits < 0, torch.iinfo(kind).min - bits, bits)

    return int((ordered(a) - ordered(b)).abs().max()) if a.numel() else 0
