"""Operators of users that write into their arguments: they write where that changes nothing else, with the same results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._higher_order_ops import auto_functionalize as forms

import fusewright
from fusewright import _capture, _inplace


@torch.library.custom_op("fusewright_tests::gate_into", mutates_args=("out",))
def gate_into(out: torch.Tensor, x: torch.Tensor, scale: float = 2.0) -> None:
    out.copy_(torch.sigmoid(x) * scale)


@torch.library.custom_op("fusewright_tests::turn", mutates_args=("q", "k"))
def turn(q: torch.Tensor, k: torch.Tensor | None, by: torch.Tensor) -> None:
    q.mul_(by)
    if k is not None:
        k.add_(by)


@torch.library.custom_op("fusewright_tests::count_into", mutates_args=("seen",))
def count_into(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    seen.add_(x.sum(0))
    return x.amax(-1)


@count_into.register_fake
def _(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0])


@torch.library.custom_op("fusewright_tests::fill_all", mutates_args=("into",))
def fill_all(into: list[torch.Tensor], x: torch.Tensor) -> None:
    for i, tensor in enumerate(into):
        tensor.copy_(x + i)


def made_and_filled(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    gate_into(out, torch.relu(x * other) + other)
    return torch.relu(out + x) * 2.0


def parts_of_a_product(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    whole = x @ other.t()
    half = x.shape[0] // 2
    left, right = whole[:, :half], whole[:, half : 2 * half]
    turn(left, right, torch.sigmoid(x[:, :half]) + 1.0)
    return torch.relu(whole + 1.0) * 2.0


def rows_that_are_seen_otherwise(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    whole = torch.relu(x + other) * 3.0
    turn(whole.view(x.shape[0], 4, 16).transpose(0, 1)[1], None, torch.sigmoid(other[:, :16]) * 0.5)
    return torch.relu(whole - other) + x


def several(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    into = [torch.empty_like(x), torch.empty_like(x)]
    fill_all(into, torch.relu(x) * other)
    return torch.sigmoid(into[0] * into[1]) + x


def a_caller_s_tensor(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    most = count_into(torch.relu(x) * 2.0, other[0])
    turn(other, x, torch.sigmoid(other) + 1.0)
    return torch.relu(other * 0.5) + most[:, None]


def read_before_it_is_written(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    old = torch.relu(x * other) + 1.0
    kept = torch.sigmoid(old * 2.0) * old
    turn(old, None, other)
    return torch.relu(old * kept) + x


def copied_first(x: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    old = x @ other.t()
    new = old.clone()
    turn(new, None, torch.sigmoid(other[:, : other.shape[0]]) + 1.0)
    return torch.relu(new * 2.0) + 1.0, old


def given_too(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    whole = torch.relu(x + other) * 2.0
    turn(whole, None, whole)
    return torch.sigmoid(whole * 0.1) + other


#: Functions, and how many copies they need.
FUNCTIONS: dict[Callable[..., object], int] = {
    made_and_filled: 0,
    parts_of_a_product: 0,
    rows_that_are_seen_otherwise: 0,
    several: 0,
    a_caller_s_tensor: 0,
    read_before_it_is_written: 0,
    copied_first: 1,
    given_too: 1,
}


@pytest.fixture
def forms_run(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The operators whose functional forms run in Python."""
    run: list[object] = []
    for form in (forms.auto_functionalized, forms.auto_functionalized_v2):
        call = type(form).__call__

        def counted(self, op, *args, _call=call, **kwargs):
            run.append(op)
            return _call(self, op, *args, **kwargs)

        monkeypatch.setattr(type(form), "__call__", counted)
    return run


def given(rows: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(rows, 64), torch.randn(rows, 64)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_operators_write_in_place_of_forms_with_copies(
    function: Callable[..., object], dynamic: bool, forms_run: list[object]
) -> None:
    compiled = torch.compile(function, backend="fusewright", options={"strict": True}, dynamic=dynamic, fullgraph=True)
    expected, got = given(), given()
    results = []
    with torch.no_grad():
        compiled(*given())
        forms_run.clear()
        for call, arguments in ((function, expected), (compiled, got)):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                results.append(call(*arguments))
    assert torch.allclose(*map(torch.cat, map(_several, results)), rtol=1e-6, atol=1e-6)
    for mine, wanted in zip(got, expected, strict=True):
        assert torch.allclose(mine, wanted, rtol=1e-6, atol=1e-6)
    clones = sum(event.name == "aten::clone" for event in profile.events())
    assert forms_run == [] and clones == FUNCTIONS[function]


def _several(results: object) -> list[torch.Tensor]:
    return [t.flatten() for t in (results if isinstance(results, tuple) else (results,))]


def test_a_form_that_is_unknown_stays(monkeypatch: pytest.MonkeyPatch, forms_run: list[object]) -> None:
    monkeypatch.setattr(_inplace, "_are_known", lambda _: False)
    x, other = given()
    compiled = torch.compile(made_and_filled, backend=fusewright.backend, options={"strict": True})
    with torch.no_grad():
        assert torch.allclose(compiled(x, other), made_and_filled(x, other))
    assert forms_run


def test_a_piece_that_writes_what_it_made_is_recorded() -> None:
    """Such a write is made again by every replay; one into what the piece was given would be lost."""

    def pieces(function: Callable[..., object]) -> set[str]:
        found: list[set[str]] = []

        def compiler(gm: torch.fx.GraphModule, _: object):
            _inplace.write_in_place(gm.graph)
            gm.recompile()
            found.append(_capture._split(gm, ["aten.mm"])[1])
            return gm.forward

        from torch._dynamo.backends.common import aot_autograd

        backend = aot_autograd(fw_compiler=compiler, decompositions={}, keep_inference_input_mutations=True)
        with torch.no_grad():
            torch.compile(function, backend=backend)(*given())
        (apart,) = found
        return apart

    def own(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return made_and_filled(x, other) @ other.t()

    def across(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        old = torch.relu(x)
        product = x @ other.t()
        turn(old, None, other)
        return product @ old

    assert pieces(own) == {"submod_1"}
    assert pieces(a_caller_s_tensor) == {"submod_0"}
    assert len(pieces(across)) == 3
