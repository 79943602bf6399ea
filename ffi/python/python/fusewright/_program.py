"""Exported models that run without torch: a file in, a function of arrays out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from . import _native
from ._arrays import Memory, TensorSpec, check_fit, is_array, is_torch, memory, spec, wrapped
from ._kernel import Kernel, threads_of
from ._native import CallError, CompileError
from ._program_report import ProgramReport
from ._progress import Line

#: Arrays for the inputs: in order, or by name.
Inputs = Sequence[Any] | Mapping[str, Any]


def load(
    path: str | os.PathLike[str],
    *,
    target: str = "cpu",
    device: int = 0,
    mode: str = "exact",
    pipeline: str | os.PathLike[str] | None = None,
    weights: Mapping[str, Any] | Literal["arguments"] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Program:
    """Compiles the graph in a file: one of ``torch.export.save``, or the text form under the ending ``.fw``.

    ``target`` is what the command line takes as ``--target``; ``device`` is the number of the GPU. ``mode`` and ``pipeline``
    are the options of the backend. ``weights`` are arrays by name that take the place of the file's; ``"arguments"`` makes
    all weights inputs of each call. Weights without data in the file are inputs in any case. ``threads`` are those of a call
    on the CPU. ``progress`` says on standard error which kernel is being compiled: on a terminal if not given, else always
    or never.

    Raises ``CompileError`` for a file that cannot be read, holds no graph, or holds one that cannot be run, and
    ``UnavailableError`` for a target that is not here.
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes) or not os.fspath(path):
        raise CompileError(f"`path` is {path!r}; it must be the path of a file, as text")
    if not isinstance(target, str):
        raise CompileError(f"`target` is {target!r}; it must be a text such as 'cpu'")
    if isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < 2**16:
        raise CompileError(f"`device` is {device!r}; it must be the number of a GPU, from 0")
    if weights is not None and weights != "arguments" and not isinstance(weights, Mapping):
        raise CompileError(f'`weights` is {weights!r}, neither a dictionary nor "arguments"')
    try:
        threads_of(threads)
    except CallError as error:
        raise CompileError(str(error)) from None
    chosen = dict(weights) if isinstance(weights, Mapping) else {}
    with Line(progress) as line:
        made = _native.load(
            os.fspath(path),
            target,
            mode=mode,
            pipeline=pipeline,
            device=device,
            given=None if weights == "arguments" else list(chosen),
            progress=line.begins if line.speaks else None,
        )
    if made.warning is not None:
        warnings.warn(f"fusewright: {made.warning}", stacklevel=2)
    return Program(made, chosen, threads)


class State:
    """The buffers that a model updates, such as caches, for one sequence of calls: arrays by name."""

    def __init__(self, made: _native.State, buffers: Mapping[str, TensorSpec]) -> None:
        self._made, self._buffers = made, buffers

    def __getitem__(self, name: str) -> Any:
        """A copy of a buffer as an array of NumPy's."""
        found = self._made.get(name)
        if found is None:
            raise KeyError(name)
        return wrapped(found, as_torch=False)

    def __setitem__(self, name: str, value: Any) -> None:
        """Gives a buffer another value of the same dtype and shape."""
        if name not in self._buffers:
            raise CallError(f"the program updates no buffer `{name}`")
        self._made.set(name, memory(value, self._buffers[name], role="buffer").lent())

    def __iter__(self) -> Iterator[str]:
        return iter(self._made.names)

    def __len__(self) -> int:
        return len(self._made.names)

    def keys(self) -> list[str]:
        """Names of the buffers."""
        return self._made.names

    def __repr__(self) -> str:
        return f"State({', '.join(map(str, self._buffers.values()))})"


class Program:
    """A compiled model: a function of arrays. :func:`fusewright.load` makes one.

    ``program(x, y)`` and ``program(x=x, y=y)`` give the model's result, or a tuple of several. Inputs that the model
    overwrites are overwritten; buffers that it updates are kept in :attr:`state` from call to call.
    """

    def __init__(self, made: _native.Program, weights: Mapping[str, Any], threads: int | None) -> None:
        self._made, self._threads = made, threads
        every = tuple(
            spec(name, dtype, shape, weight=weight, updates=name if updated else None)
            for name, dtype, shape, weight, updated in made.inputs
        )
        #: By name, the weights that were given once.
        self._weights: dict[str, Memory] = {
            wanted.name: memory(weights[wanted.name], wanted, written=wanted.updates is not None, role="weight")
            for wanted in every
            if wanted.name in weights
        }
        for wanted in every:
            if (given := self._weights.get(wanted.name)) is not None:
                check_fit(given.dtype, given.shape, wanted, "weight")
        self._every = every
        self.inputs: tuple[TensorSpec, ...] = tuple(wanted for wanted in every if wanted.name not in self._weights)
        self.outputs: tuple[TensorSpec, ...] = tuple(
            spec(name, dtype, shape, updates=updates) for name, dtype, shape, updates in made.outputs
        )
        self._buffers = {name: spec(name, dtype, shape) for name, dtype, shape in made.buffers}
        self.state: State | None = self.new_state()

    @property
    def name(self) -> str:
        """Name of the file."""
        return self._made.title

    @property
    def target(self) -> str:
        """What it was compiled for."""
        return self._made.target

    @property
    def symbols(self) -> dict[str, tuple[int, int | None]]:
        """The sizes that calls may choose, each with its least and its greatest value, ``None`` where there is none."""
        return {name: (least, most) for name, least, most in self._made.symbols}

    @property
    def counts(self) -> dict[str, int]:
        """Steps of a call: ``kernels``, ``matmuls``, ``attentions``, ``references`` and ``copies``."""
        return self._made.counts

    @property
    def kernels(self) -> list[Kernel]:
        """The generated kernels in the order of a call, each as often as it occurs."""
        facts = zip(self._made.regions, self._made.parts(), strict=True)
        return [
            Kernel(name, tuple(ops), tuple(sources), fused, unfused, 1, part)
            for (name, ops, sources, fused, unfused, _), part in facts
        ]

    def new_state(self) -> State | None:
        """Buffers with the values of the file, for another sequence of calls; ``None`` if the model updates none."""
        made = self._made.state()
        return None if made is None else State(made, self._buffers)

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Runs the program on arrays, in the order of :attr:`inputs` or by name; weights are given by name.

        Raises ``CallError`` for arrays that do not fit, by the name of the input.
        """
        results = self._run(self._by_name(arrays, named), self.state, True, None)
        returned = [results[output.name] for output in self.outputs if output.updates is None]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def run(
        self, inputs: Inputs, *, state: State | None = None, in_place: bool = True, threads: int | None = None
    ) -> dict[str, Any]:
        """Runs the program on arrays in order or by name, and gives the results by name.

        ``state`` are the buffers of another sequence of calls, the program's own if not given. Without ``in_place`` nothing
        is overwritten, neither inputs nor buffers: the new value of ``x`` is the result ``new_x``. Raises as a call does.
        """
        if is_array(inputs) or not isinstance(inputs, (Mapping, Sequence)):
            raise CallError(f"`inputs` is neither a list nor a dictionary of arrays but {type(inputs).__name__}")
        if state is not None and not isinstance(state, State):
            raise CallError(f"`state` is {state!r}; it must be what `new_state` gives")
        if not isinstance(in_place, bool):
            raise CallError(f"`in_place` is {in_place!r}, neither True nor False")
        given = inputs if isinstance(inputs, Mapping) else self._by_name(tuple(inputs), {})
        chosen = (self.state if state is None else state) if in_place else None
        return self._run(dict(given), chosen, in_place, threads)

    def explain(self) -> ProgramReport:
        """What was fused, and what was not and why."""
        return ProgramReport.of(self._made, self.kernels)

    def promote(self) -> None:
        """Makes the best code there is of every kernel now, rather than behind later calls."""
        self._made.promote()

    def _by_name(self, arrays: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        names = [wanted.name for wanted in self.inputs if not wanted.weight]
        if len(arrays) > len(names):
            raise CallError(f"`{self.name}` takes {len(names)} inputs ({', '.join(names)}), got {len(arrays)}")
        given = dict(zip(names, arrays))
        for name in named:
            if name in given:
                raise CallError(f"input `{name}` is given twice, by place and by name")
        return {**given, **named}

    def _run(self, given: dict[str, Any], state: State | None, in_place: bool, threads: int | None) -> dict[str, Any]:
        names = [wanted.name for wanted in self.inputs]
        for name in given:
            if name not in names:
                known = ", ".join(f"`{name}`" for name in names) or "none"
                is_weight = name in self._made.weights
                more = '; it is a weight, which `load(…, weights="arguments")` makes an input' if is_weight else ""
                raise CallError(f"`{self.name}` has no input `{name}`; there is {known}{more}")
        arrays: list[Memory] = []
        overwritten: list[int] = []
        for i, wanted in enumerate(self._every):
            written = in_place and wanted.updates is not None
            if written:
                overwritten.append(i)
            if (weight := self._weights.get(wanted.name)) is not None:
                arrays.append(weight)
                continue
            if wanted.name not in given:
                kind = "weight" if wanted.weight else "input"
                raise CallError(f"{kind} `{wanted.name}` is missing: it is {wanted.type()}")
            array = memory(given[wanted.name], wanted, written=written)
            check_fit(array.dtype, array.shape, wanted, "input")
            arrays.append(array)
        results = self._made.run(
            [array.lent() for array in arrays],
            overwritten,
            None if state is None else state._made,
            threads_of(self._threads if threads is None else threads),
        )
        as_torch = any(map(is_torch, given.values()))
        return {
            output.name: wrapped(result, as_torch)
            for output, result in zip(self.outputs, results, strict=True)
            if result is not None
        }

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<fusewright.Program {self.name} for {self.target}: ({inputs}) -> ({outputs})>"

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return self.explain()._repr_html_()
