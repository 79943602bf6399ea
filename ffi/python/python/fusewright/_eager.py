"""``fuse``: functions of a few ops as fused kernels in eager code, without Dynamo at the call."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, overload

import torch
import torch.autograd.forward_ad as forward_ad
from torch._dynamo import convert_frame
from torch.utils._device import DeviceContext

from ._collector import uncollected
from ._fuse import Result
from ._native import Error
from ._options import OF_BACKEND, Options
from ._surroundings import has_attributes, weakly
from ._trace import Trace
from ._tracing import Untraceable
from ._within import holds

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

#: Traces that a function keeps for the same objects; more kinds of tensors and numbers than that are not fused.
_MOST_TRACES = 16
#: Traces that a function keeps for other objects than those of a call, such as all layers of a model.
_MOST_OBJECTS = 1024
#: Traces for objects that are gone from which on it is said that tracing takes long.
_MANY = 64
#: Tensors that are what they seem; those of other classes have ops of their own.
_TENSORS = (torch.Tensor, torch.nn.Parameter)


#: Attributes of what is fused that are not the function's, for all to read, and for itself.
_OWN = frozenset(("fn", "options", "traces", "results"))
_PRIVATE = frozenset(("_by_first", "_is_untraceable", "_is_said", "_begun", "_forgotten"))
#: The function of a decorator with options, which is given later.
_LATER: Any = object()


@overload
def fuse(fn: Function, **options: Any) -> Fused: ...
@overload
def fuse(**options: Any) -> Callable[[Function], Fused]: ...
def fuse(fn: Function = _LATER, **options: Any) -> Any:
    """A function of tensors whose ops run as fused kernels; a decorator, with options or without.

    The function is traced at the first call, with the leading extent of its first tensor as a symbol: other tensors whose
    leading extent is the same vary with it. Calls of other extents compile nothing. Arguments of other types, ranks or
    inner extents are traced anew. What kernels do not compute, PyTorch does.

    What the function finds in modules, objects and variables is looked at by every call: weights, submodules, hooks and other
    attributes of those that are arguments, such as ``self``, of the function itself, and of those that it closes over;
    defaults, variables of enclosing functions and globals; and from there on what is read by names that stand in the code,
    and elements of containers, which are compared one by one. The same holds of functions and methods that it calls by their
    names, but for those of Python, of PyTorch and of other packages that are installed, unless the function is of that
    package; 20 000 values at most are looked into. All these may change and be replaced. Of other tensors the elements may
    change, and their memory, kind and shape.
    Settings of PyTorch, attributes of classes, caches of functions, what belongs to a thread, and the elements of arrays that
    are not PyTorch's are constants. What an iterator, a generator of random numbers that is not PyTorch's, or another object
    without attributes gives is as at the first call. Gradients are off while it is traced, and it sees that. Of a tensor it
    may ask for the dtype, device, extents, strides and place; it finds no gradients, subclasses, versions or attributes, and
    sets none; a ``torch.Size`` that it gives is a tuple. What it does with the number that an extent is, but for arithmetic,
    as to write it in words or to look it up in a table, makes the trace one for that extent. Calls with lists, dictionaries,
    dataclasses or other containers are not fused.

    The first call of a kind may leave what it likes in what it finds, such as a table that it makes once: that is what the
    function leaves. What it changes where nothing leads from its arguments, itself and globals that it names, such as a
    count of a class or what is printed, that call may change twice, and later ones not at all. Traces for objects that are
    arguments, such as ``self``, are dropped with them, or where these hold what leads back to them, or have slots, when 1024
    others are there. A module that is fused is none to modules that hold it: of one within another, fuse
    the ``forward``. Attributes of what ``fuse`` gives are the function's or the module's own, but for ``fn``, which is
    that itself, ``options``, ``results`` and ``traces``.

    Options are those of :func:`fusewright.backend`, but ``inner`` and ``capture_sizes``. A call under ``torch.compile``,
    ``torch.autocast``, a transform such as ``torch.func.vmap`` or a mode that sees ops runs the function as it is; so does
    one in which a tensor needs gradients, is of a subclass or stands for its negative or conjugate, and one that writes
    into a tensor which shares its memory with another. A function that looks at the elements of tensors, gives a view of
    what it overwrites, sets attributes in other calls than the first, or cannot be traced for another reason, always runs
    as it is, which a warning says, or ``strict`` raises.

    Threads trace one at a time, and while Dynamo does not. What a function can reach must not be changed by another thread
    while it is traced: it is put back as it was. Some versions of PyTorch, 2.11 among them, refuse calls of compiled
    functions in other threads meanwhile.
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

    ``fn`` is the function, ``options`` are those of its kernels, ``results`` and ``traces`` what was fused; other attributes
    are the function's own.
    """

    def __init__(self, fn: Function, options: Options) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn, self.options = fn, options
        self.traces: list[Trace] = []
        #: The same by their first argument, where that is an object; else by 0.
        self._by_first: dict[int, list[Trace]] = {}
        #: Whether what the function does depends on more than kinds of arguments, so that it runs as it is.
        self._is_untraceable = False
        #: Whether it was said that some calls are not fused.
        self._is_said = False
        #: Of calls that set attributes, which may have been the first of their kind, objects among the arguments and the
        #: kinds of tensors.
        self._begun: list[tuple[list[Callable[[], Any]], list[Any]]] = []
        #: How many traces there were for objects that are gone.
        self._forgotten = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given, names = ((*args, *kwargs.values()), tuple(kwargs)) if kwargs else (args, ())
        if self._is_untraceable or not _is_eager() or not _is_inference(given):
            return self.fn(*args, **kwargs)
        trace = self._known(given, names)
        if trace is None:
            try:
                trace = self._traced(given, names)
            except Untraceable as refused:
                if refused.is_first and self._begins(given):
                    return self.fn(*args, **kwargs)
                if self.options.strict:
                    raise refused.why from None
                # What is wrong with a call is PyTorch's to say.
                made = self.fn(*args, **kwargs)
                self._is_untraceable = True
                self._warn(f"cannot trace {{}}, which runs as it is: {_words(refused.why)}", 3)
                return made
        # What is not what was traced is the function's own.
        if (
            trace is None
            or (torch.is_grad_enabled() and trace.is_trained())
            or (trace.overwrites and trace.shares_memory(given))
        ):
            return self.fn(*args, **kwargs)
        return trace.run(given)

    def _begins(self, given: Sequence[Any]) -> bool:
        """Whether a call that sets attributes may be the first of its kind, which is noted."""
        objects = [arg for arg in given if has_attributes(arg)]
        kinds = [(arg.dtype, arg.device, arg.shape[1:]) for arg in given if isinstance(arg, torch.Tensor)]
        self._begun = [known for known in self._begun if all(get() is not None for get in known[0])]
        if any(of == kinds and holds([get() for get in known], objects) for known, of in self._begun):
            return False
        self._begun.append(([weakly(value) for value in objects], kinds))
        return True

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
        # `eval` and `to` of a module give the module.
        made = method(*args, **kwargs)
        return self if made is self.fn else made

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN and (name == "results" or name in vars(self)):
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

    @property
    def results(self) -> list[Result]:
        """What was fused, by trace."""
        return [trace.result for trace in self.traces]

    def _known(self, args: Sequence[Any], names: tuple[str, ...]) -> Trace | None:
        of_first = self._by_first.get(id(args[0]), ()) if args else ()
        for trace in (*of_first, *self._by_first.get(0, ())):
            if trace.fits(args, names):
                return trace
        return None

    def _traced(self, args: Sequence[Any], names: tuple[str, ...]) -> Trace | None:
        with _alone():
            # Another thread may have traced the same meanwhile.
            if (known := self._known(args, names)) is not None:
                return known
            unfit = next((_kind(arg) for arg in args if not _is_known(arg)), None)
            if unfit is not None:
                self._warn(f"does not look into a `{unfit}`; calls of {{}} with one are not fused", 4)
                return None
            objects = [arg for arg in args if has_attributes(arg)]
            if sum(trace.is_of(objects) for trace in self.traces) >= _MOST_TRACES:
                self._warn(
                    f"keeps {_MOST_TRACES} traces of {{}}, by arguments and variables; other calls are not fused. A number "
                    "that varies makes a trace for each value: give it as a tensor of one element",
                    4,
                )
                return None
            with uncollected():
                trace = Trace.of(self.fn, args, names, self.options)
            self._keep(trace, objects)
            return trace

    def _keep(self, trace: Trace, objects: list[Any]) -> None:
        """Keeps a trace while the objects that it is for are there, and the last ones of those for others."""
        others = [known for known in self.traces if not known.is_of(objects)]
        if objects and len(others) >= _MOST_OBJECTS:
            self._forget(others[0])
        self.traces.append(trace)
        self._by_first.setdefault(trace.first, []).append(trace)
        fused: weakref.ref[Fused] = weakref.ref(self)
        known = weakref.ref(trace)
        for value in objects:
            with contextlib.suppress(TypeError):
                weakref.finalize(value, _forget, fused, known).atexit = False
        if self._forgotten >= _MANY:
            kinds = ", ".join(f"`{type(value).__name__}`" for value in objects)
            self._warn(f"traces {{}} for each new {kinds} that it is given, which takes long", 5)

    def _forget(self, trace: Trace) -> None:
        with contextlib.suppress(ValueError):
            self.traces.remove(trace)
            self._forgotten += 1
            of_first = self._by_first[trace.first]
            of_first.remove(trace)
            if not of_first:
                del self._by_first[trace.first]

    def _warn(self, why: str, level: int) -> None:
        """Says once that calls are not fused, and why, at the line of the caller so many calls above."""
        if not self._is_said:
            self._is_said = True
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


def _has_modes() -> bool:
    """Whether a mode sees functions, but for those of a default device, for each of which there are traces."""
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return not all(isinstance(mode, DeviceContext) for mode in modes)


def _is_inference(args: Sequence[Any]) -> bool:
    """Whether all tensors are plain ones that need no gradient."""
    trains = torch.is_grad_enabled()
    for arg in args:
        if isinstance(arg, torch.Tensor) and (
            type(arg) not in _TENSORS
            or (trains and arg.requires_grad)
            # What stands for another, or for zeros without memory.
            or arg.is_neg()
            or arg.is_conj()
            or arg._is_zerotensor()
        ):
            return False
    return True


def _kind(arg: Any) -> str:
    if not isinstance(arg, torch.Tensor):
        return type(arg).__name__
    return "nested tensor" if arg.is_nested else str(arg.layout if arg.layout is not torch.strided else arg.dtype)


def _words(error: Exception) -> str:
    first, *_ = str(error).splitlines() or [""]
    return first if isinstance(error, Error) else f"{type(error).__name__}: {first}"


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_known(arg: Any) -> bool:
    """Whether an argument is a tensor with strides, or stays what it is: what is in a container may change."""
    if isinstance(arg, torch.Tensor):
        return arg.layout is torch.strided and not (arg.is_nested or arg.is_quantized)
    if isinstance(arg, tuple):
        return all(_is_known(element) and not isinstance(element, torch.Tensor) for element in arg)
    if isinstance(arg, (torch.nn.Module, str, bytes, range)):
        return True
    return not isinstance(arg, Collection) and not dataclasses.is_dataclass(arg)
