"""The custom operator through which graphs of other compilers call fused parts.

There is one operator for all parts: it takes tensors, sizes and the key of a record. Records are kept as files beside the
kernel cache, so that code which a compiler keeps on disk finds its kernels in a later process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import _store
from ._call import Function, function, shapes
from ._native import CallError, Error
from ._nodes import is_scalar
from ._options import Options
from ._record import Record

_library = torch.library.Library("fusewright", "DEF")
_library.define(
    "call(Tensor[] inputs, SymInt[] sizes, str key) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order),
)

#: By key: what runs a part, what gives its shapes, and its record.
_functions: dict[str, Function] = {}
_shapes: dict[str, Function] = {}
_records: dict[str, Record] = {}


def folder() -> Path | None:
    """Where records are kept; ``None`` if the kernel cache is off."""
    chosen = os.environ.get("FUSEWRIGHT_CACHE_DIR")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen) / "records"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fusewright-records"


def register(record: Record, runs: Function) -> str:
    """Makes a part known under its key, in this process and, where there is a folder, in later ones."""
    key = record.key()
    if key not in _functions:
        _functions[key], _shapes[key], _records[key] = runs, shapes(record), record
        _keep(key, record)
    return key


def _keep(key: str, record: Record) -> None:
    place = folder()
    if place is None or (place / f"{key}.json").exists():
        return
    partial = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place, suffix=".partial", delete=False) as file:
            partial = file.name
            file.write(record.to_json())
        os.replace(partial, place / f"{key}.json")
    except OSError:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)
        # A folder that cannot be written costs later processes their compilers' caches, and this one nothing.
        return


def _load(key: str) -> None:
    """Compiles what an earlier process kept."""
    place = folder()
    path = None if place is None else place / f"{key}.json"
    if path is None or not path.exists():
        raise Error(f"no record of the fused part {key}: clear the compiler's cache that calls it")
    try:
        record = Record.from_json(path.read_text())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Error(f"{path} is damaged ({error}): remove it, and the compiler's cache that calls it") from error
    if record.key() != key:
        raise Error(f"{path} is the record of another part: remove it, and the compiler's cache that calls it")
    options = Options(mode=record.mode, pipeline=record.pipeline)
    attempt = _store.compiled(record.program.encode(), record.target, record.device, options)
    if attempt.kernel is None:
        raise Error(f"the fused part {key} is of another version: clear the compiler's cache that calls it")
    register(record, function(record, attempt.kernel))


def _call(inputs: Sequence[torch.Tensor], sizes: Sequence[int], key: str) -> list[torch.Tensor]:
    if key not in _functions:
        _load(key)
    return _several(_functions[key](*inputs, *sizes))


def _call_shapes(inputs: Sequence[torch.Tensor], sizes: Sequence[Any], key: str) -> list[torch.Tensor]:
    if key not in _shapes:
        _load(key)
    # Graphs are traced with these, so that their calls need not look again.
    record = _records[key]
    for i, tensor in enumerate(inputs):
        if tensor.device != record.lies() and not is_scalar(tensor):
            raise CallError(f"input {i} lies on {tensor.device}, the kernels run on {record.lies()}")
    return _several(_shapes[key](*inputs, *sizes))


def _several(results: Any) -> list[torch.Tensor]:
    return list(results) if type(results) is tuple else [results]


_library.impl("call", _call, "CompositeExplicitAutograd")
torch.library.register_fake("fusewright::call", _call_shapes, lib=_library)
