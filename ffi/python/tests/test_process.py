"""Processes and threads: forks, spawned children, threads, two models, shutdown, no torch, no compiler cache."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from models import AddNorm, steps_apart

import fusewright


def run(code: str, **environment: str) -> str:
    """What a fresh interpreter prints; it must end well and warn of nothing of ours."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__), **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "fusewright leaves" not in done.stderr
    return done.stdout


def computes(seed: int) -> bool:
    """Fuses a function of its own and compares, at sizes that take one thread and several; for children of this process."""
    factor = 1.0 + seed / 8.0
    # PyTorch's own threads do not come along into a fork.
    torch.set_num_threads(1)
    fused = fusewright.fuse(lambda x: torch.relu(x * factor) + 1.0, strict=True, threads=2)
    return all(torch.equal(fused(x), fused.fn(x)) for x in (torch.randn(rows, 512) for rows in (3, 5, 2000)))


def test_importing_needs_no_torch() -> None:
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("there is no torch")
sys.meta_path.insert(0, Absent())
import fusewright
print(fusewright.counters(), fusewright.__version__, issubclass(fusewright.CompileError, fusewright.Error))
try:
    fusewright.fuse
except ImportError as error:
    print("and", error)
"""
    printed = run(code)
    assert "'compiles': 0" in printed and "True\nand there is no torch" in printed


def test_importing_is_light() -> None:
    assert run("import sys, fusewright; print('torch' in sys.modules)").strip() == "False"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_compute(method: str) -> None:
    # The parent has kernels and threads of its own.
    assert computes(1)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert all(pool.map(computes, [1, 2, 3]))


def test_threads_compute_at_once() -> None:
    fused = fusewright.fuse(lambda x, y: torch.nn.functional.silu(x) * y, strict=True)
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for rows in (3, 64, 700, 5):
                x, y = torch.randn(rows, 128), torch.randn(rows, 128)
                if steps_apart(fused(x, y), fused.fn(x, y)) > 4 or not computes(seed):
                    wrong.append(rows)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_models_at_once() -> None:
    models = [AddNorm(256), AddNorm(64)]
    fused = [torch.compile(model, backend=fusewright.backend, options={"strict": True}) for model in models]
    with torch.no_grad():
        for _ in range(2):
            for model, own, hidden in zip(models, fused, (256, 64), strict=True):
                x = torch.randn(5, hidden).bfloat16()
                assert torch.equal(own(x, x)[1], model(x, x)[1])


def test_an_interpreter_ends_while_kernels_live() -> None:
    code = """
import torch, fusewright
fused = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True)
x = torch.randn(600, 512)
assert torch.equal(fused(x), fused.fn(x))
import atexit
atexit.register(lambda: fused(x))
print("done")
"""
    assert run(code).strip() == "done"


def test_the_pass_has_a_stable_name() -> None:
    code = "import fusewright; print(fusewright.inductor_pass(mode='relaxed').uuid())"
    assert run(code) == run(code) != run(code.replace("relaxed", "exact"))
    own = fusewright.inductor_pass()
    assert pickle.loads(pickle.dumps(own)).uuid() == own.uuid()
