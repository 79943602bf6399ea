"""What runs of engines have in common: the words for a machine, versions, tables and files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine() -> str:
    """The processor, and how many of them there are."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} processors"


def versions(*packages: str) -> dict[str, str]:
    """Versions of packages, of those that all runs need and of more."""
    return {name: version(name) for name in ("fusewright", "torch", "transformers", *packages)}


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *([*row, *[""] * (len(head) - len(row))] for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write(path: Path, made: Any) -> None:
    """Writes figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1) + "\n")
