"""Captures at given sizes: what a graph launches is recorded once and replayed.

On a GPU the pieces between splitting operators are recorded as CUDA graphs, one for each size. On the CPU there is nothing
to record: kernels get their best code before the first call instead of behind later ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module

from ._fuse import Result
from ._graph import value
from ._inplace import written
from ._nodes import is_scalar, is_splitting, tensors
from ._options import Options


class Recorder(Protocol):
    """Records what a function launches."""

    def __call__(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """What launches it again, and the results, which are in the same memory after each replay."""
        ...


def by_cuda(run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """The recorder of a GPU."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        # Libraries choose and allocate at their first calls, which may not be recorded.
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # The stream that PyTorch records on by default is of the GPU of the process's first graph.
    with torch.cuda.graph(graph, stream=side):
        made = run()
    return graph.replay, made


def prepared(gm: GraphModule, result: Result, options: Options) -> Callable[..., Any]:
    """The function of a fused graph, which has all it needs for calls at the sizes that the options name."""
    if not options.capture_sizes:
        return gm.forward
    for fusion in result.fusions:
        fusion.call.kernel.promote()
    on_gpu = any(tensor.device.type == "cuda" for node in gm.graph.nodes for tensor in tensors(value(node)))
    if not on_gpu:
        return gm.forward
    run = recorded(gm, options.capture_sizes, options.splitting_ops, by_cuda, strict=options.strict)

    def unless_captured(*given: Any) -> Any:
        # A graph of the caller's takes the launches as they are: graphs hold no graphs.
        return gm.forward(*given) if torch.cuda.is_current_stream_capturing() else run(*given)

    return unless_captured


def recorded(
    gm: GraphModule, sizes: Sequence[int], splitting: Sequence[str], recorder: Recorder, *, strict: bool = False
) -> Callable[..., Any]:
    """A graph whose pieces between splitting operators are recorded at sizes and replayed; at others it runs as it is.

    A piece that writes into a tensor of its caller, or has tensors on several devices, is never recorded; nor is one whose
    recording fails, which a warning says, or ``strict`` raises. Results are the caller's own.
    """
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    varying = _varying(placeholders)
    context = torch._guards.TracingContext.try_get()  # pyright: ignore[reportAttributeAccessIssue]
    metadata = None if context is None else context.fw_metadata
    fixed = {placeholders[i].name for i in (metadata.static_input_indices if metadata is not None else ())}
    whole, apart = _split(gm, splitting)
    pieces = []
    for node in whole.graph.nodes:
        if node.op == "call_module" and node.target not in apart:
            stays = [isinstance(arg, Node) and arg.op == "placeholder" and arg.name in fixed for arg in node.args]
            piece = whole.get_submodule(node.target)
            assert isinstance(piece, GraphModule)
            on = _device(piece)
            if on is None:
                continue
            pieces.append(_Piece(piece, stays, _Recording(recorder, on, strict)))
            setattr(whole, node.target, pieces[-1])

    def run(*given: Any) -> Any:
        values = {given[i] if axis is None else given[i].shape[axis] for i, axis in varying}
        if not values.issubset(sizes):
            return gm.forward(*given)
        places = set[int]()
        made = whole(*given)
        for piece in pieces:
            places |= piece.places
        # The next replay writes over what is in memory of a record.
        return tuple(_kept(result, places) for result in made)

    return run


def _varying(placeholders: Sequence[Node]) -> list[tuple[int, int | None]]:
    """Where the symbols of a graph are told: an integer among its inputs, or an axis of one."""
    found: dict[Any, tuple[int, int | None]] = {}
    for i, node in enumerate(placeholders):
        given = value(node)
        if isinstance(given, torch.SymInt):
            found.setdefault(given.node.expr, (i, None))
        elif isinstance(given, torch.Tensor):
            for axis, size in enumerate(given.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(size.node.expr, (i, axis))
    return list(found.values())


def _split(gm: GraphModule, splitting: Sequence[str]) -> tuple[GraphModule, set[str]]:
    """A graph of its pieces, and the names of those that are not recorded."""
    numbers, apart, number = dict[Node, int](), set[str](), 0
    for node in gm.graph.nodes:
        splits = is_splitting(node, splitting)
        number += splits
        numbers[node] = number
        # A record copies what a piece is given: a write into that would be lost.
        if splits or any(given.op == "placeholder" or numbers[given] != number for given in written(node)):
            apart.add(f"submod_{number}")
        number += splits
    whole = split_module(gm, None, numbers.__getitem__, keep_original_order=True)  # type: ignore[arg-type]
    return whole, apart


def _device(piece: GraphModule) -> torch.device | None:
    """Where all tensors of a piece lie, but for numbers of the host; ``None`` if they lie on several devices."""
    found = [tensor for node in piece.graph.nodes for tensor in tensors(value(node))]
    devices = {tensor.device for tensor in found if not is_scalar(tensor)} or {tensor.device for tensor in found}
    return devices.pop() if len(devices) == 1 else None


def _kept(result: Any, places: set[int]) -> Any:
    is_there = isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() in places
    return result.clone() if is_there else result


@dataclass(frozen=True)
class _Recording:
    """How pieces on a device are recorded."""

    recorder: Recorder
    device: torch.device
    strict: bool

    def of(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any] | None:
        """What replays a function, and its results; ``None`` where it cannot be recorded."""
        try:
            if self.device.type != "cuda":
                return self.recorder(run)
            with torch.cuda.device(self.device):
                return self.recorder(run)
        except Exception as error:
            if self.strict:
                raise
            warnings.warn(f"fusewright records no piece: {type(error).__name__}: {error}", stacklevel=2)
            return None

    def kind(self, arg: Any, stays: bool) -> Any:
        """What calls must have in common that one record serves."""
        if not isinstance(arg, torch.Tensor):
            return arg
        if is_scalar(arg) and self.device.type != "cpu":
            # A number of the host is in the record as it was.
            return arg.item(), arg.dtype
        return (arg.data_ptr(),) if stays else (tuple(arg.shape), arg.stride())


class _Piece(torch.nn.Module):
    """A piece of a graph, and its records by the extents that it was called with.

    ``stays`` says of each input whether it is a weight, which has the same address in all calls.
    """

    def __init__(self, run: torch.nn.Module, stays: Sequence[bool], recording: _Recording) -> None:
        super().__init__()
        self.run, self.stays, self.recording = run, stays, recording
        #: ``None`` where nothing can be recorded.
        self.records: dict[tuple[Any, ...], tuple[Callable[[], None], list[Any], Any] | None] = {}
        #: Where memory of records begins.
        self.places: set[int] = set()

    def forward(self, *given: Any) -> Any:
        key = tuple(map(self.recording.kind, given, self.stays))
        if key not in self.records:
            self.records[key] = self._record(given)
        found = self.records[key]
        if found is None:
            return self.run(*given)
        replay, own, made = found
        for mine, arg, stays in zip(own, given, self.stays, strict=True):
            if isinstance(arg, torch.Tensor) and not stays:
                mine.copy_(arg)
        replay()
        return made

    def _record(self, given: Sequence[Any]) -> tuple[Callable[[], None], list[Any], Any] | None:
        own = [
            arg.clone() if isinstance(arg, torch.Tensor) and not stays else arg
            for arg, stays in zip(given, self.stays, strict=True)
        ]
        recorded = self.recording.of(lambda: self.run(*own))
        if recorded is None:
            return None
        replay, made = recorded
        results = made if isinstance(made, tuple) else (made,)
        held = [arg for arg in (*own, *results) if isinstance(arg, torch.Tensor)]
        weights = {arg.untyped_storage().data_ptr() for arg, stays in zip(given, self.stays, strict=True) if stays}
        self.places |= {tensor.untyped_storage().data_ptr() for tensor in held} - weights
        return replay, own, made
