"""Files that ``python -m fusewright.export`` writes: read again by torch, or not there at all."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
import torch

from fusewright import export as exporting
from fusewright._export_archive import read_own, separate_empty_weights

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}
SET = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
MODULE = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))
        self.other = torch.nn.Parameter(torch.randn(3, 8))
        self.register_buffer("table", torch.randn(8))

    def forward(self, x, bias):
        return torch.nn.functional.linear(x * self.weight + bias * self.table.to(x.dtype), self.other)

def scaled(rows):
    return Scaled(), {"x": torch.randn(rows, 8), "bias": torch.randn(8)}

def no_inputs(rows):
    return Scaled()

class Branch(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

def branch(rows):
    return Branch(), {"x": torch.randn(rows, 8)}

def no_rows(rows):
    return Scaled(), {"x": torch.randn(3, 8), "bias": torch.randn(8)}
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def transformers_or_skip() -> None:
    pytest.importorskip("transformers", reason="skipped: transformers (not installed)")


@pytest.mark.parametrize("form", ["train", "functional", "core"])
def test_a_function_is_exported_for_all_rows_and_computes_the_same(form: str, module: Path) -> None:
    assert exporting.main(["mine:scaled", "out.pt2", "--form", form, "--dtype", "f32", "--rows", "2:64"]) == 0
    program = read_own(module / "out.pt2")
    built = torch.nn.Module.__new__(sys.modules["mine"].Scaled)
    sys.modules["mine"].Scaled.__init__(built)
    built.load_state_dict(program.state_dict)
    for rows in (2, 5, 64):
        x, bias = torch.randn(rows, 8), torch.randn(8)
        with torch.no_grad():
            assert torch.equal(program.module()(x=x, bias=bias), built(x, bias))
    ranges = [(int(found.lower), int(found.upper)) for found in program.range_constraints.values()]
    assert (2, 64) in ranges


def test_weights_are_cast_and_buffers_are_not(module: Path) -> None:
    assert exporting.main(["mine:scaled", "out.pt2"]) == 0
    state = read_own(module / "out.pt2").state_dict
    assert state["weight"].dtype is torch.bfloat16 and state["table"].dtype is torch.float32


def test_fake_weights_take_no_bytes_and_the_file_is_readable(module: Path) -> None:
    assert exporting.main(["mine:scaled", "out.pt2", "--weights", "fake"]) == 0
    with zipfile.ZipFile(module / "out.pt2") as archive:
        weights = [entry for entry in archive.infolist() if "/data/weights/weight_" in entry.filename]
        assert len({entry.filename for entry in weights if entry.file_size == 0}) >= 3
        assert all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
    shapes = {tuple(tensor.shape) for tensor in read_own(module / "out.pt2").state_dict.values()}
    assert (3, 8) in shapes


def test_a_file_with_weights_is_left_as_it_is(module: Path) -> None:
    assert exporting.main(["mine:scaled", "out.pt2"]) == 0
    before = (module / "out.pt2").read_bytes()
    separate_empty_weights(module / "out.pt2")
    assert (module / "out.pt2").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere:at_all"], "`nowhere` cannot be imported"),
        (["mine:absent"], "`mine` has no `absent`"),
        (["mine:no_inputs"], "not a module and its inputs"),
        (["mine:no_rows"], "no input of `mine:no_rows` has an axis of 16 rows"),
        (["mine:branch"], "torch cannot export it"),
        (["mine:scaled", "--rows", "9:3"], "not 1 ≤ MIN ≤ example ≤ MAX"),
        (["mine:scaled", "--rows", "many"], "neither a number nor MIN:MAX"),
        (["mine:scaled", "--set", "a=1"], "no configuration"),
        ([":scaled"], "`:scaled` is not MODULE:FUNCTION"),
        (["torch:nn"], "`torch:nn` cannot be called with a number of rows"),
        (["mine:scaled", "out.onnx"], "out.onnx: its name does not end in `.pt2`"),
    ],
)
def test_errors_are_said_and_leave_no_file(
    arguments: list[str], says: str, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exporting.main([arguments[0], *(["out.pt2"] if len(arguments) != 2 else []), *arguments[1:]]) == 1
    assert says in capsys.readouterr().err
    assert sorted(path.name for path in module.iterdir() if path.name != "__pycache__") == ["mine.py"]


def test_a_failed_write_keeps_the_old_file(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (module / "out.pt2").write_bytes(b"old")

    def broken(program: object, path: Path) -> None:
        path.write_bytes(b"no archive")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.export, "save", broken)
    assert exporting.main(["mine:scaled", "out.pt2"]) == 1
    assert (module / "out.pt2").read_bytes() == b"old"
    assert not list(module.glob(".export-*"))


@pytest.mark.parametrize(
    "name", ["LlamaConfig", "Qwen3Config", "Gemma3TextConfig", "Phi3Config", "MixtralConfig", "Qwen3MoeConfig"]
)
@pytest.mark.parametrize("weights", ["real", "fake"])
def test_layers_of_transformers_are_exported(name: str, weights: str, module: Path) -> None:
    transformers_or_skip()
    more = ["--set", "pad_token_id=0"] if name == "Phi3Config" else []
    experts = ["--set", "num_experts=4", "--set", "num_local_experts=4", "--set", "num_experts_per_tok=2"]
    more += experts if name in ("MixtralConfig", "Qwen3MoeConfig") else []
    assert exporting.main([name, "out.pt2", *SET, *more, "--weights", weights]) == 0
    program = read_own(module / "out.pt2")
    targets = {str(node.target) for node in program.graph.nodes}
    assert "aten.rsqrt.default" in targets and "aten.linear.default" in targets


def test_a_whole_model_is_exported_from_a_file(module: Path) -> None:
    transformers_or_skip()
    import json

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12):
        pytest.skip("skipped: whole models (this PyTorch finds a guard in them that no range of rows keeps)")
    (module / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2, **SIZES}))
    assert exporting.main(["config.json", "out.pt2", "--part", "model", "--dtype", "f32"]) == 0
    program = read_own(module / "out.pt2")
    for rows in (3, 20):
        assert program.module()(ids=torch.zeros(1, rows, dtype=torch.long)).shape == (1, rows, SIZES["vocab_size"])


def test_a_configuration_that_is_none_is_named(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers_or_skip()
    (module / "config.json").write_text("{}")
    assert exporting.main(["config.json", "out.pt2"]) == 1 and "no `model_type`" in capsys.readouterr().err
    assert exporting.main(["NoConfig", "out.pt2"]) == 1 and "no configuration class" in capsys.readouterr().err
    misspelt = ["LlamaConfig", "out.pt2", "--set", "hiden_size=64"]
    assert exporting.main(misspelt) == 1 and "LlamaConfig has no `hiden_size`" in capsys.readouterr().err
