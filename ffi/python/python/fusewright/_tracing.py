"""The trace of a function by ``fuse``: its graph for tensors that lie as some do, with nothing else changed by it."""

from __future__ import annotations

import operator
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils._pytree import TreeSpec, tree_flatten

from . import _native
from ._layouts import Layouts, context
from ._native import CompileError
from ._sizes import Sizes, make_numbers
from ._surroundings import Surroundings, Undone
from ._variables import Variables
from ._watch import Watch, fill

#: Folders of files that are none of a function's.
_NOT_OWN = ("<", *(str(Path(str(module.__file__)).parent) + os.sep for module in (torch, _native)))
#: How PyTorch says that it needs numbers for the extents of a tensor.
_SYMBOLIC_TENSOR = "on tensor with symbolic sizes/strides"
#: What stands for numbers in a trace.
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Untraceable(Exception):
    """A function cannot be traced, or not yet: ``is_first`` where it changed what it found, as first calls do."""

    def __init__(self, why: Exception, *, is_first: bool = False) -> None:
        super().__init__(why)
        self.why, self.is_first = why, is_first

    @property
    def needs_numbers(self) -> bool:
        """Whether a trace for these extents alone may do: it does what symbols are no good for."""
        return any(words in str(self.__cause__) for words in (_SYMBOLIC_TENSOR, "unhashable type: non-nested SymInt"))


def same(args: Sequence[Any]) -> tuple[int, ...]:
    """For each argument the first that is the same tensor."""
    first = dict[int, int]()
    return tuple([first.setdefault(id(arg), i) if isinstance(arg, torch.Tensor) else i for i, arg in enumerate(args)])


class Tracing:
    """One trace, for arguments of which the last have names, and for their extents alone if it ``has_symbols`` for none.

    A function may keep what it makes: what it puts into objects and containers that it was given, or names, is undone, and
    tensors and sizes that it keeps elsewhere, such as in a cache of its results, become those of a call.
    """

    def __init__(
        self, fn: Callable[..., Any], args: Sequence[Any], names: tuple[str, ...], *, has_symbols: bool = True
    ) -> None:
        self.fn, self.args, self.names = fn, args, names
        self.same = same(args)
        #: Which arguments are tensors, each once.
        self.tensors = tuple(i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and self.same[i] == i)
        #: How results are arranged, where they are not a tensor or a tuple of tensors, and which of them are arguments.
        self.arranged: TreeSpec | None = None
        self.returned = dict[int, int]()
        self.variables = Variables(fn, args)
        self.surroundings = Surroundings(args, self.variables)
        self._watch, self._shapes = Watch(), ShapeEnv()
        self._sizes = Sizes(self._shapes)
        self._mode = FakeTensorMode(shape_env=self._shapes, allow_non_fake_inputs=True)
        of_first = (arg.shape[0] for arg in args if isinstance(arg, torch.Tensor) and arg.ndim > 0)
        rows = next(of_first, 0) if has_symbols else 0
        self._fakes = [
            self._mode.from_tensor(args[i].detach(), symbolic_context=context(args[i], rows)) for i in self.tensors
        ]
        self._layouts = Layouts(self._fakes)
        self._failure: Exception | None = None
        #: How many results the graph has, and whether there is one by itself; tensors that were left may stand behind them.
        self._results, self._is_single = 0, False
        #: The tensors that were left when the function ended, each by its place among arguments or in what the graph gives.
        self._argument, self._output = dict[int, int](), dict[int, int]()

    def graph(self) -> GraphModule:
        """The graph; raises :class:`Untraceable` for a function that has none."""
        undone = Undone()
        try:
            # What is fused is compiled, and not before.
            compiled_later = _use_lazy_graph_module(True)
            with torch.no_grad(), self._mode, undone, enable_python_dispatcher(), compiled_later, self._sizes:
                gm: GraphModule = make_fx(torch.func.functionalize(self._call), tracing_mode="real")(*self._fakes)
        except BaseException as error:
            self.surroundings.undo()
            if isinstance(error, Exception):
                raise Untraceable(meant(error)) from error
            raise
        finally:
            undone.undo()
        changed = self.surroundings.undo()
        kept = self._watch.kept()
        if kept:
            self._make_real(gm, kept)
        sizes = self._sizes.kept(gm.graph)
        make_numbers(sizes)
        if self._failure is not None:
            raise Untraceable(meant(self._failure)) from self._failure
        if changed or kept or sizes:
            why = "it sets attributes, or changes lists, dictionaries or variables, beside what it gives"
            raise Untraceable(CompileError(why), is_first=True)
        self._drop_left(gm)
        return gm

    def met(self) -> list[torch.Tensor]:
        """Tensors that are no arguments, of which the function asks something, or with which it computes."""
        return list(self._watch.met.values())

    def layouts(self) -> Layouts:
        """Which tensors the graph is for."""
        self._layouts.rely_on([guard.expr for guard in self._shapes.guards], self._watch.are_places_asked)
        return self._layouts

    def _call(self, *given: torch.Tensor) -> Any:
        """Calls the function for its results, and behind them the tensors that are left."""
        by_place = dict(zip(self.tensors, given, strict=True))
        self._watch.see(given)
        try:
            results = self._called(by_place)
        except Exception as error:
            # What it kept until then has values in the graph up to there.
            self._failure = error
            _clear(error)
            results = ()
        self._results = len(results)
        self._argument = {id(tensor): place for place, tensor in by_place.items()}
        left = {id(tensor): tensor for tensor in self._watch.left()}
        outputs = {id(result): result for result in results if result is not None}
        others = [tensor for key, tensor in left.items() if key not in self._argument and key not in outputs]
        given_out = (*results, *others)
        self._output = {id(tensor): i for i, tensor in enumerate(given_out) if tensor is not None}
        return given_out[0] if self._is_single and not others else given_out

    def _called(self, by_place: dict[int, torch.Tensor]) -> tuple[Any, ...]:
        tensors = [by_place[self.same[i]] if isinstance(arg, torch.Tensor) else arg for i, arg in enumerate(self.args)]
        unnamed = len(tensors) - len(self.names)
        with self._watch:
            made = self.fn(*tensors[:unnamed], **dict(zip(self.names, tensors[unnamed:])))
        results, spec = tree_flatten(made)
        is_flat = type(made) is tuple and len(made) == len(results) and all(map(operator.is_, made, results))
        self.arranged = None if spec.is_leaf() or is_flat else spec
        for at, result in enumerate(results):
            if hasattr(result, "__dict__") and not isinstance(result, (torch.Tensor, *_SYMBOLIC)):
                raise TypeError(f"it gives a `{type(result).__name__}`, into which tracing does not look")
            which = next((place for place, tensor in by_place.items() if tensor is result), None)
            if which is not None:
                self.returned[at] = which
                self.arranged = spec
        self._is_single = spec.is_leaf() and not self.returned
        return tuple(None if at in self.returned else result for at, result in enumerate(results))

    def _make_real(self, gm: GraphModule, kept: list[torch.Tensor]) -> None:
        """Gives tensors that outlive the trace what they are for these arguments."""
        undone = Undone()
        try:
            with torch.no_grad(), undone:
                made = gm(*[self.args[i] for i in self.tensors])
        except Exception as error:
            raise Untraceable(error) from error
        finally:
            undone.undo()
        outputs = made if isinstance(made, tuple) else (made,)
        values = [
            self.args[self._argument[id(one)]] if id(one) in self._argument else outputs[self._output[id(one)]]
            for one in kept
        ]
        fill(kept, values)

    def _drop_left(self, gm: GraphModule) -> None:
        """Takes tensors that were left when the function ended, but are gone now, out of the graph."""
        output = next(iter(reversed(gm.graph.nodes)))
        given = output.args[0]
        if not isinstance(given, tuple) or len(given) == self._results:
            return
        output.args = (given[0] if self._is_single else given[: self._results],)
        gm.graph.eliminate_dead_code()


def meant(error: Exception) -> Exception:
    """What tracing cannot follow, in words; what is wrong with a call is PyTorch's to say."""
    words = str(error)
    if isinstance(error, CompileError):
        why = words
    elif isinstance(error, (GuardOnDataDependentSymNode, DataDependentOutputException)):
        why = "it looks at elements of a tensor"
    elif "mutating a non-functional tensor" in words:
        why = "it writes into a tensor that is no argument"
    elif _SYMBOLIC_TENSOR in words:
        why = "it does with a tensor what PyTorch cannot trace"
    else:
        return error
    line = _line(error)
    meant = CompileError(why if line is None else f"{why}, at {line}")
    meant.source = line
    return meant


def _line(error: BaseException) -> str | None:
    """``file:line`` of the innermost frame of the function's own that an error went through."""
    frames = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame in frames if not frame[0].startswith(_NOT_OWN)]
    return f"{own[-1][0]}:{own[-1][1]}" if own else None


def _clear(error: BaseException | None) -> None:
    """Drops the variables of functions that an exception went through, which it keeps."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
