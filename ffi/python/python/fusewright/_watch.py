"""What a function does while ``fuse`` traces it: what it asks of tensors, and which it keeps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from ._native import CompileError


class Watch(TorchFunctionMode):
    """Notes whether a function asks where in its memory a tensor begins, of which traces hold a number, and refuses to read
    elements of tensors that are no arguments, which traces would hold. Notes which tensors it sees, too.

    What PyTorch asks within an op is not seen: a mode is not active within itself.
    """

    _ASKING = (torch.Tensor.storage_offset, torch.Tensor.data_ptr, torch.Tensor.untyped_storage)

    #: What numbers of a trace cannot stand for, of arguments either.
    _SHOWING = tuple(getattr(torch.Tensor, name) for name in ("tolist", "numpy", "__array__", "__repr__"))

    _READING = tuple(
        getattr(torch.Tensor, name)
        for name in (
            "item",
            "tolist",
            "numpy",
            "__array__",
            "__float__",
            "__int__",
            "__bool__",
            "__index__",
            "__complex__",
        )
    )

    def __init__(self) -> None:
        super().__init__()
        #: Whether it asks where tensors begin.
        self.are_places_asked = False
        self._seen: list[weakref.ref[torch.Tensor]] = []
        #: Tensors of no trace of which it asks something, or with which it computes.
        self.met: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.are_places_asked |= func in self._ASKING
        self._meet(args)
        if func in self._READING and not _is_traced(args[0]):
            raise CompileError("it reads elements of a tensor that is no argument")
        if func in self._SHOWING:
            raise CompileError("it looks at elements of a tensor")
        made = func(*args, **(kwargs or {}))
        self.see(made)
        return made

    def _meet(self, args: Any) -> None:
        for arg in args:
            if isinstance(arg, (tuple, list)):
                self._meet(arg)
            elif isinstance(arg, torch.Tensor) and type(arg) is not FakeTensor and not _is_traced(arg):
                self.met[id(arg)] = arg

    def see(self, made: Any) -> None:
        """Notes tensors."""
        if isinstance(made, torch.Tensor):
            self._seen.append(weakref.ref(made))
        elif isinstance(made, (tuple, list)):
            for one in made:
                self.see(one)

    def left(self) -> list[torch.Tensor]:
        """Those tensors of the trace that something still has."""
        found = (seen() for seen in self._seen)
        return list({id(one): one for one in found if one is not None and _is_traced(one)}.values())

    def kept(self) -> list[torch.Tensor]:
        """As :meth:`left`, when the trace has ended: what the function has put where nothing takes it away."""
        if self.left():
            # Or what waits for the collector.
            gc.collect()
        return self.left()


def _is_traced(tensor: torch.Tensor) -> bool:
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))  # pyright: ignore[reportAttributeAccessIssue]


def fill(tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Makes tensors of a trace, wherever they are, those that other tensors are."""
    for tensor, value in zip(tensors, values, strict=True):
        torch._C._swap_tensor_impl(tensor, value.detach())
