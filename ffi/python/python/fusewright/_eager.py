"""``fuse``: functions of a few ops as fused kernels in eager code, without Dynamo at the call."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, overload

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ._backend import fuse_module
from ._fuse import Result
from ._nodes import mutates
from ._options import Options

Function = Callable[..., Any]

#: PyTorch traces for one thread at a time; a function that is traced may call another.
_tracing = threading.RLock()
#: Traces that a function keeps; more kinds of arguments than that are not fused.
_MOST_TRACES = 16
#: What is compared by its value; other objects are the same or are not.
_PLAIN = (bool, int, complex, str, bytes, range, slice, torch.dtype, torch.device, torch.memory_format)
#: Numbers of rows of which a trace remembers whether it is for them.
_MOST_ROWS = 1024


@overload
def fuse(fn: Function) -> Fused: ...
@overload
def fuse(fn: None = None, **options: Any) -> Callable[[Function], Fused]: ...
def fuse(fn: Function | None = None, **options: Any) -> Any:
    """A function of tensors whose ops run as fused kernels; a decorator, with options or without.

    The function is traced at the first call, with the leading extent of its first tensor as a symbol: other tensors whose
    leading extent is the same vary with it. Calls of other extents compile nothing. Arguments of other types, ranks or
    inner extents are traced anew. What kernels do not compute, PyTorch does.

    Weights of a module that is an argument, such as ``self``, may change and be replaced. Tensors that the function finds
    elsewhere are constants to it, whose elements may change; so are other objects that it reads: a module's flags, settings
    of PyTorch. Calls with lists, dictionaries or other containers of tensors are not fused, nor are those with keywords.

    Options are those of :func:`fusewright.backend`, but ``inner`` and ``capture_sizes``. A call under ``torch.compile`` or
    ``torch.autocast``, or one in which a tensor needs gradients, runs the function as it is; so does one that writes into a
    tensor which shares its memory with another. A function that looks at the elements of tensors, or cannot be traced for
    another reason, always runs as it is, which a warning says, or ``strict`` raises.
    """
    if fn is None:
        return functools.partial(fuse, **options)
    return Fused(fn, Options.of(options).uncaptured("`fuse`"))


class Fused:
    """A function and its kernels."""

    def __init__(self, fn: Function, options: Options) -> None:
        functools.update_wrapper(self, fn)
        self.fn, self.options = fn, options
        self.traces: list[_Trace] = []
        #: Whether what the function does depends on more than kinds of arguments, so that it runs as it is.
        self.is_untraceable = False
        #: Whether it was said that some calls are not fused.
        self.is_said = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self.is_untraceable or torch.compiler.is_compiling() or not _is_inference(args):
            return self.fn(*args, **kwargs)
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            return self.fn(*args)
        for trace in self.traces:
            if trace.fits(args):
                return self._called(trace, args)
        try:
            traced = self._traced(args)
        except _Untraceable as refused:
            if self.options.strict:
                raise refused.why from None
            # What is wrong with a call is PyTorch's to say.
            made = self.fn(*args)
            self.is_untraceable = True
            self._warn(f"cannot trace {{}}, which runs as it is: {type(refused.why).__name__}: {refused.why}")
            return made
        return self.fn(*args) if traced is None else self._called(traced, args)

    def _called(self, trace: _Trace, args: Sequence[Any]) -> Any:
        """The results of a trace that fits, or of the function where a call is not what was traced."""
        if (trace.trains and torch.is_grad_enabled()) or (trace.overwrites and _share_memory(args)):
            return self.fn(*args)
        return trace.run(args)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @property
    def results(self) -> list[Result]:
        """What was fused, by trace."""
        return [trace.result for trace in self.traces]

    def _traced(self, args: Sequence[Any]) -> _Trace | None:
        with _tracing:
            # Another thread may have traced the same meanwhile.
            for trace in self.traces:
                if trace.fits(args):
                    return trace
            unfit = next((type(arg).__name__ for arg in args if not _is_known(arg)), None)
            if unfit is not None:
                self._warn(f"does not look into a `{unfit}`; calls of {{}} with one are not fused")
                return None
            if len(self.traces) >= _MOST_TRACES:
                self._warn(f"keeps {_MOST_TRACES} kinds of arguments of {{}}; calls with others are not fused")
                return None
            trace = _Trace.of(self.fn, args, self.options)
            self.traces.append(trace)
            return trace

    def _warn(self, why: str) -> None:
        """Says once that calls are not fused, and why."""
        if not self.is_said:
            self.is_said = True
            name = getattr(self.fn, "__qualname__", repr(self.fn))
            warnings.warn("fusewright " + why.replace("{}", name, 1), stacklevel=5)


def _is_inference(args: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled():
        return True
    return not any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)


def _is_known(arg: Any) -> bool:
    """Whether an argument is a tensor, or stays what it is: what is in a container may change from call to call."""
    if isinstance(arg, tuple):
        return all(_is_known(element) and not isinstance(element, torch.Tensor) for element in arg)
    return not isinstance(arg, (list, dict, set, bytearray)) and not dataclasses.is_dataclass(arg)


def _is_same(arg: Any, expected: Any) -> bool:
    """Whether an argument that is no tensor is the one that was traced, to the sign of a zero."""
    if arg is expected:
        return True
    if type(arg) is not type(expected):
        return False
    if isinstance(arg, float):
        same = arg == expected or (math.isnan(arg) and math.isnan(expected))
        return same and math.copysign(1.0, arg) == math.copysign(1.0, expected)
    if isinstance(arg, tuple):
        return len(arg) == len(expected) and all(map(_is_same, arg, expected))
    return isinstance(arg, _PLAIN) and bool(arg == expected)


def _share_memory(args: Sequence[Any]) -> bool:
    """Whether two tensors among the arguments lie in the same memory."""
    places = [arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, torch.Tensor) and arg.numel() > 0]
    return len(set(places)) < len(places)


class _Untraceable(Exception):
    """A function cannot be traced."""

    def __init__(self, why: Exception) -> None:
        super().__init__(why)
        self.why = why


class _Undone(TorchDispatchMode):
    """Writes into tensors that a function finds elsewhere than in its arguments are done while it is traced, and undone."""

    def __init__(self) -> None:
        super().__init__()
        self._before = dict[int, tuple[torch.Tensor, torch.Tensor]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            given = zip(func._schema.arguments, args)
            named = (
                (parameter, kwargs[parameter.name]) for parameter in func._schema.arguments if parameter.name in kwargs
            )
            for parameter, arg in (*given, *named):
                if parameter.is_write:
                    self._keep(arg)
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


class _Rows:
    """The numbers of rows that a graph is for: what its trace relied on holds of them."""

    def __init__(self, shapes: ShapeEnv) -> None:
        self._conditions = [guard.expr for guard in shapes.guards]
        self._symbols = {symbol for expr in self._conditions for symbol in expr.free_symbols}
        # Zero rows and one are values of their own to PyTorch: broadcasting tells them apart.
        self._known = {0: False, 1: False}

    def admit(self, rows: int) -> bool:
        """Whether the graph is for so many."""
        known = self._known.get(rows)
        if known is None:
            at = dict.fromkeys(self._symbols, rows)
            known = all(bool(condition.subs(at)) for condition in self._conditions)
            if len(self._known) >= _MOST_ROWS:
                self._known = {0: False, 1: False}
            self._known[rows] = known
        return known


@dataclasses.dataclass
class _Trace:
    """A function's graph for arguments of one kind."""

    #: Per argument: what it must equal, or a tensor's dtype, device and extents, ``None`` where rows are.
    expected: tuple[Any, ...]
    result: Result
    function: Function
    rows: _Rows
    tensors: tuple[int, ...]
    #: The weights of modules among the arguments, by the tables that hold them, and where they lie.
    weights: tuple[tuple[dict[str, Any], str, torch.Tensor, int], ...]
    #: Whether a tensor that it holds needs gradients.
    trains: bool
    #: Whether it writes into an argument.
    overwrites: bool

    @classmethod
    def of(cls, fn: Function, args: Sequence[Any], options: Options) -> _Trace:
        rows = next((arg.shape[0] for arg in args if isinstance(arg, torch.Tensor) and arg.ndim > 0), None)
        varies = rows is not None and rows > 1
        shapes = ShapeEnv()
        mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
        expected, fakes, tensors = [], [], []
        for i, arg in enumerate(args):
            if not isinstance(arg, torch.Tensor):
                expected.append(arg)
                continue
            leading = varies and arg.ndim > 0 and arg.shape[0] == rows
            extents = [DimDynamic.STATIC] * arg.ndim
            if leading:
                extents[0] = DimDynamic.DYNAMIC
            context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(dynamic_sizes=extents)
            fakes.append(mode.from_tensor(arg.detach(), symbolic_context=context))
            shape = tuple(arg.shape)
            expected.append((arg.dtype, arg.device, (None, *shape[1:]) if leading else shape))
            tensors.append(i)

        def of_tensors(*given: torch.Tensor) -> Any:
            full = list(args)
            for i, tensor in zip(tensors, given, strict=True):
                full[i] = tensor
            return fn(*full)

        undone = _Undone()
        try:
            with torch.no_grad(), mode, undone:
                gm: GraphModule = make_fx(torch.func.functionalize(of_tensors), tracing_mode="real")(*fakes)
        except Exception as error:
            raise _Untraceable(error) from error
        finally:
            undone.undo()
        weights = _weights(gm, [arg for arg in args if isinstance(arg, torch.nn.Module)])
        trains = any(weight.requires_grad for _, _, weight, _ in weights) or any(
            isinstance(held, torch.Tensor) and held.requires_grad for held in _constants(gm)
        )
        overwrites = any(mutates(node) for node in gm.graph.nodes)
        result = fuse_module(gm, options)
        return cls(tuple(expected), result, _shortest(gm), _Rows(shapes), tuple(tensors), weights, trains, overwrites)

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether arguments are of the kind that was traced."""
        if len(args) != len(self.expected):
            return False
        rows = None
        for arg, expected in zip(args, self.expected):
            if not isinstance(arg, torch.Tensor):
                if not _is_same(arg, expected):
                    return False
                continue
            if type(expected) is not tuple or len(expected) != 3:
                return False
            dtype, device, extents = expected
            shape = arg.shape
            if arg.dtype != dtype or arg.device != device or len(shape) != len(extents):
                return False
            if extents and extents[0] is None:
                if rows is None:
                    rows = shape[0]
                    if not self.rows.admit(rows):
                        return False
                if shape[0] != rows or shape[1:] != extents[1:]:
                    return False
            elif shape != extents:
                return False
        return all(table.get(name) is own and own.data_ptr() == at for table, name, own, at in self.weights)

    def run(self, args: Sequence[Any]) -> Any:
        """The results for arguments that fit."""
        return self.function(*[args[i] for i in self.tensors])


def _weights(
    gm: GraphModule, modules: Sequence[torch.nn.Module]
) -> tuple[tuple[dict[str, Any], str, torch.Tensor, int], ...]:
    """What of the modules' weights a graph holds as constants: another weight in its place is another graph."""
    places = {constant.data_ptr() for constant in _constants(gm) if isinstance(constant, torch.Tensor)}
    tables = [table for module in modules for own in module.modules() for table in (own._parameters, own._buffers)]
    found = [(table, name, tensor) for table in tables for name, tensor in table.items() if tensor is not None]
    return tuple((*weight, at) for weight in found if (at := weight[2].data_ptr()) in places)


def _constants(gm: GraphModule) -> list[Any]:
    return [getattr(gm, str(node.target)) for node in gm.graph.nodes if node.op == "get_attr"]


def _shortest(gm: GraphModule) -> Function:
    """The fused call itself where the graph is nothing else, else the graph's own function."""
    *inputs, made, output = gm.graph.nodes
    is_call = made.op == "call_function" and getattr(made.target, "__module__", None) == "fusewright"
    if is_call and all(node.op == "placeholder" for node in inputs) and output.args[0] is made:
        if list(made.args) == inputs:
            return made.target
    return gm.forward
