"""Writes a PyTorch model as a ``.pt2`` file, which Fusewright compiles without Python: ``python -m fusewright.export``.

The model is one of ``transformers``, by a configuration and with random weights (nothing is downloaded), or whatever a
function of the user's returns. With ``--weights fake`` it has the sizes of the real one and no weights, so that the layer
of a large model is a file of some hundred kilobytes. Weights of floats are cast, buffers are not: the frequencies of a
rotary embedding stay f32. The file is read again before it takes its name, so that a name stands for a whole file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import torch
    from torch.export import Dim, ExportedProgram
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    from ._torch import missing

    raise missing("fusewright.export") from error

from ._export_archive import read_own, separate_empty_weights
from ._export_models import Model, ModelError, load

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


@dataclass(frozen=True)
class Rows:
    """The number of rows: ``example`` of them are exported, from ``least`` to ``most`` are admitted."""

    example: int = 16
    least: int = 2
    most: int = 8192

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.example <= self.most:
            raise ModelError(
                f"rows {self.least}:{self.most} with {self.example} as an example: not 1 ≤ MIN ≤ example ≤ MAX"
            )

    @property
    def dynamic(self) -> bool:
        return self.least < self.most


def export(model: Model, rows: Rows, decompose: str = "train") -> ExportedProgram:
    """Exports a model for a range of rows.

    ``decompose`` is ``"train"`` (as PyTorch traces it), ``"functional"`` (no mutation, operators whole) or ``"core"`` (core
    ATen). Raises ``ModelError`` where an input has not that many rows, and where torch cannot trace the model.
    """
    shapes: dict[str, dict[int, Any]] | None = None
    if rows.dynamic:
        extent = Dim("rows", min=rows.least, max=rows.most)
        shapes = {name: {axis: extent} for name, axis in model.rows.items()}
    for name, axis in model.rows.items():
        found = tuple(model.inputs[name].shape)
        if axis >= len(found) or found[axis] != rows.example:
            raise ModelError(f"input `{name}` is of shape {found}; its axis {axis} was to have {rows.example} rows")
    given = {name: (shapes or {}).get(name) for name in model.inputs}
    try:
        with torch.no_grad():
            program = torch.export.export(
                model.module,
                (),
                kwargs=dict(model.inputs),
                dynamic_shapes=given if rows.dynamic else None,
                strict=False,
            )
    except Exception as error:
        raise ModelError(f"torch cannot export it: {type(error).__name__}: {error}") from error
    if decompose == "functional":
        return program.run_decompositions({})
    return program.run_decompositions() if decompose == "core" else program


def write(program: ExportedProgram, path: Path) -> int:
    """Writes a program and reads it again; only then the file has its name. Returns its bytes.

    Raises ``OSError``, and ``ModelError`` if the file does not hold the graph that was written.
    """
    # The name of the file is the name of the archive's folder: the temporary one must have it too.
    with tempfile.TemporaryDirectory(prefix=".export-", dir=path.parent) as folder:
        written = Path(folder) / path.name
        torch.export.save(program, written)
        separate_empty_weights(written)
        try:
            again = read_own(written)
        except Exception as error:
            raise ModelError(f"torch cannot read what it wrote: {type(error).__name__}: {error}") from error
        targets = [[str(node.target) for node in p.graph.nodes if node.op == "call_function"] for p in (program, again)]
        if targets[0] != targets[1]:
            raise ModelError("the file read again holds another graph")
        os.replace(written, path)
    return path.stat().st_size


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    given = _parser().parse_args(arguments)
    try:
        if given.out.suffix != ".pt2":
            raise ModelError(f"{given.out}: its name does not end in `.pt2`, by which readers know the format")
        rows = _rows(given.rows, given.example)
        with fake_tensors() if given.weights == "fake" else contextlib.nullcontext():
            torch.manual_seed(given.seed)
            model = load(given.source, rows.example, given.part, dict(given.set), DTYPES[given.dtype])
            program = export(model, rows, given.form)
        size = write(program, given.out)
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {given.out}: {error.strerror or error}", file=sys.stderr)
        return 1
    nodes = sum(node.op == "call_function" for node in program.graph.nodes)
    admitted = f"{rows.least} to {rows.most} rows" if rows.dynamic else f"{rows.example} rows"
    print(f"{given.out}: {nodes} nodes, {admitted}, {given.weights} weights, {size} bytes")
    return 0


def fake_tensors() -> contextlib.AbstractContextManager[Any]:
    """Tensors made within have shapes and no memory."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def _rows(text: str, example: int | None) -> Rows:
    least, colon, most = text.partition(":")
    try:
        first, last = int(least), int(most if colon else least)
    except ValueError:
        raise ModelError(f"rows `{text}` are neither a number nor MIN:MAX") from None
    return Rows(example if example is not None else min(max(first, 16), last), first, last)


def _setting(text: str) -> tuple[str, Any]:
    import ast

    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fusewright.export", description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "source",
        help="a configuration of transformers: its file (`config.json`) or its class (`Qwen3Config`); or `MODULE:FUNCTION`, "
        "which is called with a number of rows and returns a module and its inputs, by name",
    )
    parser.add_argument("out", type=Path, help="the file to write, `….pt2`")
    parser.add_argument(
        "--part",
        choices=("layer", "model"),
        default="layer",
        help="of transformers: the first decoder layer, or all [layer]",
    )
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a value of the configuration"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="bf16", help="of weights and of inputs of floats [bf16]")
    parser.add_argument(
        "--weights", choices=("real", "fake"), default="real", help="random ones, or shapes alone [real]"
    )
    parser.add_argument(
        "--rows", default="2:8192", metavar="N|MIN:MAX", help="numbers of rows that the graph admits [2:8192]"
    )
    parser.add_argument("--example", type=int, metavar="N", help="rows at which it is traced [16, within the range]")
    parser.add_argument(
        "--form", choices=("train", "functional", "core"), default="train", help="decomposition of operators [train]"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the weights [0]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
