"""One generated kernel: what it takes and gives, what it was made of, its code, and its calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _native
from ._arrays import (
    Memory,
    TensorSpec,
    bytes_of,
    check_fit,
    check_layout,
    dtype_of,
    empty,
    is_array,
    is_torch,
    memory,
    spec,
    torch_dtype,
    torch_if_used,
)
from ._native import CallError

#: Threads of a launch at most.
MOST_THREADS = 1024


@dataclass(frozen=True)
class Kernel:
    """A generated kernel of a program or of a model that was explained.

    Calling it with one array for each of :attr:`inputs` gives its results: ``kernel(x, y)``.
    """

    #: Name of the pattern that it computes, or of the kind of fusion.
    name: str
    #: Names of the operators that it computes, in order.
    ops: tuple[str, ...]
    #: Lines of the model that these came from, each once.
    sources: tuple[str, ...]
    #: Bytes that it moves, and that its operators would move with a kernel for each, at the sizes of the report; ``None``
    #: if not counted.
    bytes_fused: int | None
    bytes_unfused: int | None
    #: How many kernels of the report are equal to it.
    times: int = 1
    _region: _native.Region | None = field(default=None, repr=False, compare=False)
    #: What was made of the region so far.
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def saved(self) -> float | None:
        """By how much more memory its operators would move one by one; ``None`` also of a copy, which nothing moves twice."""
        if not self.bytes_fused or not self.bytes_unfused:
            return None
        return self.bytes_unfused / self.bytes_fused

    @property
    def target(self) -> str:
        """What it was compiled for."""
        return self._known().target

    @property
    def symbols(self) -> dict[str, tuple[int, int | None]]:
        """The symbols of its shapes, each with its least and its greatest value, ``None`` where there is none."""
        return {name: (least, most) for name, least, most in self._known().symbols}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """What it reads, in the order of a call."""
        return tuple(spec(*facts) for facts in self._known().inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What it writes, in order."""
        return tuple(spec(*facts) for facts in self._known().outputs)

    @property
    def stages(self) -> dict[str, str | bytes]:
        """The forms of its code in the order of compilation.

        ``body`` is the graph in primitives, ``lowered`` and ``expanded`` are Kernel IR, and behind these are the forms of the
        target: ``clif`` and ``bin`` of Cranelift, ``ll`` and ``ptx`` of LLVM for a GPU. Machine code is ``bytes``. Raises
        ``fusewright.Error`` where the target is not here.
        """
        if "stages" not in self._made:
            self._made["stages"] = {name: _text(form) for name, form in self._known().stages()}
        stages: dict[str, str | bytes] = self._made["stages"]
        return dict(stages)

    def __call__(self, *arrays: Any, threads: int | None = None) -> Any:
        """Runs the kernel on one array for each of :attr:`inputs`, and gives a new array, or a tuple of several.

        An output that the kernel writes where an input lies is that input. Arrays lie on the device of :attr:`target`. Raises
        ``CallError`` for arrays that do not fit, ``CompileError`` for a kernel that cannot be called by itself.
        """
        results = _Launch(self, arrays, None, threads).results
        return results[0] if len(results) == 1 else tuple(results)

    def launch(self, inputs: Sequence[Any], outputs: Sequence[Any], *, threads: int | None = None) -> None:
        """Runs the kernel and writes its results to arrays of the caller: one for each of :attr:`outputs`.

        Raises as a call does.
        """
        for role, given in (("inputs", inputs), ("outputs", outputs)):
            if is_array(given) or not isinstance(given, Sequence):
                raise CallError(f"`{role}` of kernel `{self.name}` is no list of arrays but {type(given).__name__}")
        _Launch(self, inputs, outputs, threads)

    def _known(self) -> _native.Region:
        if self._region is None:
            raise CallError(f"kernel `{self.name}` is a record without code")
        return self._region

    def _compiled(self) -> _native.Kernel:
        if "kernel" not in self._made:
            self._made["kernel"] = self._known().compile()
        kernel: _native.Kernel = self._made["kernel"]
        return kernel


def _text(form: bytes) -> str | bytes:
    try:
        text = form.decode()
    except UnicodeDecodeError:
        return form
    # Machine code may happen to be text.
    return text if text.isprintable() or all(c.isprintable() or c in "\n\t\r" for c in text) else form


def threads_of(threads: int | None) -> int:
    """The threads of a launch on the CPU: as given, else PyTorch's number, else one for each processor of this process."""
    if threads is not None:
        if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
            raise CallError(f"`threads` is {threads!r}; it must be a number from 1 to {MOST_THREADS}")
        return threads
    torch = torch_if_used()
    if torch is not None and hasattr(torch, "get_num_threads"):
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Launch:
    """One launch: its arrays, and its results."""

    def __init__(
        self, kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any] | None, threads: int | None
    ) -> None:
        self.kernel, self.code = kernel, kernel._compiled()
        self.inputs, self.wanted = list(inputs), kernel.inputs
        if len(self.inputs) != len(self.wanted):
            names = ", ".join(map(str, self.wanted))
            raise CallError(f"kernel `{kernel.name}` takes {len(self.wanted)} arrays ({names}), got {len(self.inputs)}")
        if outputs is not None and len(outputs) != len(self.code.outputs):
            raise CallError(f"kernel `{kernel.name}` has {len(self.code.outputs)} outputs, got {len(outputs)} arrays")
        #: The arrays that results are written to, if the caller brings them.
        self.given = None if outputs is None else list(outputs)
        self.results: list[Any] = []
        if self.code.device is None:
            self._on_host(threads_of(threads))
        else:
            self._on_gpu(self.code.device)

    def _on_host(self, threads: int) -> None:
        overwritten = {i for i in self.code.overwrites if i is not None}
        reads = [
            memory(array, wanted, written=i in overwritten)
            for i, (array, wanted) in enumerate(zip(self.inputs, self.wanted, strict=True))
        ]
        for read, wanted in zip(reads, self.wanted, strict=True):
            check_fit(read.dtype, read.shape, wanted, "input")
        sizes = self.code.bind([(read.dtype, list(read.shape)) for read in reads])
        as_torch = any(map(is_torch, self.inputs))
        writes: list[Memory] = []
        for i, extents in enumerate(self.code.shapes(sizes)):
            dtype, _, order = self.code.outputs[i]
            shape, overwrites = tuple(extents), self.code.overwrites[i]
            if overwrites is not None:
                writes.append(reads[overwrites])
                result = self._same(i, overwrites)
            elif self.given is not None:
                result = self.given[i]
                writes.append(self._written(i, dtype, shape, order))
            else:
                stored, address = empty(dtype, tuple(shape[axis] for axis in order), as_torch)
                writes.append(Memory(dtype, shape, address, stored))
                result = _turned(stored, order)
            self.results.append(result)
        self._keep_apart([_span_of(read) for read in reads], [_span_of(write) for write in writes])
        self.code.launch(tuple(sizes), tuple(array.address for array in (*reads, *writes)), threads)

    def _keep_apart(self, reads: Sequence[range], writes: Sequence[range]) -> None:
        """Refuses arrays of the caller of which a part is written as something else.

        An output may lie where an input lies, whole: rows are read before they are written.
        """
        if self.given is None:
            return
        for i, written in enumerate(writes):
            for name, other in zip((wanted.name for wanted in self.wanted), reads, strict=True):
                if written != other and _meet(written, other):
                    raise CallError(f"output `out{i}` overlaps a part of input `{name}`")
            for j, other in enumerate(writes[:i]):
                if _meet(written, other):
                    raise CallError(f"outputs `out{j}` and `out{i}` overlap")

    def _same(self, output: int, input: int) -> Any:
        """What an output is that the kernel writes where an input lies."""
        if self.given is not None and self.given[output] is not self.inputs[input]:
            names = f"output {output} overwrites input `{self.wanted[input].name}`"
            raise CallError(f"{names}, and is another array")
        return self.inputs[input]

    def _written(self, i: int, dtype: str, shape: tuple[int, ...], order: list[int]) -> Memory:
        assert self.given is not None
        wanted = TensorSpec(f"out{i}", dtype, shape)
        array = memory(self.given[i], wanted, written=True, role="output")
        _check(wanted, array.dtype, array.shape, order)
        return array

    def _on_gpu(self, device: int) -> None:
        import torch

        if not all(is_torch(tensor) for tensor in (*self.inputs, *(self.given or ()))):
            raise CallError(f"kernel `{self.kernel.name}` runs on a GPU, where it takes tensors of torch")
        on = torch.device("cuda", device)
        for tensor, wanted in zip(self.inputs, self.wanted, strict=True):
            check_layout(tensor, f"input `{wanted.name}`")
        reads = [tensor.detach().contiguous() for tensor in self.inputs]
        given = [
            (dtype_of(tensor, f"input `{wanted.name}`"), list(tensor.shape))
            for tensor, wanted in zip(reads, self.wanted, strict=True)
        ]
        for (dtype, extents), wanted in zip(given, self.wanted, strict=True):
            check_fit(dtype, tuple(extents), wanted, "input")
        sizes = self.code.bind(given)
        writes: list[Any] = []
        for i, extents in enumerate(self.code.shapes(sizes)):
            dtype, _, order = self.code.outputs[i]
            overwrites = self.code.overwrites[i]
            if overwrites is not None:
                if reads[overwrites].data_ptr() != self.inputs[overwrites].data_ptr():
                    name = self.wanted[overwrites].name
                    raise CallError(f"input `{name}` is overwritten, and is not in row-major order without gaps")
                writes.append(reads[overwrites])
                self.results.append(self._same(i, overwrites))
            elif self.given is not None:
                output, wanted = self.given[i], TensorSpec(f"out{i}", dtype, tuple(extents))
                _check(wanted, dtype_of(output, f"output `out{i}`"), tuple(output.shape), order)
                writes.append(output)
                self.results.append(output)
            else:
                shape = [extents[axis] for axis in order]
                stored = torch.empty(shape, dtype=torch_dtype(dtype), device=on)
                writes.append(stored)
                self.results.append(_turned(stored, order))
        self._keep_apart([_span_on_gpu(read) for read in reads], [_span_on_gpu(write) for write in writes])
        scratch = torch.empty(self.code.scratch(sizes), dtype=torch.uint8, device=on)
        stream = torch.cuda.current_stream(on).cuda_stream
        self.code.call(reads, writes, stream=stream, scratch=scratch.data_ptr())


def _span_of(array: Memory) -> range:
    """The addresses of an array's bytes."""
    return range(array.address, array.address + bytes_of(array.dtype, array.shape))


def _span_on_gpu(tensor: Any) -> range:
    return range(tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size())


def _meet(a: range, b: range) -> bool:
    return max(a.start, b.start) < min(a.stop, b.stop)


def _check(wanted: TensorSpec, dtype: str, shape: tuple[int, ...], order: list[int]) -> None:
    """Refuses an array of the caller that is not what an output is."""
    if order != sorted(order):
        raise CallError(f"output `{wanted.name}` is stored in another order of its axes; leave it to a call to make it")
    if (dtype, shape) != (wanted.dtype, wanted.shape):
        got = TensorSpec("", dtype, shape).type()
        raise CallError(f"output `{wanted.name}` is {wanted.type()}, got {got}")


def _turned(stored: Any, order: list[int]) -> Any:
    """An array whose axes were stored in an order, with its axes as they are."""
    if order == sorted(order):
        return stored
    back = [order.index(axis) for axis in range(len(order))]
    return stored.permute(back) if is_torch(stored) else stored.transpose(back)
