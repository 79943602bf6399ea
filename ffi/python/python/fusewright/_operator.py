"""The custom operator through which graphs of other compilers call fused parts.

There is one operator for all parts: it takes tensors, sizes and the record of a part, as text. So code which a compiler
keeps on disk has all that it needs in a later process, whatever became of our cache. The operator is there as soon as torch
and this package are imported; what it needs is imported at its first call.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

_library = torch.library.Library("fusewright", "DEF")
_library.define(
    "call(Tensor[] inputs, SymInt[] sizes, str part) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order),
)


@functools.cache
def _parts() -> ModuleType:
    from . import _ops

    return _ops


def _call(inputs: Sequence[torch.Tensor], sizes: Sequence[int], part: str) -> list[torch.Tensor]:
    return _parts().called(inputs, sizes, part)


def _call_shapes(inputs: Sequence[torch.Tensor], sizes: Sequence[Any], part: str) -> list[torch.Tensor]:
    return _parts().called_shapes(inputs, sizes, part)


_library.impl("call", _call, "CompositeExplicitAutograd")
torch.library.register_fake("fusewright::call", _call_shapes, lib=_library)
