"""Calls of kernels on tensors: one Python function for each part of a graph, written out for its tensors.

A call reads sizes and addresses, makes its results and launches; all else is known when the function is written. A result
that overwrites a part of a tensor is that tensor, or a copy of it where kernels could not read it as it lies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _native
from ._record import Made, Record
from ._short import empty_strided

_numbers = itertools.count()

Function = Callable[..., Any]

#: Bytes that addresses on a GPU are multiples of, where kernels read them as vectors.
_VECTOR = 16


def function(record: Record, kernel: _native.Kernel) -> Function:
    """What runs a part: takes tensors and integers as the record says, gives a tensor or a tuple of several."""
    launch = _launch(record, kernel)
    return _written(record, {"launch": kernel.launch, **launch[1]}, launch[0])


def shapes(record: Record) -> Function:
    """What gives the tensors of a call without their elements, also of symbolic sizes."""

    def empty(sizes: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=record.lies())

    return _written(record, {"empty": empty}, None)


def symbols(record: Record) -> Callable[..., dict[str, int]]:
    """What gives the values of the symbols for the tensors and integers of a call."""
    parameters = [*(f"a{i}" for i in range(record.inputs)), *(f"n{i}" for i in range(record.sizes))]
    values = ", ".join(f"{name!r}: {source}" for name, source in record.symbols)
    scope: dict[str, Any] = {}
    exec(f"def values({', '.join(parameters)}): return {{{values}}}", scope)
    made: Callable[..., dict[str, int]] = scope["values"]
    return made


def _written(record: Record, scope: dict[str, Any], launch: str | None) -> Function:
    inputs = [f"a{i}" for i in range(record.inputs)]
    name = f"fused_{next(_numbers)}"
    parameters = [*inputs, *(f"n{i}" for i in range(record.sizes))]
    lines = [f"{symbol} = {source}" for symbol, source in record.symbols]
    if launch is not None:
        # A number of the host is filled in, which waits for nothing and may be captured.
        lines += [f"a{i} = full((), a{i}.item(), dtype={t}, device=device)" for i, t in record.scalars]
        lines += [f"a{i} = a{i}.permute({_tuple(map(str, order))})" for i, order in record.orders]
        lines += [_in_order(a, record.lies()) for a in inputs]
    outputs = [f"o{i}" for i in range(len(record.outputs))]
    lines += [f"{name} = {_memory(made)}" for name, made in zip(outputs, record.outputs, strict=True)]
    if launch is not None:
        lines.append(launch)
    lines.append(f"return {outputs[0] if len(outputs) == 1 else ', '.join(outputs)}")
    if "exchange" in scope:
        # Memory is allocated on the current device, which other calls of the thread go on with.
        device = record.device
        restored = ["finally:", f"    if before != {device}: restore(before)"]
        lines = [f"before = exchange({device})", "try:", *(f"    {line}" for line in lines), *restored]
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    dtypes = {*(made.dtype for made in record.outputs), *(dtype for _, dtype in record.scalars)}
    known = {"empty": _empty(record), "full": torch.full, "device": record.lies()}
    scope = {**known, **{dtype: getattr(torch, dtype) for dtype in dtypes}, **scope}
    exec(compile(source, f"<fusewright {name}>", "exec"), scope)
    made: Function = scope.pop(name)
    made.__module__, made.__doc__ = "fusewright", source
    # Results that are memory of an argument.
    made.overwrites = any(output.overwrites is not None for output in record.outputs)  # type: ignore[attr-defined]
    return made


def _in_order(tensor: str, device: torch.device) -> str:
    """The statement that copies a tensor where kernels could not read it as it lies."""
    if device.type == "cpu":
        return f"if not {tensor}.is_contiguous(): {tensor} = {tensor}.contiguous()"
    # Threads of a GPU read vectors; what begins elsewhere than an allocation may not.
    bad = f"not {tensor}.is_contiguous() or {tensor}.data_ptr() % {_VECTOR}"
    return f"if {bad}: {tensor} = {tensor}.contiguous() if not {tensor}.is_contiguous() else {tensor}.clone()"


def _memory(made: Made) -> str:
    if made.overwrites is not None:
        return f"a{made.overwrites}.as_strided({_tuple(made.shape)}, {_tuple(made.strides)})"
    return f"empty({_tuple(made.shape)}, {_tuple(made.strides)}, {made.dtype})"


def _launch(record: Record, kernel: _native.Kernel) -> tuple[str, dict[str, Any]]:
    """The statement that launches, and what it names."""
    tensors = [*(f"a{i}" for i in range(record.inputs)), *(f"o{i}" for i in range(len(record.outputs)))]
    sizes, addresses = _tuple(kernel.symbols), _tuple(f"{tensor}.data_ptr()" for tensor in tensors)
    device = record.lies()
    if device.type == "cpu":
        return f"launch({sizes}, {addresses}, {record.threads or torch.get_num_threads()})", {}
    # The framework's stream, on which its allocator orders what is freed.
    scope: dict[str, Any] = {"stream": torch._C._cuda_getCurrentRawStream}
    stream = f"stream({device.index})"
    if torch.cuda.device_count() > 1:
        scope |= {"exchange": torch._C._cuda_exchangeDevice, "restore": torch._C._cuda_maybeExchangeDevice}
    if kernel.launches == 1:
        return f"launch({sizes}, {addresses}, 1, {stream})", scope
    # Memory between kernels is the framework's too, so that its graphs and its accounts know it.
    temporary = f"t = empty((scratch({sizes}),), (1,), uint8)"
    scope |= {"scratch": kernel.scratch, "uint8": torch.uint8}
    return f"{temporary}; launch({sizes}, {addresses}, 1, {stream}, t.data_ptr())", scope


def _tuple(items: Iterable[str]) -> str:
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _empty(record: Record) -> Function:
    """Gives what makes a tensor of sizes, strides and dtype."""
    device = record.lies()

    def empty(sizes: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)

    return empty_strided(device) or empty
