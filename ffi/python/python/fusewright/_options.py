"""What a caller may choose, checked once."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from . import _native
from ._kernel import MOST_THREADS
from ._native import CompileError

#: Values of options that are words.
WORDS = {"mode": ("exact", "relaxed"), "inner": ("eager", "inductor")}
#: Modes of ``torch.compile``, which hands on a ``mode`` to any backend.
_MODES_OF_TORCH = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
#: Options that a variable gives where a caller does not: engines hand on none.
VARIABLES = {"inner": "FUSEWRIGHT_INNER", "mode": "FUSEWRIGHT_MODE"}
#: Options that only a backend of ``torch.compile`` has a use for.
OF_BACKEND = ("inner", "capture_sizes")


@dataclass(frozen=True)
class Options:
    """Options of a compilation.

    ``mode`` says whether every rounding of the graph is kept (``exact``) or intermediate ones may be dropped
    (``relaxed``). ``pipeline`` is a file that lists passes. ``inner`` is who runs what is not fused: PyTorch as it is, or
    Inductor. ``strict`` raises what otherwise leaves a graph unfused with a warning. ``threads`` are those of a launch on
    the CPU, PyTorch's own number if not given. ``splitting_ops`` are names of operators that no fused part has nodes on
    both sides of. ``capture_sizes`` are values of a graph's varying size at which everything is made before the first call.
    ``expect`` says how many kernels of a name a graph must have. ``progress`` says on standard error what is being compiled:
    on a terminal if it is not given, else always or never.
    """

    mode: str = "exact"
    pipeline: str | None = None
    inner: str = "eager"
    strict: bool = False
    threads: int | None = None
    splitting_ops: tuple[str, ...] = ()
    capture_sizes: tuple[int, ...] = ()
    expect: tuple[tuple[str, int], ...] = ()
    progress: bool | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any] | None = None, *, without: Sequence[str] = (), by: str = "") -> Options:
        """Options by their names, but for those that a way in, which is named ``by``, is ``without``.

        Raises ``CompileError`` for an unknown name or value.
        """
        given = dict(options or {})
        known = [field.name for field in fields(cls) if field.name not in without]
        for name in given:
            if name in without:
                raise CompileError(f"option `{name}` is of the backend of `torch.compile`; {by} has no use for it")
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                meant = f"; did you mean `{near[0]}`?" if near else ""
                raise CompileError(f"unknown option `{name}`; there are {', '.join(known)}{meant}")
        readers: dict[str, Callable[[str, Any], Any]] = {
            "pipeline": _file,
            "strict": _flag,
            "progress": _optional_flag,
            "threads": _threads,
            "splitting_ops": _operators,
            "capture_sizes": _sizes,
            "expect": _counts,
        }
        made = cls(**{name: readers.get(name, _same)(name, value) for name, value in given.items()})
        for name, words in WORDS.items():
            if (value := getattr(made, name)) not in words:
                more = "; modes of `torch.compile` are Inductor's" if value in _MODES_OF_TORCH else ""
                raise CompileError(f"option `{name}` is {value!r}, none of {', '.join(words)}{more}")
        if made.capture_sizes and made.inner == "inductor":
            raise CompileError("option `capture_sizes` is of `inner` eager; Inductor captures by its own options")
        return made

    def key(self) -> tuple[str, str | None, int]:
        """What changes the kernels: the mode, and the file of passes with the time of its last change."""
        changed = os.stat(self.pipeline).st_mtime_ns if self.pipeline else 0
        return (self.mode, self.pipeline, changed)


def of_environment() -> dict[str, str]:
    """The options that variables give. Raises ``CompileError`` for a value that is none, by the name of its variable."""
    found = {name: value for name, variable in VARIABLES.items() if (value := os.environ.get(variable))}
    for name, value in found.items():
        if value not in WORDS[name]:
            raise CompileError(f"{VARIABLES[name]} is {value!r}, none of {', '.join(WORDS[name])}")
    return found


def _same(_: str, value: Any) -> Any:
    return value


def _file(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise CompileError(f"option `{name}` is {value!r}, no file")
    path = str(os.fspath(value))
    try:
        with open(path, "rb"):
            return path
    except OSError as error:
        raise CompileError(f"option `{name}`: {path}: {error.strerror}") from error


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise CompileError(f"option `{name}` is {value!r}, neither True nor False")
    return value


def _optional_flag(name: str, value: Any) -> bool | None:
    return None if value is None else _flag(name, value)


def _threads(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if (threads := _positive(name, value)) > MOST_THREADS:
        raise CompileError(f"option `{name}` is {value!r}; it must be a number from 1 to {MOST_THREADS}")
    return threads


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CompileError(f"option `{name}` has {value!r}; it must be 1 or more")
    return value


def _several(name: str, value: Any) -> Iterable[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise CompileError(f"option `{name}` is {value!r}, no list")
    return value


def _operators(name: str, value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_operator(name, op) for op in _several(name, value)))


def _operator(name: str, op: Any) -> str:
    """An operator as ``namespace.name`` or ``namespace.name.overload``."""
    import torch

    text = str(op).replace("::", ".").removeprefix("torch.ops.")
    found: Any = torch.ops
    parts = text.split(".")
    for part in parts:
        found = getattr(found, part, None)
    if not isinstance(found, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        raise CompileError(f"option `{name}` has {str(op)!r}, and PyTorch knows no such operator")
    if parts[:2] == ["aten", "scaled_dot_product_attention"]:
        # Whose kernels count as it.
        return ".".join(parts[:2])
    if parts[0] == "aten" and not any(map(_is_in_graphs, _overloads(found))):
        raise CompileError(
            f"option `{name}` has {str(op)!r}, which PyTorch puts others in the place of before a graph is split: "
            "name one of those, which `explain` lists"
        )
    return text


def _overloads(found: Any) -> list[Any]:
    return [getattr(found, name) for name in found.overloads()] if hasattr(found, "overloads") else [found]


def _is_in_graphs(overload: Any) -> bool:
    """Whether graphs have an operator of ATen: it is not made of others, and what it writes is a caller's tensor at most."""
    import torch

    if overload is torch.ops.aten.copy_.default:
        return True
    has_kernel, name = torch._C._dispatch_has_kernel_for_dispatch_key, overload.name()
    try:
        is_made, *of_devices = (has_kernel(name, key) for key in ("CompositeImplicitAutograd", "CPU", "CUDA"))
    except RuntimeError:
        # TorchScript's alone.
        return False
    return (not is_made or any(of_devices)) and not overload._schema.is_mutable


def _sizes(name: str, value: Any) -> tuple[int, ...]:
    return tuple(sorted({_positive(name, size) for size in _several(name, value)}))


def _counts(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    pairs = value.items() if isinstance(value, Mapping) else value
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise CompileError(f"option `{name}` is {value!r}, no dictionary of names and counts")
    counts = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise CompileError(f"option `{name}` has {pair!r}, no name with a count")
        kernel, count = pair
        if not isinstance(kernel, str) or not _native.is_pattern(kernel):
            raise CompileError(f"option `{name}` has {kernel!r}, and no kernel has such a name")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise CompileError(f"option `{name}` has {count!r} for {kernel}, which is no count")
        counts.append((kernel, count))
    return tuple(counts)
