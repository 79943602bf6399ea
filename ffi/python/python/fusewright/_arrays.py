"""Arrays of any library as memory, and memory as arrays again; nothing here imports a library that is not there already.

What comes in is a torch tensor, a NumPy array, an object that speaks DLPack or the buffer protocol. What goes out is a torch
tensor if one came in, else a NumPy array, or a ``memoryview`` where NumPy is not installed.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import _native
from ._native import CallError

#: Dtypes by the names that torch, NumPy and ml_dtypes have for them.
_NAMES = {
    "float64": "f64",
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "bool",
}
_LIBRARIES = {ours: theirs for theirs, ours in _NAMES.items()}
#: What NumPy by itself has no dtype for, and what holds its codes.
_CODES = {"bf16": "u16", "f8e4m3": "u8", "f8e5m2": "u8", "f8e8m0": "u8"}
#: Dtypes by the formats of the buffer protocol.
_FORMATS = {
    "d": "f64",
    "f": "f32",
    "e": "f16",
    "q": "i64",
    "l": "i64" if ctypes.sizeof(ctypes.c_long) == 8 else "i32",
    "i": "i32",
    "h": "i16",
    "b": "i8",
    "Q": "u64",
    "L": "u64" if ctypes.sizeof(ctypes.c_long) == 8 else "u32",
    "I": "u32",
    "H": "u16",
    "B": "u8",
    "?": "bool",
}
#: The formats that views of memory are cast to: those of whole numbers stand for what they have no format for.
_STRUCTS = {**{dtype: code for code, dtype in _FORMATS.items() if code not in "lL"}, "f16": "H"}


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a program or a kernel takes or gives.

    ``shape`` has a number for each axis, or a text where the extent depends on symbols: ``"s"``, ``"2*s"``.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    #: The input or buffer that it is the new value of; of an input its own name if calls overwrite it.
    updates: str | None = None
    #: Whether it is a weight of the model.
    weight: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.type()}"

    def type(self) -> str:
        """Dtype and shape, such as ``bf16[s, 64]``."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def spec(
    name: str, dtype: str, extents: Sequence[str], *, updates: str | None = None, weight: bool = False
) -> TensorSpec:
    """A tensor whose extents are texts."""
    shape = tuple(int(extent) if extent.isdecimal() else extent for extent in extents)
    return TensorSpec(name, dtype, shape, updates, weight)


@dataclass(frozen=True)
class Memory:
    """Elements in row-major order in memory of the host, which ``owner`` keeps."""

    dtype: str
    shape: tuple[int, ...]
    address: int
    owner: object

    def lent(self) -> tuple[str, list[int], int]:
        """As the native module takes it."""
        return (self.dtype, list(self.shape), self.address)


def torch_if_used() -> ModuleType | None:
    """PyTorch, if this process has imported it."""
    return sys.modules.get("torch")


def is_torch(value: object) -> bool:
    """Whether something is a tensor of PyTorch's."""
    torch = torch_if_used()
    # While it is being imported it has no tensors yet.
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_array(value: object) -> bool:
    """Says whether something is one array, which may look like a list of others."""
    return is_torch(value) or any(hasattr(value, name) for name in ("__array_interface__", "__dlpack__"))


def torch_dtype(dtype: str) -> Any:
    """The dtype of PyTorch's that is ours."""
    import torch

    return getattr(torch, _LIBRARIES[dtype])


def dtype_of(tensor: Any, what: str) -> str:
    """Our dtype of a tensor of PyTorch's. Raises ``CallError`` where there is none."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise CallError(f"{what} is {tensor.dtype}, which kernels have no elements of")
    return _NAMES[name]


def check_layout(tensor: Any, what: str) -> None:
    """Refuses a tensor of PyTorch's whose elements are not all in one piece of memory, such as a sparse one."""
    layout = str(tensor.layout).removeprefix("torch.")
    if layout != "strided" or tensor.is_nested:
        raise CallError(f"{what} is {'nested' if tensor.is_nested else layout}; it must be a dense tensor")


def check_fit(dtype: str, shape: tuple[int, ...], wanted: TensorSpec, role: str) -> None:
    """Refuses an array of another dtype or rank, or of another extent where that is a number."""
    fits = len(shape) == len(wanted.shape) and all(isinstance(e, str) or n == e for n, e in zip(shape, wanted.shape))
    if dtype != wanted.dtype or not fits:
        got = TensorSpec(wanted.name, dtype, shape)
        raise CallError(f"{role} `{wanted.name}` is {wanted.type()}, got {got.type()}")


def memory(value: Any, wanted: TensorSpec, *, written: bool = False, role: str = "input") -> Memory:
    """The memory of an array that is to be what ``wanted`` says: its own, or that of a copy in row-major order.

    ``written`` says that its own memory must be written to. Raises ``CallError``.
    """
    what = f"{role} `{wanted.name}`"
    if is_torch(value):
        found = _of_torch(value, what, written)
    elif hasattr(value, "__array_interface__"):
        found = _of_numpy(value, what, written)
    elif hasattr(value, "__dlpack__"):
        dtype, shape, address = _native.borrow(value, what)
        found = Memory(dtype, tuple(shape), address, value)
    else:
        found = _of_buffer(value, wanted, what, written)
    if _CODES.get(wanted.dtype) == found.dtype:
        return Memory(wanted.dtype, found.shape, found.address, found.owner)
    return found


def _of_torch(tensor: Any, what: str, written: bool) -> Memory:
    check_layout(tensor, what)
    if tensor.device.type != "cpu":
        raise CallError(f"{what} lies on {tensor.device}; it must lie on the host")
    if written and not tensor.is_contiguous():
        raise CallError(f"{what} is overwritten, and is not in row-major order without gaps")
    dtype = dtype_of(tensor, what)
    own = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return Memory(dtype, tuple(own.shape), own.data_ptr(), own)


def _of_numpy(given: Any, what: str, written: bool) -> Memory:
    import numpy

    array = numpy.asanyarray(given)
    name = array.dtype.name
    if name not in _NAMES:
        raise CallError(f"{what} is {name}, which kernels have no elements of")
    is_whole = array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
    if written and not (is_whole and array.flags.writeable):
        why = "cannot be written to" if is_whole else "is not in row-major order without gaps"
        raise CallError(f"{what} is overwritten, and {why}")
    if not is_whole:
        array = numpy.array(array, array.dtype.newbyteorder("="), order="C")
    return Memory(_NAMES[name], array.shape, array.__array_interface__["data"][0], array)


def _of_buffer(value: Any, wanted: TensorSpec, what: str, written: bool) -> Memory:
    try:
        view = memoryview(value)
    except TypeError:
        kind = type(value).__name__
        raise CallError(
            f"{what} is {wanted.type()}, got {kind}, which is no array: neither DLPack nor a buffer"
        ) from None
    dtype = _FORMATS.get(view.format.lstrip("@="))
    if dtype is None:
        raise CallError(f"{what} has elements of format {view.format!r}, which programs have none of")
    if written and (view.readonly or not view.c_contiguous):
        why = "cannot be written to" if view.readonly else "is not in row-major order without gaps"
        raise CallError(f"{what} is overwritten, and {why}")
    shape = tuple(view.shape or ())
    if view.nbytes == 0:
        return Memory(dtype, shape, 0, view)
    if view.readonly or not view.c_contiguous:
        held = (ctypes.c_ubyte * view.nbytes).from_buffer_copy(view.tobytes())
    else:
        held = (ctypes.c_ubyte * view.nbytes).from_buffer(view)
    return Memory(dtype, shape, ctypes.addressof(held), held)


def wrapped(array: _native.Array, as_torch: bool) -> Any:
    """A result as a tensor of PyTorch's, or else as an array of NumPy's, in the same memory."""
    return of_buffer(_buffer(array), array.dtype, tuple(array.shape), as_torch)


def empty(dtype: str, shape: tuple[int, ...], as_torch: bool) -> tuple[Any, int]:
    """A new array whose elements are undefined, and its address."""
    buffer = (ctypes.c_ubyte * bytes_of(dtype, shape))()
    return of_buffer(buffer, dtype, shape, as_torch), ctypes.addressof(buffer)


def of_buffer(buffer: Any, dtype: str, shape: tuple[int, ...], as_torch: bool) -> Any:
    """An array of a dtype in the memory of a buffer of bytes."""
    name = _LIBRARIES.get(dtype)
    if as_torch:
        import torch

        if len(buffer) == 0:
            return torch.empty(shape, dtype=torch.uint8 if name is None else torch_dtype(dtype))
        flat = torch.frombuffer(buffer, dtype=torch.uint8)
        # Elements of four bits are two of them a byte.
        return flat if name is None else flat.view(torch_dtype(dtype)).reshape(shape)
    try:
        import numpy
    except ImportError:
        code = _STRUCTS.get(_CODES.get(dtype, dtype), "B")
        bytes_alone: Any = memoryview(buffer).cast("B")
        # Views of nothing have no shape.
        return bytes_alone if name is None or len(buffer) == 0 else bytes_alone.cast(code, shape)
    if name is None:
        return numpy.frombuffer(buffer, numpy.uint8)
    return numpy.frombuffer(buffer, _numpy_dtype(dtype, name)).reshape(shape)


def _numpy_dtype(dtype: str, name: str) -> Any:
    import numpy

    if dtype not in _CODES:
        return numpy.dtype(name)
    try:
        import ml_dtypes  # pyright: ignore[reportMissingImports]

        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return numpy.dtype(_LIBRARIES[_CODES[dtype]])


def _buffer(array: _native.Array) -> Any:
    """The bytes of an array, which keep it."""
    buffer = (ctypes.c_ubyte * array.nbytes).from_address(array.address)
    buffer._fusewright_owner = array  # type: ignore[attr-defined]
    return buffer


def bytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of an array without gaps."""
    return math.prod(shape) * _bits(dtype) // 8


def _bits(dtype: str) -> int:
    """Bits of an element: the number in its name but for truth values and floats of 8 and 4 bits."""
    if dtype == "bool":
        return 8
    digits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits.partition("e")[0])
