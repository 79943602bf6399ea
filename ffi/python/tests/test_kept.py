"""What PyTorch keeps on disk of compilations with fused parts runs in later processes, whatever became of our own cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fusewright
from fusewright import _backend

#: A function with two fused parts and a product between them, and what it is called with.
MODEL = """
import sys, torch, fusewright
torch.manual_seed(0)
weight = torch.randn(64, 64)

def model(x, y):
    a = torch.relu(x + y) * 2.0
    return torch.sigmoid(a @ weight + x) - 1.0

x, y = torch.randn(8, 64), torch.randn(8, 64)
want = model(x, y)
"""


def run(code: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]), **variables}
    done = subprocess.run([sys.executable, "-c", MODEL + code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


#: Our cache folder in a process that reads what another one kept.
LATER = {"kept": "ours", "emptied": "other", "off": "off"}


@pytest.fixture(params=["eager", "inductor"], scope="module")
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a compilation that was saved, and our cache."""
    folder = tmp_path_factory.mktemp(request.param)
    if not hasattr(torch._dynamo.config, "enable_aot_compile"):
        pytest.skip("skipped: aot_compile (this PyTorch has none)")
    code = f"""
with torch._dynamo.config.patch(enable_aot_compile=True):
    made = torch.compile(model, fullgraph=True, backend="fusewright", options={{"inner": {request.param!r}, "strict": True}})
    with torch.no_grad():
        made = made.aot_compile(((x, y), {{}}))
        assert torch.allclose(made(x, y), want)
made.save_compiled_function("{folder}/model.bin")
print(fusewright.counters()["calls"])
"""
    assert run(code, FUSEWRIGHT_CACHE_DIR=f"{folder}/ours") == "2"
    return folder


@pytest.mark.parametrize("later", LATER)
def test_what_aot_compile_saves_runs_in_a_later_process(later: str, saved: Path) -> None:
    code = f"""
with torch.compiler.set_stance("fail_on_recompile"), torch.no_grad():
    with open("{saved}/model.bin", "rb") as kept:
        made = torch.compiler.load_compiled_function(kept)
    # What vLLM asks of all that it reads.
    made._artifacts.compiled_fn.finalize_loading(None)
    assert torch.allclose(made(x, y), want)
print(fusewright.counters()["calls"])
"""
    ours = LATER[later]
    assert run(code, FUSEWRIGHT_CACHE_DIR=ours if ours == "off" else f"{saved}/{ours}") == "2"


@pytest.mark.parametrize(
    "changed", ["_sources.sources = lambda: 'another'", "os.environ['FUSEWRIGHT_INNER'] = 'inductor'"]
)
def test_what_another_version_or_setting_kept_is_refused_where_an_engine_asks(changed: str, saved: Path) -> None:
    code = f"""
import os
from fusewright import _compilation, _sources
{changed}
_compilation.sources = _sources.sources
with open("{saved}/model.bin", "rb") as kept, torch.no_grad():
    made = torch.compiler.load_compiled_function(kept)
    assert torch.allclose(made(x, y), want)
try:
    made._artifacts.compiled_fn.finalize_loading(None)
except fusewright.Error as error:
    print(error)
"""
    said = run(code, FUSEWRIGHT_CACHE_DIR=f"{saved}/ours")
    assert said == "another version or setting of fusewright compiled it"


def test_inductors_cache_is_read_in_later_processes(tmp_path: Path) -> None:
    code = """
from torch._dynamo.utils import counters
torch._inductor.config.post_grad_custom_post_pass = fusewright.inductor_pass(strict=True)
with torch.no_grad():
    assert torch.allclose(torch.compile(model)(x, y), want)
print(fusewright.counters()["calls"], counters["inductor"]["fxgraph_cache_hit"])
"""
    where = {"TORCHINDUCTOR_CACHE_DIR": f"{tmp_path}/inductor"}
    assert run(code, FUSEWRIGHT_CACHE_DIR=f"{tmp_path}/ours", **where) == "2 0"
    assert run(code, FUSEWRIGHT_CACHE_DIR=f"{tmp_path}/other", **where) == "2 1"
    assert run(code, FUSEWRIGHT_CACHE_DIR="off", **where) == "2 1"


def _aot(model, *given, **options):
    if not hasattr(torch._dynamo.config, "enable_aot_compile"):
        pytest.skip("skipped: aot_compile (this PyTorch has none)")
    with torch._dynamo.config.patch(enable_aot_compile=True):
        return torch.compile(model, fullgraph=True, backend=fusewright.backend, options=options).aot_compile(
            (given, {})
        )


def test_a_graph_that_is_trained_is_kept_unfused() -> None:
    x = torch.randn(8, 64, requires_grad=True)
    made = _aot(lambda x: torch.relu(x) * 2.0, x)
    made(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.where(x > 0, 2.0, 0.0))


def test_sizes_that_a_kept_graph_cannot_have_ready_are_told() -> None:
    x = torch.randn(8, 64)
    with torch.no_grad(), pytest.warns(UserWarning, match="makes no sizes ready of a graph that PyTorch keeps"):
        made = _aot(lambda x: torch.relu(x) * 2.0, x, capture_sizes=[8])
    with torch.no_grad():
        assert torch.equal(made(x), torch.relu(x) * 2.0)


def test_a_graph_is_kept_with_its_parts_alone_where_pytorch_asks_for_it() -> None:
    from torch._functorch import config

    assert not _backend.is_kept()
    with config.patch(bundled_autograd_cache=True):
        assert _backend.is_kept()
