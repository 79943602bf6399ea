"""A Python that has no torch: models load and run, and what needs torch says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import fusewright

GRAPH = "graph @g(s: 1..; %x: f32[s, 4]) {\n  %y = silu %x {form = quotient}\n  %z = mul %y, %x\n  return %z\n}\n"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with nothing in it but the package and a graph."""
    (tmp_path / "fusewright").symlink_to(Path(fusewright.__file__).parent)
    (tmp_path / "graph.fw").write_text(GRAPH)
    return tmp_path


def ran(code: str, bare: Path, *arguments: str) -> str:
    # Without the folders of installed packages.
    command = [sys.executable, "-S", "-E", *arguments, "-c", f"import sys; sys.path.insert(0, '.')\n{code}"]
    environment = {"PATH": os.environ["PATH"], "FUSEWRIGHT_CACHE_DIR": "off"}
    done = subprocess.run(command, cwd=bare, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_that_python_has_no_torch(bare: Path) -> None:
    found = "import importlib.util as u; print([u.find_spec(n) is None for n in ('torch', 'numpy', 'fusewright')])"
    assert ran(found, bare) == "[True, True, False]\n"


@pytest.mark.parametrize(
    "name", ["fuse", "explain", "backend", "check", "inductor_pass", "Checker", "PartCheck", "Report"]
)
def test_names_that_need_torch_say_so(name: str, bare: Path) -> None:
    code = f"""
try:
    from fusewright import {name}
except ImportError as error:
    print(type(error).__name__, error.name, str(error), sep="|")
"""
    kind, lacking, message = ran(code, bare).strip().split("|")
    assert (kind, lacking) == ("ImportError", "torch")
    assert message.startswith(f"fusewright.{name} needs PyTorch 2.9 or later, which is not installed")
    assert "`pip install torch`" in message


@pytest.mark.parametrize("module", ["fusewright.export", "fusewright.engines.vllm"])
def test_modules_that_need_torch_say_so(module: str, bare: Path) -> None:
    code = f"""
import runpy
try:
    runpy.run_module({module!r}, run_name="__main__")
    from {module} import register
    print("no error")
except ImportError as error:
    print(error)
"""
    said = ran(code, bare)
    # The plug-in imports torch when it is opened alone.
    assert "needs PyTorch" in said or (module.endswith("vllm") and said == "no error\n")


def test_a_model_runs_without_torch_and_numpy(bare: Path) -> None:
    code = """
import array, fusewright
program = fusewright.load("graph.fw")
x = memoryview(array.array("f", [0.0, 1.0, 2.0, 3.0] * 2)).cast("B").cast("f", (2, 4))
y = program(x)
print(type(y).__name__, y.shape, y.format, [round(v, 3) for v in y.tolist()[1]])
print(program.explain())
print(len(program._repr_html_()) > 1000, "torch" in sys.modules)
(kernel,) = program.kernels
print(kernel(x).tolist() == y.tolist(), list(kernel.stages)[:3])
print(fusewright.ExpectationError.__mro__[1].__name__, fusewright.counters()["calls"])
"""
    lines = ran(code, bare).splitlines()
    assert lines[0] == "memoryview (2, 4) f [0.0, 0.731, 3.523, 8.573]"
    assert lines[1] == "graph.fw: 2 operators run as 1 launch of 1 kernel"
    assert lines[-3:] == ["True False", "True ['body', 'lowered', 'expanded']", "Error 2"]


def test_a_model_runs_on_numpy_alone(bare: Path) -> None:
    site = Path(numpy.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (site / name).exists():
            (bare / name).symlink_to(site / name)
    code = """
import fusewright, numpy
x = numpy.linspace(-2, 2, 12, dtype=numpy.float32).reshape(3, 4)
y = fusewright.load("graph.fw")(x)
print(type(y).__name__, y.dtype, numpy.allclose(y, x * x / (1 + numpy.exp(-x)), rtol=1e-5), "torch" in sys.modules)
"""
    assert ran(code, bare) == "ndarray float32 True False\n"
