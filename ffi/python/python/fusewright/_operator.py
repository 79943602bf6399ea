"""The custom operator through which graphs of other compilers call fused parts.

There is one operator for all parts: it takes tensors, sizes and the record of a part, as text. So code which a compiler
keeps on disk has all that it needs in a later process, whatever became of our cache. The operator is there as soon as torch
and this package are imported; what it needs is imported at its first call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
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


def _is_plain(inputs: Sequence[torch.Tensor]) -> bool:
    """Says whether nothing but the operator itself is to see a call: no mode, transform or profiler, no subclass."""
    if _modes() or _function_modes() or _transforms() is not None or _is_profiled():
        return False
    return not torch.is_grad_enabled() and all(type(tensor) in _PLAIN for tensor in inputs)


def _shortened(dispatched: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what the operator's object calls: the part at once where PyTorch's dispatcher would do no more, which takes twice
    as long as a small part.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 3 and not kwargs and _is_plain(args[0]):
            return _call(*args)
        return dispatched(*args, **kwargs)

    return call


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
_transforms: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack  # pyright: ignore[reportAttributeAccessIssue]
_is_profiled: Callable[[], bool] = torch._C._autograd._profiler_enabled  # pyright: ignore[reportAttributeAccessIssue]
_library.impl("call", _call, "CompositeExplicitAutograd")
torch.library.register_fake("fusewright::call", _call_shapes, lib=_library)
_overload: Any = torch.ops.fusewright.call.default
_overload._op = _shortened(_overload._op)
