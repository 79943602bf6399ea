"""What calls of the operator run: parts of graphs, known by the text that their calls carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from . import _operator as _operator
from . import _store
from ._call import Function, function, shapes
from ._fuse import Call
from ._native import CallError, Error
from ._nodes import is_scalar
from ._options import Options
from ._record import Record

#: By the text of a part: what runs it, what gives its shapes, and its record.
_functions: dict[str, Function] = {}
_shapes: dict[str, Function] = {}
_records: dict[str, Record] = {}


def register(record: Record, runs: Function) -> str:
    """Makes a part known to this process. Returns the text that its calls carry."""
    part = record.packed()
    if part not in _functions:
        _know(part, record, runs)
    return part


def _know(part: str, record: Record, runs: Function) -> None:
    _functions[part], _shapes[part], _records[part] = runs, shapes(record), record


def insert_operator(graph: Graph, made: Call, tensors: list[Node], sizes: list[Node]) -> Node:
    """A call of the operator, which carries the part."""
    part = register(made.record, made.function)
    return graph.call_function(torch.ops.fusewright.call.default, (tensors, sizes, part))


def _load(part: str) -> None:
    """Compiles a part of an earlier process, or takes it from the cache."""
    try:
        record = Record.unpacked(part)
        options = Options(mode=record.mode, pipeline=record.pipeline)
        attempt = _store.compiled(record.program.encode(), record.target, record.device, options)
    except (ValueError, Error) as error:
        raise Error(
            f"a call of a fused part cannot be used ({error}): clear the compiler's cache that has it"
        ) from error
    if attempt.kernel is None:
        reason = "; ".join(outside[2] for outside in attempt.outside) or "no reason is known"
        raise Error(
            f"no kernel computes a fused part of another version ({reason}): clear the compiler's cache that has it"
        )
    # Under the text of the call: another zlib packs the record to another one.
    _know(part, record, function(record, attempt.kernel))


def known(part: str) -> Function:
    """Gives the function of a part. Raises ``Error`` for a text that is none."""
    if part not in _functions:
        _load(part)
    return _functions[part]


def results(part: str) -> int:
    """How many tensors a known part gives."""
    return len(_records[part].outputs)


def called(inputs: Sequence[torch.Tensor], sizes: Sequence[int], part: str) -> list[torch.Tensor]:
    """Runs a part."""
    return _several(known(part)(*inputs, *sizes))


def called_shapes(inputs: Sequence[torch.Tensor], sizes: Sequence[Any], part: str) -> list[torch.Tensor]:
    """Gives tensors like those of a part, without values. Raises ``CallError`` for tensors of another device."""
    if part not in _shapes:
        _load(part)
    # Graphs are traced with these, so that their calls need not look again.
    record = _records[part]
    for i, tensor in enumerate(inputs):
        if tensor.device != record.lies() and not is_scalar(tensor):
            raise CallError(f"input {i} lies on {tensor.device}, the kernels run on {record.lies()}")
    return _several(_shapes[part](*inputs, *sizes))


def _several(results: Any) -> list[torch.Tensor]:
    return list(results) if type(results) is tuple else [results]
