"""Options of a compilation: what each does, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AddNorm

import fusewright
from fusewright import _backend, _capture
from fusewright._backend import compile_graph
from fusewright._fuse import Result
from fusewright._options import Options


def two_norms(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = x + y
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        x = torch.cumsum(x, 0)
    return x


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"modes": "exact"}, "unknown option `modes`.*did you mean `mode`"),
        ({"mode": "fast"}, "`mode` is 'fast', none of exact, relaxed"),
        ({"strict": 1}, "`strict` is 1"),
        ({"threads": 0}, "`threads` has 0; it must be 1 or more"),
        ({"threads": 2**70}, "`threads` is 1180591620717411303424; it must be a number from 1 to 1024"),
        ({"mode": "max-autotune"}, "none of exact, relaxed; modes of `torch.compile` are Inductor's"),
        ({"splitting_ops": ["__class__.__name__"]}, "no such operator"),
        ({"splitting_ops": ["aten.name"]}, "no such operator"),
        ({"splitting_ops": ["aten.softmax"]}, "`splitting_ops` has 'aten.softmax'.*in the place of"),
        ({"splitting_ops": ["aten.add_"]}, "`splitting_ops` has 'aten.add_'.*in the place of"),
        ({"splitting_ops": "aten.mm"}, "`splitting_ops` is 'aten.mm', no list"),
        ({"splitting_ops": ["aten.nothing"]}, "`splitting_ops` has 'aten.nothing'.*no such operator"),
        ({"capture_sizes": 4}, "`capture_sizes` is 4, no list"),
        ({"capture_sizes": [0]}, "`capture_sizes` has 0"),
        ({"capture_sizes": [4], "inner": "inductor"}, "`capture_sizes` is of `inner` eager"),
        ({"expect": {"add_norm": 1}}, "`expect` has 'add_norm', and no kernel has such a name"),
        ({"expect": {"add_rms_norm": -1}}, "`expect` has -1 for add_rms_norm"),
        ({"expect": 3}, "`expect` is 3, no dictionary"),
        ({"pipeline": 7}, "`pipeline` is 7, no file"),
        ({"pipeline": "no/such.toml"}, "`pipeline`: no/such.toml: No such file"),
    ],
)
def test_what_is_no_option_is_refused_in_words(options: dict[str, Any], says: str) -> None:
    with pytest.raises(fusewright.CompileError, match=says):
        Options.of(options)


@pytest.mark.parametrize("option", [{"capture_sizes": [4]}, {"inner": "inductor"}])
@pytest.mark.parametrize("way", [fusewright.fuse, lambda **options: fusewright.inductor_pass(**options)])
def test_what_only_the_backend_has_a_use_for_is_refused(way: Callable[..., Any], option: dict[str, Any]) -> None:
    with pytest.raises(fusewright.CompileError, match=f"`{next(iter(option))}` is of the backend.*has no use for it"):
        way(**option)(two_norms)


def test_explain_tells_options_from_the_models_own_keywords() -> None:
    def model(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return x * by

    with pytest.raises(fusewright.CompileError, match=r"`by` is no option but the model's.*functools.partial"):
        fusewright.explain(model, torch.randn(3), by=3.0)
    with pytest.raises(
        fusewright.CompileError, match=r"`capture_sizes` is of the backend.*`explain` has no use for it"
    ):
        fusewright.explain(model, torch.randn(3), capture_sizes=[3])
    with pytest.raises(
        fusewright.CompileError, match="unknown option `any`; there are mode, pipeline, strict, threads"
    ):
        fusewright.fuse(model, any=3)
    with pytest.raises(TypeError, match="`explain` takes a function or a module, not 3"):
        fusewright.explain(3)


def test_a_graph_that_is_trained_is_said_to_be_left() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), torch.randn(3, 8)
    checker = fusewright.Checker()
    torch.compile(model, backend=checker)(x)
    assert str(checker) == "a graph is left as it is: it is trained"
    torch._dynamo.reset()
    options = {"expect": {"rms_norm": 5}}
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="expected 5 kernels of rms_norm, found 0"
    ) as raised:
        torch.compile(model, backend="fusewright", options=options)(x)
    assert isinstance(raised.value.inner_exception, fusewright.ExpectationError)
    with pytest.raises(fusewright.ExpectationError, match="found 0"):
        fusewright.check(model, x, **options)


def test_a_graph_that_is_left_is_reported_with_the_reason(tmp_path: Path) -> None:
    passes = tmp_path / "passes.toml"
    passes.write_text('off = ["nope"]')
    with pytest.warns(UserWarning, match="leaves a graph as it is"):
        report = fusewright.explain(lambda x: (x * 2).relu(), torch.randn(3, 4), pipeline=str(passes))
    assert len(report.graphs) == 1 and "no pass is named `nope`" in report.unfused[0].replace("'", "`")
    assert f"left as it is: {report.unfused[0]}" in str(report) and "Left as it is" in report._repr_html_()
    with pytest.raises(fusewright.CompileError, match="nope"):
        fusewright.explain(lambda x: (x * 2).relu(), torch.randn(3, 4), pipeline=str(passes), strict=True)


def test_threads_are_part_of_what_inductor_keeps() -> None:
    assert fusewright.inductor_pass(threads=1).uuid() != fusewright.inductor_pass().uuid()


@pytest.mark.parametrize("inner", ["eager", "inductor"])
def test_a_fusion_that_is_expected_and_lost_fails(inner: str) -> None:
    inputs = torch.randn(4, 256).bfloat16(), torch.randn(4, 256).bfloat16()
    for expected, fails in (({"add_rms_norm": 1}, False), ({"add_rms_norm": 2}, True), ({"silu_mul": 1}, True)):
        torch._dynamo.reset()
        compiled = torch.compile(AddNorm(), backend=fusewright.backend, options={"inner": inner, "expect": expected})
        with torch.no_grad():
            if fails:
                with pytest.raises(Exception, match=r"expected \d kernels of .*, found"):
                    compiled(*inputs)
            else:
                compiled(*inputs)


def test_expectations_of_a_report_are_of_all_graphs() -> None:
    norm = AddNorm()

    def broken(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = norm(x, y)
        torch._dynamo.graph_break()
        return norm(x, y)[0]

    inputs = torch.randn(4, 256).bfloat16(), torch.randn(4, 256).bfloat16()
    fusewright.explain(broken, *inputs, expect={"add_rms_norm": 2})
    torch._dynamo.reset()
    with pytest.raises(fusewright.ExpectationError, match="expected 1 kernels of add_rms_norm, found 2"):
        fusewright.explain(broken, *inputs, expect={"add_rms_norm": 1})


def test_no_part_is_on_both_sides_of_a_splitting_operator() -> None:
    def around(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(x * y)
        # Not on the way from the one to the other.
        apart = torch.cumsum(y, 0)
        return torch.relu(x + y), apart

    inputs = torch.randn(4, 8), torch.randn(4, 8)
    for splitting, parts in (([], 1), (["aten.cumsum"], 2), (["aten::cumsum.default"], 2)):
        torch._dynamo.reset()
        results: list[Result] = []
        options = Options.of({"splitting_ops": splitting, "strict": True})
        backend = lambda gm, given, o=options, r=results: compile_graph(gm, given, o, r.append)  # noqa: E731
        with torch.no_grad():
            got = torch.compile(around, backend=backend)(*inputs)
            assert all(torch.equal(a, b) for a, b in zip(got, around(*inputs), strict=True))
        assert len(results[0].fusions) == parts
        if splitting:
            assert results[0].left["aten.cumsum.default", "it splits the graph"] == 1


def test_attention_splits_by_its_own_name_whatever_kernel_computes_it() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x * 2)
        return torch.relu(torch.nn.functional.scaled_dot_product_attention(x, x, x) * 2)

    report = fusewright.explain(
        attend, torch.randn(1, 2, 8, 16), splitting_ops=["aten.scaled_dot_product_attention"], strict=True
    )
    assert "it splits the graph" in {reason for _, reason in report.left}


def test_sizes_to_capture_have_their_best_code_before_the_first_call() -> None:
    x, y = torch.randn(8, 64), torch.randn(8, 64)
    for tensor in (x, y):
        torch._dynamo.mark_dynamic(tensor, 0)
    options = {"capture_sizes": [8, 16], "strict": True}
    compiled = torch.compile(two_norms, backend=fusewright.backend, options=options)
    with torch.no_grad():
        compiled(x, y)
        before = fusewright.counters()["compiles"]
        assert torch.allclose(compiled(x, y), two_norms(x, y), rtol=1e-5, atol=1e-5)
    assert fusewright.counters()["compiles"] == before


class Recorder:
    """Counts what a device would record; a replay writes results where the record has them."""

    def __init__(self) -> None:
        self.records = self.replays = 0

    def __call__(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        self.records += 1
        made = run()

        def replay() -> None:
            self.replays += 1
            again = run()
            for old, new in zip(
                torch.utils._pytree.tree_leaves(made), torch.utils._pytree.tree_leaves(again), strict=True
            ):
                old.copy_(new)

        return replay, made


def test_pieces_are_recorded_once_for_each_size_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(
        _capture, "prepared", lambda gm, _, o: _capture.recorded(gm, o.capture_sizes, o.splitting_ops, recorder)
    )
    norm = torch.nn.RMSNorm(64)

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = norm(x + y)
        # Between two pieces.
        z = torch.cumsum(x, 0)
        return norm(z + y), x

    options = {"capture_sizes": [8, 16], "splitting_ops": ["aten.cumsum"], "strict": True}
    compiled = torch.compile(model, backend=fusewright.backend, options=options)
    kept = []
    for rows in (8, 8, 16, 8, 9):
        x, y = torch.randn(rows, 64), torch.randn(rows, 64)
        for tensor in (x, y):
            torch._dynamo.mark_dynamic(tensor, 0)
        with torch.no_grad():
            kept.append((compiled(x, y), model(x, y)))
    # Results of one call outlive the next.
    for got, expected in kept:
        assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(got, expected, strict=True))
    assert (recorder.records, recorder.replays) == (4, 8)


def test_a_piece_that_writes_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(
        _capture, "prepared", lambda gm, _, o: _capture.recorded(gm, o.capture_sizes, o.splitting_ops, recorder)
    )

    def model(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(torch.relu(x * 2))
        return torch.relu(x * 3)

    compiled = torch.compile(model, backend=fusewright.backend, options={"capture_sizes": [4]})
    x, cache = torch.randn(4, 8), torch.zeros(4, 8)
    with torch.no_grad():
        for _ in range(3):
            compiled(x, cache)
    assert torch.equal(cache, 3 * torch.relu(x * 2)) and recorder.records == 0


def test_a_piece_that_cannot_be_recorded_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        raise RuntimeError("nothing is recorded here")

    monkeypatch.setattr(
        _capture,
        "prepared",
        lambda gm, _, o: _capture.recorded(gm, o.capture_sizes, o.splitting_ops, refusing, strict=o.strict),
    )

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2) + 1

    x = torch.randn(4, 8)
    compiled = torch.compile(model, backend=fusewright.backend, options={"capture_sizes": [4]})
    with torch.no_grad(), pytest.warns(UserWarning, match="nothing is recorded here"):
        assert torch.equal(compiled(x), model(x))
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))
    strict = torch.compile(model, backend=fusewright.backend, options={"capture_sizes": [4], "strict": True})
    with torch.no_grad(), pytest.raises(RuntimeError, match="nothing is recorded here"):
        strict(x)


def test_a_number_of_the_host_is_a_part_of_what_is_recorded_on_a_device() -> None:
    kind = _capture._Recording(Recorder(), torch.device("cuda:0"), True).kind
    one, other = torch.tensor(1.0), torch.tensor(2.0)
    assert kind(one, False) == kind(torch.tensor(1.0), False) != kind(other, False)
    kind = _capture._Recording(Recorder(), torch.device("cpu"), True).kind
    assert kind(one, False) == kind(other, False)


def test_the_environment_gives_options_where_a_caller_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 64)
    seen: list[object] = []
    monkeypatch.setattr(_backend, "_by_inductor", lambda gm, _, options, *__: seen.append(options.mode) or gm.forward)

    def compiled(**options: object) -> int:
        torch._dynamo.reset()
        seen.clear()
        with torch.no_grad():
            torch.compile(lambda x: torch.relu(x) * 2.0, backend="fusewright", options=options)(x)
        return len(seen)

    assert compiled() == 0
    monkeypatch.setenv("FUSEWRIGHT_INNER", "inductor")
    assert compiled() == 1 and seen == ["exact"] and compiled(inner="eager") == 0
    monkeypatch.setenv("FUSEWRIGHT_MODE", "relaxed")
    assert compiled() == 1 and seen == ["relaxed"]
    assert compiled(mode="exact") == 1 and seen == ["exact"]
    monkeypatch.setenv("FUSEWRIGHT_INNER", "")
    assert compiled() == 0
    monkeypatch.setenv("FUSEWRIGHT_INNER", "aot")
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="FUSEWRIGHT_INNER is 'aot', none of eager, inductor"
    ):
        compiled()
