"""The package's types, by the checkers that are installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fusewright

PACKAGE = Path(fusewright.__file__).parent
CONFIG = Path(__file__).parents[1] / "pyproject.toml"
#: What a user writes, and what checkers are to know of it.
USE = """
from collections.abc import Callable
from typing import Any, assert_type

import fusewright

program = fusewright.load("model.pt2", weights={"w": [1.0]}, progress=True)
assert_type(program, fusewright.Program)
assert_type(program.inputs, tuple[fusewright.TensorSpec, ...])
assert_type(program.kernels, list[fusewright.Kernel])
assert_type(program.run([1], in_place=False), dict[str, Any])
assert_type(program.explain(), fusewright.ProgramReport)
assert_type(program.kernels[0].stages, dict[str, str | bytes])
assert_type(fusewright.counters(), dict[str, int])
assert_type(fusewright.explain(len, [1]).kernels, list[fusewright.Kernel])


@fusewright.fuse
def twice(x: float) -> float:
    return x + x


@fusewright.fuse(mode="relaxed")
def half(x: float) -> float:
    return x / 2


twice(1.0)
half(1.0)
"""


def ran(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def sources(folder: Path) -> Path:
    """The package beside a file that uses it, as sources: a package that is installed may not be followed."""
    shutil.copytree(PACKAGE, folder / "fusewright", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "use.py").write_text(USE)
    return folder


@pytest.fixture
def mypy() -> list[str]:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("skipped: mypy (not installed)")
    return [sys.executable, "-m", "mypy", "--config-file", str(CONFIG)]


@pytest.fixture
def pyright() -> list[str]:
    beside = Path(sys.executable).parent / "pyright"
    found = str(beside) if beside.exists() else shutil.which("pyright")
    if found is None:
        pytest.skip("skipped: pyright (not installed)")
    # What pip installs fetches the checker itself when it first runs.
    if subprocess.run([found, "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("skipped: pyright (it does not start)")
    return [found, "--pythonpath", sys.executable]


def test_mypy_is_content(mypy: list[str], tmp_path: Path) -> None:
    ran([*mypy, "fusewright", "use.py"], sources(tmp_path))


def test_pyright_is_content(pyright: list[str], tmp_path: Path) -> None:
    ran([*pyright, "fusewright", "use.py"], sources(tmp_path))


def test_the_stub_names_what_the_native_module_has() -> None:
    import ast

    from fusewright import _native

    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    stub = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert stub == {name for name in dir(_native) if callable(getattr(_native, name))}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Error"):
            known = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
            made = {name for name in vars(getattr(_native, node.name)) if not name.startswith("__")}
            assert known == made, node.name
