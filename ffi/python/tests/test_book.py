"""The Python of the front page and of the book: every block runs, and prints what the page says.

The blocks of a page run from top to bottom in one namespace, in a process of its own, and in the folder of the checkout. A
fence of ``text`` directly behind a block is what it prints, where ``…`` stands for anything. A block whose fence says
``python gpu`` is skipped where there is no GPU.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
#: Runs blocks, each given as its line, its code and whether it is wanted; prints a mark behind each.
RUNNER = """
def _run():
    import json, linecache, sys
    blocks, mark = json.loads(sys.stdin.read()), sys.argv[1]
    for line, code in blocks:
        # Tracing reads the sources of functions.
        name = f"<block at line {line}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        # In the module itself, where guards of PyTorch look names up.
        exec(compile(code, name, "exec"), globals())
        print(mark, flush=True)


_run()
"""


@dataclass(frozen=True)
class Block:
    """A block of Python, and what it prints; ``None`` where the page does not say."""

    line: int
    code: str
    output: str | None
    needs_gpu: bool


def blocks(text: str) -> list[Block]:
    """The blocks of Python in a page."""
    fences = list(FENCE.finditer(text))
    found = []
    for i, fence in enumerate(fences):
        language, *words = fence["info"].split() or [""]
        if language != "python":
            continue
        assert set(words) <= {"gpu"}, f"```{fence['info']} is neither `python` nor `python gpu`"
        behind = fences[i + 1] if i + 1 < len(fences) else None
        is_output = behind is not None and behind["info"] == "text" and not text[fence.end() : behind.start()].strip()
        output = behind["body"] if behind is not None and is_output else None
        found.append(Block(text.count("\n", 0, fence.start()) + 1, fence["body"], output, "gpu" in words))
    return found


def matches(printed: str, expected: str) -> bool:
    """Whether a text is as a page says, with ``…`` for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.rstrip("\n").split("…"))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None


def checkout() -> Path | None:
    """The checkout that the tests are of: the folder of the variable, or the one around them."""
    named = os.environ.get("FUSEWRIGHT_CHECKOUT")
    root = Path(named) if named else Path(__file__).resolve().parents[3]
    return root if (root / "docs" / "SUMMARY.md").is_file() else None


ROOT = checkout()
PAGES = [] if ROOT is None else [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_PYTHON = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]


def entry_point(folder: Path) -> Path:
    """A folder with the backend's name for a package that is not installed, as its sources are not."""
    if "fusewright" not in {point.name for point in entry_points(group="torch_dynamo_backends")}:
        about = folder / "fusewright-0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fusewright\nVersion: 0\n")
        (about / "entry_points.txt").write_text("[torch_dynamo_backends]\nfusewright = fusewright:backend\n")
    return folder


def test_there_are_pages() -> None:
    if ROOT is None:
        pytest.skip("skipped: the book (no checkout around the tests, and FUSEWRIGHT_CHECKOUT names none)")
    assert {"README.md", "python.md", "getting-started.md"} <= {page.name for page in WITH_PYTHON}


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_a_page_runs_as_shown(page: Path, tmp_path: Path) -> None:
    assert ROOT is not None
    found = blocks(page.read_text(encoding="utf-8"))
    chosen = [block for block in found if not block.needs_gpu or torch.cuda.is_available()]
    if not chosen:
        pytest.skip(f"skipped: {page.name} (no GPU)")
    mark = "\x1eend of block"
    folders = [str(entry_point(tmp_path)), *sys.path]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "FUSEWRIGHT_CACHE_DIR": "off",
        "TMPDIR": str(tmp_path),
    }
    given = json.dumps([(block.line, block.code) for block in chosen])
    command = [sys.executable, "-c", RUNNER, mark]
    done = subprocess.run(
        command, input=given, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    printed = done.stdout.split(f"{mark}\n")
    assert done.returncode == 0, f"{page.name}, line {chosen[min(len(printed), len(chosen)) - 1].line}:\n{done.stderr}"
    for block, text in zip(chosen, printed, strict=False):
        expected = "" if block.output is None else block.output
        where = f"{page.name}, line {block.line}"
        assert matches(text, expected), f"{where} prints\n{text}\nand the page says\n{expected}"


def test_blocks_are_found_with_their_outputs() -> None:
    page = (
        "```python\na\n```\n\n```text\nb\n```\nwords\n```python gpu\nc\n```\nwords\n```text\nd\n```\n```rust\ne\n```\n"
    )
    assert blocks(page) == [Block(1, "a\n", "b\n", False), Block(9, "c\n", None, True)]
    with pytest.raises(AssertionError, match="neither"):
        blocks("```python maybe\na\n```\n")


def test_outputs_are_compared_to_the_letter() -> None:
    assert matches("one 2.5 three\n", "one … three\n") and matches("a\nb\nc\n", "a\n…\nc\n") and matches("", "")
    assert not matches("one 2\n", "one\n") and not matches("x one\n", "one\n") and not matches("a\nb\n", "a.b\n")
