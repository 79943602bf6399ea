"""What ``fuse`` knows of a function for one kind of arguments: its graph, and when the graph is the function's."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ._backend import fuse_module
from ._fuse import Result
from ._layouts import Layouts, Places, context
from ._nodes import mutates
from ._options import Options

Function = Callable[..., Any]

#: What is compared by its value; other objects are the same or are not.
_PLAIN = (bool, int, complex, str, bytes, range, slice, torch.dtype, torch.device, torch.memory_format)
#: A variable of an enclosing function that has no value.
_EMPTY = types.CellType()


class Untraceable(Exception):
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


@dataclasses.dataclass
class Trace:
    """A function's graph for arguments of one kind."""

    #: Per argument, those by name last: the dtype and device of a tensor, or what else it must equal.
    expected: tuple[Any, ...]
    #: The names of arguments that have one.
    names: tuple[str, ...]
    result: Result
    function: Function
    #: Which arguments are tensors, and how they lie.
    tensors: tuple[int, ...]
    layouts: Layouts
    #: What of modules a graph holds as constants, by the tables that hold them.
    held: tuple[tuple[dict[str, Any], str, Any], ...]
    #: The weights among them, and where they lie.
    weights: tuple[tuple[torch.Tensor, int], ...]
    #: Whether a tensor that it holds needs gradients.
    trains: bool
    #: Whether it writes into an argument.
    overwrites: bool

    @classmethod
    def of(cls, fn: Function, args: Sequence[Any], names: tuple[str, ...], options: Options) -> Trace:
        """Traces and fuses a function.

        Raises :class:`Untraceable` for one that looks at elements, or that PyTorch cannot trace for another reason.
        """
        rows = next((arg.shape[0] for arg in args if isinstance(arg, torch.Tensor) and arg.ndim > 0), 0)
        shapes = ShapeEnv()
        mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
        expected, fakes = list(args), dict[int, torch.Tensor]()
        for i, arg in enumerate(args):
            if isinstance(arg, torch.Tensor):
                expected[i] = _Kind(arg.dtype, arg.device)
                fakes[i] = mode.from_tensor(arg.detach(), symbolic_context=context(arg, rows))
        layouts = Layouts(list(fakes.values()))

        def of_tensors(*given: torch.Tensor) -> Any:
            full = list(args)
            for i, tensor in zip(fakes, given, strict=True):
                full[i] = tensor
            unnamed = len(full) - len(names)
            with places:
                return fn(*full[:unnamed], **dict(zip(names, full[unnamed:])))

        undone, places = _Undone(), Places()
        try:
            with torch.no_grad(), mode, undone:
                gm: GraphModule = make_fx(torch.func.functionalize(of_tensors), tracing_mode="real")(*fakes.values())
        except Exception as error:
            raise Untraceable(error) from error
        finally:
            undone.undo()
        held = _held(gm, _modules((*args, *_behind(fn))))
        weights = tuple((weight, weight.data_ptr()) for _, _, weight in held if isinstance(weight, torch.Tensor))
        constants = (*(weight for weight, _ in weights), *_constants(gm))
        trains = any(isinstance(constant, torch.Tensor) and constant.requires_grad for constant in constants)
        overwrites = any(mutates(node) for node in gm.graph.nodes)
        result = fuse_module(gm, options)
        layouts.rely_on([guard.expr for guard in shapes.guards], places.are_asked)
        return cls(
            expected=tuple(expected),
            names=names,
            result=result,
            function=_shortest(gm),
            tensors=tuple(fakes),
            layouts=layouts,
            held=held,
            weights=weights,
            trains=trains,
            overwrites=overwrites,
        )

    def fits(self, args: Sequence[Any], names: tuple[str, ...]) -> bool:
        """Whether arguments are of the kind that was traced."""
        if len(args) != len(self.expected) or names != self.names:
            return False
        for arg, expected in zip(args, self.expected):
            if type(expected) is _Kind:
                if not isinstance(arg, torch.Tensor) or (arg.dtype, arg.device) != expected:
                    return False
            elif not _is_same(arg, expected):
                return False
        if not self.layouts.admit([args[i] for i in self.tensors]):
            return False
        for table, name, held in self.held:
            if table.get(name) is not held:
                return False
        for weight, place in self.weights:
            if weight.data_ptr() != place:
                return False
        return True

    def run(self, args: Sequence[Any]) -> Any:
        """The results for arguments that fit."""
        return self.function(*[args[i] for i in self.tensors])


class _Kind(NamedTuple):
    """What tensors in one place have in common."""

    dtype: torch.dtype
    device: torch.device


def _behind(fn: Function) -> list[Any]:
    """What a function has at hand without being given it: what it is or belongs to, and what it closes over."""
    cells = getattr(fn, "__closure__", None) or ()
    closed = [cell.cell_contents for cell in cells if cell != _EMPTY]
    return [fn, getattr(fn, "__self__", None), *closed]


def _modules(values: Sequence[Any]) -> list[torch.nn.Module]:
    """The modules among some values, and all within them, each once."""
    roots = [value for value in values if isinstance(value, torch.nn.Module)]
    return list(dict.fromkeys(module for root in roots for module in root.modules()))


def _held(gm: GraphModule, modules: Sequence[torch.nn.Module]) -> tuple[tuple[dict[str, Any], str, Any], ...]:
    """What of modules makes a graph the one that it is: their weights among its constants, and whether they train."""
    places = {constant.data_ptr() for constant in _constants(gm) if isinstance(constant, torch.Tensor)}
    tables = [table for module in modules for table in (module._parameters, module._buffers)]
    weights = [(table, name, held) for table in tables for name, held in table.items() if held is not None]
    modes = [(module.__dict__, "training", module.training) for module in modules]
    return (*(weight for weight in weights if weight[2].data_ptr() in places), *modes)


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
