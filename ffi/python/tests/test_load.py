"""Exported models that are loaded and called: on arrays of any library, by place and by name, in place as they say."""

from __future__ import annotations

import array
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import fusewright
from fusewright import Program, TensorSpec

WIDTH = 16


class Layer(torch.nn.Module):
    """Two results of two inputs, with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x * self.weight + y
        return torch.relu(h), h * 2


class Caching(torch.nn.Module):
    """Overwrites an input and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(WIDTH))

    def forward(self, cache: torch.Tensor, slots: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, slots, x * 2)
        self.seen.add_(x.sum(0))
        return torch.relu(x) + self.seen


class Plain(torch.nn.Module):
    """One result of one input of a dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x, x * 0) + x


def saved(model: torch.nn.Module, example: tuple[torch.Tensor, ...], path: Path, dynamic: tuple[int, ...] = ()) -> Path:
    rows = torch.export.Dim("rows", min=3, max=1000)
    shapes = tuple({0: rows} if i in dynamic else None for i in range(len(example)))
    program = torch.export.export(model, example, dynamic_shapes=shapes if dynamic else None)
    torch.export.save(program, path)
    return path


@pytest.fixture
def layer(tmp_path: Path) -> tuple[Layer, Path]:
    model = Layer()
    return model, saved(model, (torch.rand(4, WIDTH), torch.rand(4, WIDTH)), tmp_path / "layer.pt2", (0, 1))


@pytest.fixture
def caching(tmp_path: Path) -> Path:
    example = (torch.zeros(8, WIDTH), torch.tensor([1, 5]), torch.rand(2, WIDTH))
    return saved(Caching(), example, tmp_path / "caching.pt2")


def test_a_program_computes_what_the_model_does_at_every_size(layer: tuple[Layer, Path]) -> None:
    model, path = layer
    program = fusewright.load(path)
    for rows in (3, 5, 700):
        x, y = torch.rand(rows, WIDTH) - 0.5, torch.rand(rows, WIDTH) - 0.5
        with torch.no_grad():
            expected = model(x, y)
        for results in (program(x, y), program(x, y=y), program(y=y, x=x), tuple(program.run([x, y]).values())):
            assert all(map(torch.equal, results, expected))


def test_inputs_outputs_and_sizes_have_names(layer: tuple[Layer, Path]) -> None:
    program = fusewright.load(layer[1])
    (symbol,) = program.symbols
    assert program.symbols == {symbol: (3, 1000)}
    assert program.inputs == tuple(TensorSpec(name, "f32", (symbol, WIDTH)) for name in "xy")
    assert program.outputs == tuple(TensorSpec(name, "f32", (symbol, WIDTH)) for name in ("out0", "out1"))
    assert f"x: f32[{symbol}, 16]" in repr(program) and program.name == "layer.pt2" and program.target == "cpu"
    assert set(program.run({"x": torch.rand(3, WIDTH), "y": torch.rand(3, WIDTH)})) == {"out0", "out1"}


def test_arrays_of_every_library_are_taken(layer: tuple[Layer, Path]) -> None:
    model, path = layer
    program = fusewright.load(path)
    x, y = numpy.random.rand(2, 3, WIDTH).astype(numpy.float32)
    with torch.no_grad():
        expected = [result.numpy() for result in model(torch.from_numpy(x), torch.from_numpy(y))]

    class Speaks:
        """Of another library: DLPack and nothing else."""

        def __dlpack__(self, **more: Any) -> Any:
            return y.__dlpack__(**more)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    readonly = y.copy()
    readonly.setflags(write=False)
    odd = numpy.frombuffer(b"\0" + y.tobytes(), numpy.float32, offset=1).reshape(y.shape)
    assert not odd.flags.aligned
    buffer = memoryview(array.array("f", y.ravel())).cast("B").cast("f", y.shape)
    for other in (
        y,
        Speaks(),
        readonly,
        odd,
        buffer,
        memoryview(bytes(buffer)).cast("f", y.shape),
        y.T.copy().T,
        y.astype(">f4"),
    ):
        results = program(x, other)
        assert all(isinstance(result, numpy.ndarray) and result.flags.writeable for result in results)
        assert all((a == b).all() for a, b in zip(results, expected, strict=True))
    # One tensor of torch's is enough.
    assert all(isinstance(result, torch.Tensor) for result in program(x, torch.from_numpy(y)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32])
def test_results_have_the_models_dtype(dtype: torch.dtype, tmp_path: Path) -> None:
    x = (torch.randn(3, WIDTH) * 4).to(dtype)
    program = fusewright.load(saved(Plain(), (x,), tmp_path / "plain.pt2"))
    result = program(x)
    assert result.dtype is dtype and torch.equal(result, Plain()(x))
    if dtype is torch.bfloat16:
        codes = program(x.view(torch.uint16).numpy())
        assert codes.itemsize == 2 and (codes.view(numpy.uint16) == result.view(torch.uint16).numpy()).all()
    else:
        assert (program(x.numpy()) == result.numpy()).all()


def test_inputs_and_buffers_are_overwritten_as_the_model_does(caching: Path) -> None:
    model, program = Caching(), fusewright.load(caching)
    assert [output.updates for output in program.outputs].count(None) == 1
    assert {wanted.name: wanted.updates for wanted in program.inputs} == {"cache": "cache", "slots": None, "x": None}
    ours, theirs = numpy.zeros((8, WIDTH), numpy.float32), torch.zeros(8, WIDTH)
    for slots in ([1, 5], [0, 1]):
        x = torch.rand(2, WIDTH)
        result = program(ours, numpy.array(slots), x.numpy())
        with torch.no_grad():
            expected = model(theirs, torch.tensor(slots), x)
        assert torch.allclose(torch.from_numpy(result), expected) and (ours == theirs.numpy()).all()
    state = program.state
    assert state is not None and list(state) == program._made.state().names  # type: ignore[union-attr]
    (name,) = state
    assert numpy.allclose(state[name], model.seen.numpy())


def test_states_are_independent_and_can_be_set(caching: Path) -> None:
    program = fusewright.load(caching)
    cache, slots, x = numpy.zeros((8, WIDTH), numpy.float32), numpy.array([0, 1]), numpy.ones((2, WIDTH), numpy.float32)
    own, other = program.state, program.new_state()
    assert own is not None and other is not None
    (name,) = own
    program.run([cache, slots, x], state=other)
    assert (own[name] == 0).all() and (other[name] == 2).all()
    own[name] = numpy.full(WIDTH, 5, numpy.float32)
    assert (program(cache, slots, x) == 8).all() and (own[name] == 7).all()
    with pytest.raises(fusewright.CallError, match=rf"`{name}` is f32\[16\], got f32\[15\]"):
        own[name] = numpy.zeros(15, numpy.float32)
    with pytest.raises(fusewright.CallError, match="no buffer `nothing`"):
        own["nothing"] = x
    with pytest.raises(KeyError):
        own["nothing"]


def test_without_in_place_new_values_are_results(caching: Path) -> None:
    program = fusewright.load(caching)
    cache, slots, x = numpy.zeros((8, WIDTH), numpy.float32), numpy.array([0, 1]), numpy.ones((2, WIDTH), numpy.float32)
    cache.setflags(write=False)
    results = program.run({"cache": cache, "slots": slots, "x": x}, in_place=False)
    assert (cache == 0).all() and (results["new_cache"][:2] == 2).all() and (results["new_cache"][2:] == 0).all()
    state = program.state
    assert state is not None
    (name,) = state
    assert (results[f"new_{name}"] == 2).all() and (state[name] == 0).all()
    with pytest.raises(fusewright.CallError, match="`cache` is overwritten, and cannot be written to"):
        program(cache, slots, x)
    cache = numpy.zeros((WIDTH, 8), numpy.float32).T
    with pytest.raises(fusewright.CallError, match="`cache` is overwritten, and is not in row-major order"):
        program(cache, slots, x)


def test_an_overwritten_input_shares_no_memory(caching: Path) -> None:
    program = fusewright.load(caching)
    memory = numpy.zeros((8, WIDTH), numpy.float32)
    with pytest.raises(fusewright.CallError, match="`cache` is overwritten, and shares memory with input `x`"):
        program(memory, numpy.array([0, 1]), memory[3:5])


def test_weights_can_be_arguments(layer: tuple[Layer, Path]) -> None:
    model, path = layer
    x, y, weight = torch.rand(3, WIDTH), torch.rand(3, WIDTH), torch.rand(WIDTH)
    program = fusewright.load(path, weights="arguments")
    (name,) = [wanted.name for wanted in program.inputs if wanted.weight]
    expected = torch.relu(x * weight + y)
    assert torch.equal(program(x, y, **{name: weight})[0], expected)
    with pytest.raises(fusewright.CallError, match=rf"weight `{name}` is missing: it is f32\[16\]"):
        program(x, y)
    given = fusewright.load(path, weights={name: weight})
    assert [wanted.name for wanted in given.inputs] == ["x", "y"] and torch.equal(given(x, y)[0], expected)
    with pytest.raises(fusewright.CompileError, match="`nothing` is no weight of the model"):
        fusewright.load(path, weights={"nothing": weight})
    with pytest.raises(fusewright.CallError, match=rf"weight `{name}` is f32\[16\], got f32\[3, 16\]"):
        fusewright.load(path, weights={name: x})
    with pytest.raises(fusewright.CompileError, match="neither a dictionary"):
        fusewright.load(path, weights="file")  # type: ignore[arg-type]
    with torch.no_grad():
        assert all(map(torch.equal, fusewright.load(path)(x, y), model(x, y)))


def test_weights_without_data_are_inputs(layer: tuple[Layer, Path], tmp_path: Path) -> None:
    import zipfile

    empty = tmp_path / "empty.pt2"
    with zipfile.ZipFile(layer[1]) as full, zipfile.ZipFile(empty, "w") as archive:
        for entry in full.infolist():
            is_weight = "/data/weights/" in entry.filename and not entry.filename.endswith(".json")
            archive.writestr(entry, b"" if is_weight else full.read(entry))
    program = fusewright.load(empty)
    assert [wanted.weight for wanted in program.inputs].count(True) == 1


GOOD = (3, WIDTH)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ((numpy.zeros(GOOD), numpy.zeros(GOOD, "f4")), r"`x` is f32\[\w+, 16\], got f64\[3, 16\]"),
        ((numpy.zeros(GOOD, "f4"), numpy.zeros((3, 8), "f4")), r"`y` is f32\[\w+, 16\], got f32\[3, 8\]"),
        ((numpy.zeros(GOOD, "f4"), numpy.zeros((4, WIDTH), "f4")), r"`y` .* must be \w+ = 3, not 4"),
        ((numpy.zeros(WIDTH, "f4"), numpy.zeros(GOOD, "f4")), r"`x` is f32\[\w+, 16\], got f32\[16\]"),
        ((numpy.zeros((1, WIDTH), "f4"),) * 2, r"is 1, by axis 0 of input `\w+`, outside 3"),
        (([1.0], numpy.zeros(GOOD, "f4")), r"`x` is f32\[\w+, 16\], got list, which is no array"),
        ((numpy.zeros(GOOD, "c8"), numpy.zeros(GOOD, "f4")), "`x` is complex64"),
        ((torch.zeros(GOOD, dtype=torch.complex64), torch.zeros(GOOD)), "`x` is torch.complex64"),
        ((torch.zeros(GOOD, device="meta"), torch.zeros(GOOD)), "`x` lies on meta"),
        ((numpy.zeros(GOOD, "f4"),) * 3, r"takes 2 inputs \(x, y\), got 3"),
        ((numpy.zeros(GOOD, "f4"),), r"input `y` is missing: it is f32"),
    ],
)
def test_errors_of_calls_name_the_input(arrays: tuple[Any, ...], says: str, layer: tuple[Layer, Path]) -> None:
    with pytest.raises(fusewright.CallError, match=says):
        fusewright.load(layer[1])(*arrays)


def test_errors_of_names_say_what_there_is(layer: tuple[Layer, Path]) -> None:
    program, x = fusewright.load(layer[1]), numpy.zeros(GOOD, numpy.float32)
    with pytest.raises(fusewright.CallError, match="no input `z`; there is `x`, `y`"):
        program(x, x, z=x)
    with pytest.raises(fusewright.CallError, match="`x` is given twice"):
        program(x, x=x)
    with pytest.raises(fusewright.CallError, match="`threads` is 0; it must be a number from 1 to 1024"):
        program.run([x, x], threads=0)
    with pytest.raises(fusewright.CallError, match="`state` is 3; it must be what `new_state` gives"):
        program.run([x, x], state=3)  # type: ignore[arg-type]
    with pytest.raises(fusewright.CallError, match="`in_place` is 'no', neither True nor False"):
        program.run([x, x], in_place="no")  # type: ignore[arg-type]
    with pytest.raises(
        fusewright.CallError, match="`inputs` is neither a list nor a dictionary of arrays but NoneType"
    ):
        program.run(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": ""}, "`path` is ''; it must be the path of a file"),
        ({"path": b"x"}, "`path` is b'x'; it must be the path of a file, as text"),
        ({"target": 3}, "`target` is 3; it must be a text such as 'cpu'"),
        ({"target": "gpu"}, "`target`: unknown target `gpu`"),
        ({"device": -1}, "`device` is -1; it must be the number of a GPU"),
        ({"threads": 10**9}, "`threads` is 1000000000; it must be a number from 1 to 1024"),
    ],
)
def test_errors_of_arguments_name_the_argument(layer: tuple[Layer, Path], given: dict[str, object], says: str) -> None:
    arguments = {"path": layer[1], **given}
    with pytest.raises(fusewright.CompileError, match=re.escape(says)):
        fusewright.load(arguments.pop("path"), **arguments)  # type: ignore[arg-type]


def test_errors_of_files_name_the_file(tmp_path: Path, layer: tuple[Layer, Path]) -> None:
    with pytest.raises(fusewright.CompileError, match=r"nowhere\.pt2: No such file"):
        fusewright.load(tmp_path / "nowhere.pt2")
    (tmp_path / "text.pt2").write_text("no archive")
    with pytest.raises(fusewright.CompileError, match=r"text\.pt2: "):
        fusewright.load(tmp_path / "text.pt2")
    with pytest.raises(fusewright.CompileError, match="target `abacus`"):
        fusewright.load(layer[1], target="abacus")
    with pytest.raises(fusewright.CompileError, match="mode `quick`"):
        fusewright.load(layer[1], mode="quick")


def test_what_no_table_defines_is_refused(tmp_path: Path) -> None:
    class Sorted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x)

    path = saved(Sorted(), (torch.eye(4),), tmp_path / "inverse.pt2")
    with pytest.raises(fusewright.CompileError, match=r"inverse\.pt2: cannot be run: (.|\n)*linalg_inv"):
        fusewright.load(path)


def test_the_text_form_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "gate.fw"
    path.write_text("graph @gate(s: 1..; %x: f32[s, 4]) {\n  %y = silu %x {form = quotient}\n  return %y\n}\n")
    x = torch.randn(3, 4)
    assert torch.allclose(fusewright.load(path)(x), torch.nn.functional.silu(x))


def test_explain_lists_kernels_and_what_is_in_none(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.SiLU())
    program = fusewright.load(saved(model, (torch.rand(4, WIDTH),), tmp_path / "linear.pt2"))
    report = program.explain()
    (kernel,) = report.kernels
    assert report.counts["matmuls"] == program.counts["matmuls"] == 1 and "silu" in kernel.ops
    text = str(report)
    assert text.startswith("linear.pt2: ") and "matrix products: 1" in text and "  1 x " in text
    assert report.svg().startswith("<svg") and "<!DOCTYPE html>" in report.html()


def test_programs_are_no_part_of_others(layer: tuple[Layer, Path]) -> None:
    program = fusewright.load(layer[1])
    assert isinstance(program, Program)
    program.promote()
    x = torch.rand(3, WIDTH)
    assert torch.equal(program(x, x)[0], fusewright.load(layer[1], threads=2)(x, x)[0])
