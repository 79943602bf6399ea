"""What a function does while ``fuse`` traces it: what it asks of tensors, which it keeps, and which it writes into."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ._native import CompileError

_DATA: Any = torch.Tensor.data
_GRADIENT: Any = torch.Tensor.grad


class Watch(TorchFunctionMode):
    """Notes whether a function asks where in its memory a tensor begins, of which traces hold a number, and refuses to read
    elements of tensors that are no arguments, which traces would hold. Notes tensors that it sees, and modules that it calls.

    What PyTorch asks within an op is not seen: a mode is not active within itself.
    """

    _ASKING = (torch.Tensor.storage_offset, torch.Tensor.data_ptr, torch.Tensor.untyped_storage)
    #: What numbers of a trace cannot stand for, of arguments either.
    _SHOWING = tuple(getattr(torch.Tensor, name) for name in ("tolist", "numpy", "__array__", "__repr__"))
    #: What gives a tensor other memory, or is about its gradient, which tensors of a trace have not.
    _ANOTHER = (
        torch.Tensor.set_,
        _DATA.__set__,
        _GRADIENT.__get__,
        _GRADIENT.__set__,
    )
    _READING = (
        *_SHOWING[:-1],
        *(getattr(torch.Tensor, f"__{name}__") for name in ("float", "int", "bool", "index", "complex")),
        torch.Tensor.item,
    )

    def __init__(self) -> None:
        super().__init__()
        #: Whether it asks where tensors begin.
        self.are_places_asked = False
        self._seen: list[weakref.ref[torch.Tensor]] = []
        #: Tensors of no trace of which it asks something, or with which it computes.
        self.met: dict[int, torch.Tensor] = {}
        self.called: list[torch.nn.Module] = []
        self._hook: Any = None

    def __enter__(self) -> Any:
        self._hook = register_module_forward_pre_hook(lambda module, _: self.called.append(module))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self._hook.remove()
        super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.are_places_asked |= func in self._ASKING
        self._meet(args)
        self._meet((kwargs or {}).values())
        if func in self._READING and not _is_traced(args[0]):
            raise CompileError("it reads elements of a tensor that is no argument")
        if func in self._ANOTHER:
            raise CompileError("it gives a tensor other memory, or looks at a gradient")
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


class Undone(TorchDispatchMode):
    """Writes into tensors that a function finds elsewhere than in its arguments are done while it is traced, and undone."""

    def __init__(self) -> None:
        super().__init__()
        self._before = dict[int, tuple[torch.Tensor, torch.Tensor]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for i, parameter in enumerate(func._schema.arguments):
                if parameter.is_write:
                    self._keep(args[i] if i < len(args) else kwargs.get(parameter.name))
        return func(*args, **kwargs)

    def _keep(self, arg: Any) -> None:
        for tensor in arg if isinstance(arg, (list, tuple)) else (arg,):
            if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
                continue
            with _disable_current_modes():
                # All of the memory: another view of it may be written next.
                whole = tensor.detach().as_strided(
                    (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0
                )
                self._before.setdefault(whole.data_ptr(), (whole, whole.clone()))

    def undo(self) -> None:
        """Puts what was there before in its place."""
        for whole, before in self._before.values():
            whole.copy_(before)
