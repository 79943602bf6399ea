"""``fuse``: functions and modules as fused kernels in eager code, without Dynamo at the call."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import torch
import torch.autograd.forward_ad as forward_ad
from torch._dynamo import convert_frame
from torch.utils._device import DeviceContext

from ._arguments import Call, Unfit
from ._breach import Comparison
from ._collector import uncollected
from ._fuse import Result
from ._native import CompileError, Error
from ._options import OF_BACKEND, Options
from ._trace import Trace, default_device
from ._tracing import Untraceable

Function = Callable[..., Any]

#: PyTorch traces for one thread at a time; a function that is traced may call another.
_tracing = threading.RLock()
#: How many traces are being made, one within another.
_depth = 0


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Has no other thread trace, nor Dynamo, with which traces share what there is once in a process."""
    global _depth
    with _tracing, convert_frame.compile_lock:
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


def _begin_anew() -> None:
    """In a child of a fork no other thread traces, whatever one of its parent did."""
    global _tracing
    if _depth > 0:
        _tracing = threading.RLock()
        convert_frame.compile_lock = threading.RLock()


os.register_at_fork(after_in_child=_begin_anew)

#: Traces that a function keeps for calls of one structure; more kinds of extents and numbers than that are not fused.
_MOST_TRACES = 16
#: Traces that a function keeps in all: as many as layers of a model, or objects that a method is called of.
_MOST_IN_ALL = 1024
#: Kinds of calls of which a function remembers the trace.
_MOST_KINDS = 1024
#: Kinds of one structure with extents of their own. What differs among more varies, and is a symbol from then on; what is
#: in containers, such as a cache that grows, is so at once.
_MOST_CONSTANT = 4


#: Attributes of what is fused that are not the function's, for all to read, and for itself.
_OWN = frozenset(("breaches", "fn", "options", "traces", "results"))
_PRIVATE = frozenset(("_by_kind", "_are_places_asked", "_is_untraceable", "_said", "_begun", "_forward"))
#: The function of a decorator with options, which is given later.
_LATER: Any = object()


@overload
def fuse(fn: Function, **options: Any) -> Fused: ...
@overload
def fuse(**options: Any) -> Callable[[Function], Fused]: ...
def fuse(fn: Function = _LATER, **options: Any) -> Any:
    """Fuses a pure function of its arguments, and of the parameters and buffers of the modules that it reaches, or a module.

    Tensors may be in tuples, lists, dictionaries, dataclasses and Hugging Face's caches; what the function changes in these
    is changed. Types, strides, devices and other arguments make a call's kind, which is traced once; rows may vary.
    Parameters, buffers, submodules and modes of modules may change between calls; all else that it reads is a constant.
    Effects that cannot be kept, looks at elements and other obstacles make it run as it is, which one warning says.
    Under ``strict`` these raise, and the first calls of each kind are compared with the function's own.
    Calls that need gradients, and those under ``torch.compile``, autocast or a transform, run as they are.
    Options are those of :func:`fusewright.backend`, but ``inner`` and ``capture_sizes``.
    """
    chosen = Options.of(options, without=OF_BACKEND, by="`fuse`")
    if fn is _LATER:
        return functools.partial(fuse, **options)
    if isinstance(fn, type):
        raise TypeError(f"`fuse` takes a function or a module, not the class `{fn.__qualname__}`: fuse what it makes")
    if not callable(fn):
        raise TypeError(f"`fuse` takes a function or a module, not {fn!r}")
    return Fused(fn, chosen)


class Fused:
    """A function and its kernels.

    ``fn`` is the function, ``options`` are those of its kernels, ``results`` and ``traces`` what was fused, ``breaches`` what
    a call does beside; other attributes are the function's own. Methods of a module, such as ``generate``, run with its
    ``forward`` fused.
    """

    def __init__(self, fn: Function, options: Options) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn, self.options = fn, options
        self.traces: list[Trace] = []
        #: The same by kinds of calls.
        self._by_kind: dict[tuple[Any, ...], Trace] = {}
        #: Says whether a trace is for tensors that begin where they do.
        self._are_places_asked = False
        #: Whether what the function does depends on more than kinds of arguments, so that it runs as it is.
        self._is_untraceable = False
        #: Warnings that were given of calls that are not fused.
        self._said: set[str] = set()
        #: Structures of calls that set attributes, which may have been the first of their kind.
        self._begun: set[tuple[Any, ...]] = set()
        #: The fused ``forward`` of a module, for its other methods.
        self._forward: Fused | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_untraceable or not _is_eager():
            return self.fn(*args, **kwargs)
        try:
            call = Call(args, kwargs)
        except Unfit as unfit:
            if self.options.strict and not unfit.is_foreign:
                raise CompileError(str(unfit)) from None
            self._warn(f"{unfit}; calls of {{}} with one are not fused", 3)
            return self.fn(*args, **kwargs)
        if not _is_inference(call.tensors):
            return self.fn(*args, **kwargs)
        places = [tensor.storage_offset() for tensor in call.tensors] if self._are_places_asked else ()
        key = (*call.key(), *places, default_device(), torch.get_default_dtype())
        trace = self._by_kind.get(key)
        if trace is None or not trace.reads.are_as_before():
            try:
                trace = self._traced(args, kwargs, call)
            except Untraceable as refused:
                structure = tuple(call.structure)
                if refused.is_first and structure not in self._begun:
                    self._begun.add(structure)
                    return self.fn(*args, **kwargs)
                if self.options.strict:
                    raise refused.why from None
                # What is wrong with a call is PyTorch's to say.
                made = self.fn(*args, **kwargs)
                self._is_untraceable = True
                self._warn(f"cannot trace {{}}, which runs as it is: {_words(refused.why)}", 3)
                return made
            if trace is None:
                return self.fn(*args, **kwargs)
            if len(self._by_kind) >= _MOST_KINDS:
                self._by_kind.clear()
            if trace.layouts.has_offsets == bool(places):
                self._by_kind[key] = trace
        if torch.is_grad_enabled() and trace.reads.are_trained():
            self._warn("runs {} as it is where its weights need gradients: call it under `torch.no_grad()`", 3)
            return self.fn(*args, **kwargs)
        if trace.overwrites and trace.shares_memory(call):
            return self.fn(*args, **kwargs)
        if self.options.strict and trace.compared < Comparison.CALLS and not _is_recorded():
            try:
                Comparison(self.fn, args, kwargs).judge(trace)
            except CompileError:
                self._forget(trace)
                raise
            trace.compared += 1
        return trace.run(call)

    def __getattr__(self, name: str) -> Any:
        # A copy that is being made has no function yet.
        fn = vars(self).get("fn", _LATER)
        if fn is _LATER or _is_special(name):
            raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`")
        held = getattr(fn, name)
        if isinstance(held, types.MethodType) and held.__self__ is fn:
            return functools.partial(self._of_fn, held)
        return held

    def _of_fn(self, method: Function, *args: Any, **kwargs: Any) -> Any:
        with self._fused_forward():
            made = method(*args, **kwargs)
        # `eval` and `to` of a module give the module.
        return self if made is self.fn else made

    @contextlib.contextmanager
    def _fused_forward(self) -> Iterator[None]:
        """Has a module's own calls of itself, such as those of ``generate``, be of its fused ``forward``."""
        held = getattr(self.fn, "__dict__", {})
        if not isinstance(self.fn, torch.nn.Module) or isinstance(held.get("forward"), Fused):
            yield
            return
        if self._forward is None:
            self._forward = Fused(self.fn.forward, self.options)
        before = held.get("forward", _LATER)
        held["forward"] = self._forward
        try:
            yield
        finally:
            if held.get("forward") is self._forward:
                del held["forward"]
                if before is not _LATER:
                    held["forward"] = before

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN and (name in ("breaches", "results") or name in vars(self)):
            raise AttributeError(f"`{name}` is of what `fuse` gives: set it on `fn`")
        if name in _OWN or name in _PRIVATE or _is_special(name):
            super().__setattr__(name, value)
        else:
            setattr(self.fn, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.fn, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.fn)})

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        """Copies know the function and no traces; a decorated function of a module is that, as functions are."""
        at: Any = sys.modules.get(self.__module__)
        name_of = str(getattr(self, "__qualname__", ""))
        for name in name_of.split("."):
            at = getattr(at, name, None)
        return name_of if at is self else (Fused, (self.fn, self.options))

    def breaches(self, *args: Any, **kwargs: Any) -> list[str]:
        """Says in words what the function reads or changes in a call that its trace does not know."""
        try:
            call = Call(args, kwargs)
            trace = self._traced(args, kwargs, call)
            if trace is not None:
                Comparison(self.fn, args, kwargs).judge(trace)
        except (Unfit, Untraceable, CompileError) as error:
            return [_words(error.why if isinstance(error, Untraceable) else error)]
        return []

    @property
    def results(self) -> list[Result]:
        """What was fused, by trace."""
        return [trace.result for trace in (*self.traces, *(self._forward.traces if self._forward else ()))]

    def _traced(self, args: Sequence[Any], named: dict[str, Any], call: Call) -> Trace | None:
        with _alone():
            structure = tuple(call.structure)
            of_structure = [trace for trace in self.traces if trace.structure == structure]
            for trace in of_structure:
                if not trace.reads.are_there():
                    # What is in their place may be a whole model, beside which the old one is not to stay.
                    self._forget(trace)
                elif trace.reads.are_as_before() and trace.admits(call):
                    return trace
            of_structure = [trace for trace in self.traces if trace.structure == structure]
            if len(of_structure) >= _MOST_TRACES:
                self._warn(f"keeps {_MOST_TRACES} traces of {{}} by extents and numbers; other calls are not fused", 4)
                return None
            varying: set[tuple[int, int | None]] = set()
            if call.containers or len(of_structure) >= _MOST_CONSTANT:
                varying = {place for trace in of_structure for place in (*trace.varying, *trace.varies_to(call))}
            with uncollected():
                trace = Trace.of(self.fn, args, named, call, varying, self.options)
            self._keep(trace, call.objects)
            return trace

    def _keep(self, trace: Trace, objects: list[Any]) -> None:
        """Keeps a trace while the objects that it is for are there."""
        if len(self.traces) >= _MOST_IN_ALL:
            self._forget(self.traces[0])
        self.traces.append(trace)
        if trace.layouts.has_offsets and not self._are_places_asked:
            self._are_places_asked = True
            self._by_kind.clear()
        fused: weakref.ref[Fused] = weakref.ref(self)
        known = weakref.ref(trace)
        for value in objects:
            with contextlib.suppress(TypeError):
                weakref.finalize(value, _forget, fused, known).atexit = False

    def _forget(self, trace: Trace) -> None:
        with contextlib.suppress(ValueError):
            self.traces.remove(trace)
        self._by_kind.clear()

    def _warn(self, why: str, level: int) -> None:
        """Says once that calls are not fused, and why, at the line of the caller so many calls above."""
        if why not in self._said:
            self._said.add(why)
            name = getattr(self.fn, "__qualname__", type(self.fn).__name__)
            warnings.warn("fusewright " + why.replace("{}", name, 1), stacklevel=level)


def _forget(fused: weakref.ref[Fused], trace: weakref.ref[Trace]) -> None:
    """Drops the trace of an object that is gone."""
    of, known = fused(), trace()
    if of is not None and known is not None:
        of._forget(known)


def _is_eager() -> bool:
    """Whether ops do what they say as they are called: no compiler, transform or mode takes them for itself."""
    return not (
        torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch._C._len_torch_function_stack() > 0 and _has_modes())
        or torch._C._is_any_autocast_enabled()
        or forward_ad._current_level >= 0
    )


def _is_recorded() -> bool:
    """Says whether what is launched now is recorded and not run, so that nothing can be compared."""
    # In a forked child CUDA must not be asked for anything; there it is not initialised, whatever its parent did.
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _has_modes() -> bool:
    """Whether a mode sees functions, but for those of a default device, for each of which there are traces."""
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return not all(isinstance(mode, DeviceContext) for mode in modes)


def _is_inference(tensors: Sequence[torch.Tensor]) -> bool:
    """Says whether tensors need no gradient, and stand for no others, or for zeros without memory."""
    trains = torch.is_grad_enabled()
    for tensor in tensors:
        if (trains and tensor.requires_grad) or tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor():
            return False
    return True


def _words(error: Exception) -> str:
    first, *_ = str(error).splitlines() or [""]
    return first if isinstance(error, Error) else f"{type(error).__name__}: {first}"


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
