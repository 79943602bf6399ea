"""What ``python -m fusewright doctor`` adds to the report of the compiler: the interpreter and its packages.

No package is imported for it, so that one that does not import is reported like any other.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution, entry_points, requires
from importlib.util import find_spec
from pathlib import Path

from . import _native
from ._options import VARIABLES, WORDS
from .engines._contract import ENGINES, refusal

#: Subject, what was found, what it is used for; and where something is wrong what to do, and whether a variable asks for it.
Found = tuple[str, str, str, tuple[str, bool] | None]

#: The group of entry points by which each engine finds its plug-in.
_GROUPS = {"vllm": "vllm.general_plugins", "sglang": "sglang.srt.plugins"}


def found() -> list[Found]:
    """Findings about this interpreter."""
    options = (_option(name, variable) for name, variable in VARIABLES.items() if variable in os.environ)
    return [_interpreter(), _package(), _torch(), *options, *(_engine(name) for name in ENGINES)]


def report(json: bool = False) -> tuple[str, int]:
    """The whole report, as text or as JSON, and its exit status."""
    return _native.doctor(found(), json=json)


def _interpreter() -> Found:
    version = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable or 'embedded'}"
    return "python", version, "runs this report", None


def _package() -> Found:
    has = {"cuda": _native.HAS_CUDA, "llvm": _native.HAS_LLVM}
    without = [name for name, there in has.items() if not there]
    used = f"built without {', '.join(without)}" if without else "built with all compilers"
    return "package", str(Path(__file__).parent), used, None


def _torch() -> Found:
    try:
        version = distribution("torch").version
        spec = find_spec("torch")
    except (PackageNotFoundError, ImportError, ValueError):
        return "torch", "not installed", "`fuse`, `explain` and `torch.compile` need it", None
    path = Path(spec.origin).parent if spec is not None and spec.origin else None
    told = f"{version}, {path}"
    least = _least_torch()
    if path is None:
        return "torch", f"{version}, but no such package is found", "not used", ("install torch anew", False)
    if least is not None and _numbers(version) < _numbers(least):
        return "torch", told, "not used", (f"install torch {least} or later", False)
    return "torch", told, "its graphs are compiled", None


def _least_torch() -> str | None:
    """The oldest torch that this package says it takes."""
    try:
        stated = requires("fusewright") or []
    except PackageNotFoundError:
        return None
    matches = (re.match(r"torch\s*>=\s*([\d.]+)", text) for text in stated)
    return next((match[1] for match in matches if match), None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:2])


def _option(name: str, variable: str) -> Found:
    """A variable that gives an option where engines hand on none."""
    value = os.environ[variable]
    if not value or value in WORDS[name]:
        return variable, value or "empty", f"option `{name}` of `torch.compile`" if value else "not used", None
    remedy = f"set it to {' or '.join(WORDS[name])}, or unset it"
    return variable, value, "every compilation by `torch.compile` fails", (remedy, True)


def _engine(name: str) -> Found:
    """A plug-in: whether its engine is there, is one that it knows, and is asked to use it."""
    variable = f"FUSEWRIGHT_{name.upper()}"
    doors = os.environ.get(variable, "")
    plugged = any(point.name == "fusewright" for point in entry_points(group=_GROUPS[name]))
    try:
        version = distribution(ENGINES[name].package).version
    except PackageNotFoundError:
        problem = (f"install {ENGINES[name].package}, or unset {variable}", True) if doors else None
        return name, "not installed", "its plug-in does nothing", problem
    told = f"{version}, plug-in {'found' if plugged else 'not registered'}"
    if not doors:
        return name, told, f"its plug-in does nothing unless {variable} names doors", None
    reason = refusal(name) if plugged else "its plug-in is not registered: install the wheel of fusewright"
    if reason is not None:
        remedy = f"install {ENGINES[name].package} {ENGINES[name].pinned}, or unset {variable}"
        return name, told, f"stays unfused: {reason}", (remedy, True)
    return name, told, f"doors {doors} are opened, by {variable}", None
