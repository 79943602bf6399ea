"""The trace of a function by ``fuse``: its graph for calls of one kind, with nothing else changed by it."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, GuardOnDataDependentSymNode, ShapeEnv

from . import _native
from ._arguments import Call, Copies, Unfit
from ._layouts import LARGEST, Layouts, context
from ._modules import Snapshot, modules_of, reached
from ._native import CompileError
from ._results import Results
from ._sizes import Sizes, make_numbers
from ._watch import Undone, Watch, fill

#: Folders of files that are none of a function's.
_NOT_OWN = ("<", *(str(Path(str(module.__file__)).parent) + os.sep for module in (torch, _native)))
#: How PyTorch says that it needs numbers for the extents of a tensor.
_SYMBOLIC_TENSOR = "on tensor with symbolic sizes/strides"
_NEEDS_NUMBERS = (_SYMBOLIC_TENSOR, "unhashable type: non-nested SymInt")
#: Where a trace has a symbol: an axis of a tensor, or a number, each by its place in the call.
Varying = Collection[tuple[int, int | None]]


class Untraceable(Exception):
    """A function cannot be traced, or not yet: ``is_first`` where it changed what it found, as first calls do."""

    def __init__(self, why: Exception, *, is_first: bool = False) -> None:
        super().__init__(why)
        self.why, self.is_first = why, is_first

    @property
    def needs_numbers(self) -> bool:
        """Whether a trace for these extents alone may do: it does what symbols are no good for."""
        return any(words in str(self.__cause__) for words in _NEEDS_NUMBERS)


class Tracing:
    """One trace, for a call, with symbols for what is ``varying``, and for rows where no container tells what varies;
    ``None`` has no symbols."""

    def __init__(
        self, fn: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], call: Call, varying: Varying | None
    ) -> None:
        self._fn, self._args, self._named, self._call = fn, args, named, call
        found = reached(fn, call.objects)
        self._snapshot, self._modules = Snapshot(found), modules_of(found)
        self._watch, self._shapes = Watch(), ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._shapes, allow_non_fake_inputs=True)
        first = call.tensors[0] if call.tensors and not call.containers and varying is not None else None
        rows = first.shape[0] if first is not None and first.ndim > 0 else 0
        axes = [{axis for at, axis in varying or () if at == i and axis is not None} for i in range(len(call.tensors))]
        self._fakes = [
            self._mode.from_tensor(tensor.detach(), symbolic_context=context(tensor, rows, axes[i]))
            for i, tensor in enumerate(call.tensors)
        ]
        symbolic = {at for at, axis in varying or () if axis is None}
        self._numbers = [
            self._symbol(i, n) if i in symbolic and 1 < n < LARGEST else n for i, n in enumerate(call.numbers)
        ]
        #: Which numbers of a call the graph takes: zero and one are never symbols.
        self.taken = tuple(i for i, number in enumerate(self._numbers) if isinstance(number, torch.SymInt))
        self.layouts = Layouts(self._fakes, self._numbers)
        self._failure: Exception | None = None
        self.results: Results | None = None
        #: The tensors that were left when the function ended, each by its place in the call or in what the graph gives.
        self._given, self._output = dict[int, int](), dict[int, int]()
        self._count = 0

    def _symbol(self, at: int, number: int) -> Any:
        source = ConstantSource(f"number_{at}")
        symbol = self._shapes.create_symbol(number, source, DimDynamic.DYNAMIC)
        return self._shapes.create_symintnode(symbol, hint=number, source=source)

    def graph(self) -> GraphModule:
        """The graph; raises :class:`Untraceable` for a function that has none."""
        undone, sizes = Undone(), Sizes(self._shapes)
        symbols = [self._numbers[i] for i in self.taken]
        try:
            with (
                torch.no_grad(),
                self._mode,
                undone,
                enable_python_dispatcher(),
                # What is fused is compiled, and not before.
                _use_lazy_graph_module(True),
                _compiling(),
                sizes,
            ):
                sizes.take(symbols)
                gm: GraphModule = make_fx(torch.func.functionalize(self._traced), tracing_mode="real")(
                    *self._fakes, *symbols
                )
        except BaseException as error:
            self._snapshot.undo()
            if isinstance(error, Exception):
                raise Untraceable(meant(error)) from error
            raise
        finally:
            undone.undo()
        changed = self._snapshot.undo()
        kept = self._watch.kept()
        if kept:
            self._make_real(gm, kept)
        # Which are numbers to no other function.
        del symbols
        self._numbers = []
        numbers = sizes.kept(gm.graph)
        make_numbers(numbers)
        if self._failure is not None:
            raise Untraceable(meant(self._failure)) from self._failure
        if changed or kept or numbers:
            why = "it sets attributes, or changes lists, dictionaries or variables, beside its arguments and what it gives"
            raise Untraceable(CompileError(why), is_first=True)
        self._drop_left(gm)
        self.layouts.rely_on([guard.expr for guard in self._shapes.guards], self._watch.are_places_asked)
        return gm

    def met(self) -> list[torch.Tensor]:
        """Tensors that are no arguments, of which the function asks something, or with which it computes."""
        return list(self._watch.met.values())

    def modules(self) -> list[torch.nn.Module]:
        """The modules that it reaches, or calls."""
        return list(dict.fromkeys((*self._modules, *self._watch.called)))

    def _traced(self, *given: Any) -> Any:
        """Calls the function for what the graph is to give, and behind that the tensors that are left."""
        tensors = given[: len(self._fakes)]
        symbols = iter(given[len(self._fakes) :])
        numbers = [next(symbols) if i in self.taken else number for i, number in enumerate(self._numbers)]
        self._watch.see(tensors)
        outputs: list[Any] = []
        try:
            copies = Copies(self._call, tensors, numbers)
            args = [copies.of(arg) for arg in self._args]
            named = {name: copies.of(arg) for name, arg in self._named.items()}
            with self._watch:
                made = self._fn(*args, **named)
            self.results = Results(made, copies, tensors, self._call.objects)
            outputs = self.results.outputs
            self.results.drop_outputs()
        except Exception as error:
            # What it kept until then has values in the graph up to there.
            self._failure = CompileError(str(error)) if isinstance(error, Unfit) else error
            _clear(error)
        self._count = len(outputs)
        self._given = {id(tensor): place for place, tensor in enumerate(tensors)}
        left = {id(tensor): tensor for tensor in self._watch.left()}
        known = {id(output) for output in outputs}
        others = [tensor for key, tensor in left.items() if key not in self._given and key not in known]
        given_out = (*outputs, *others)
        self._output = {id(tensor): i for i, tensor in enumerate(given_out)}
        is_single = self.results is not None and self.results.is_single
        return given_out[0] if is_single and not others else given_out

    def _make_real(self, gm: GraphModule, kept: list[torch.Tensor]) -> None:
        """Gives tensors that outlive the trace what they are for these arguments."""
        undone = Undone()
        symbols = [self._call.numbers[i] for i in self.taken]
        try:
            with torch.no_grad(), undone:
                made = gm(*self._call.tensors, *symbols)
        except Exception as error:
            raise Untraceable(error) from error
        finally:
            undone.undo()
        outputs = made if isinstance(made, tuple) else (made,)
        values = [
            self._call.tensors[self._given[id(one)]] if id(one) in self._given else outputs[self._output[id(one)]]
            for one in kept
        ]
        fill(kept, values)

    def _drop_left(self, gm: GraphModule) -> None:
        """Takes tensors that were left when the function ended, but are gone now, out of the graph."""
        output = next(iter(reversed(gm.graph.nodes)))
        given = output.args[0]
        if not isinstance(given, tuple) or len(given) == self._count:
            return
        assert self.results is not None
        output.args = (given[0] if self.results.is_single else given[: self._count],)
        gm.graph.eliminate_dead_code()


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """Has ``torch.compiler.is_compiling()`` say so: libraries that look at elements of tensors do not, then."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


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
