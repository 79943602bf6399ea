"""``fuse``: variables that functions read by name, and bits of tensors that their dtype does not tell."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import fusewright


class Namespace:
    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


FACTOR = 2.0
TERMS = [1.0, 2.0]
CONFIG = Namespace(within=Namespace(term=1.0), unread=0)


def helped(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR + TERMS[1] + CONFIG.within.term


def by_globals(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(helped(x)) + 1.0


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8), requires_grad=False)
        self.config = Namespace(term=1.0)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR * self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.scaled(x) + self.config.term)


def _kept_up(fused: Any, change: Callable[[], Any]) -> None:
    """A function fused is the function before a change and behind it, and the change is seen in its results."""
    x = torch.randn(4, 8)
    before = fused.fn(x)
    assert torch.equal(fused(x), before)
    change()
    assert torch.equal(fused(x), fused.fn(x)) and not torch.equal(fused(x), before)
    assert len(fused.traces) == 2


def test_variables_of_enclosing_functions_may_be_bound_anew() -> None:
    factor, term, held = 2.0, torch.ones(8), Namespace(by=1.0)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * factor + term) * held.by

    def bind(number: float | None = None, tensor: torch.Tensor | None = None, around: Namespace | None = None) -> None:
        nonlocal factor, term, held
        factor = factor if number is None else number
        term = term if tensor is None else tensor
        held = held if around is None else around

    for change in ({"number": 3.0}, {"tensor": torch.full((8,), 2.0)}, {"around": Namespace(by=5.0)}):
        _kept_up(fusewright.fuse(function, strict=True), functools.partial(bind, **change))


def test_defaults_and_code_may_be_replaced() -> None:
    def function(x: torch.Tensor, by: float = 2.0, *, term: float = 1.0) -> torch.Tensor:
        return torch.relu(x * by) + term

    def other(x: torch.Tensor, by: float = 2.0, *, term: float = 1.0) -> torch.Tensor:
        return torch.relu(x - by) + term

    changes: dict[str, Callable[[], Any]] = {
        "__defaults__": lambda: setattr(function, "__defaults__", (7.0,)),
        "__kwdefaults__": lambda: function.__kwdefaults__.update(term=9.0),
        "__code__": lambda: setattr(function, "__code__", other.__code__),
    }
    for change in changes.values():
        _kept_up(fusewright.fuse(function, strict=True), change)


@pytest.mark.parametrize(
    "of", [lambda: by_globals, lambda: functools.partial(by_globals), Module, lambda: Module().scaled]
)
def test_globals_that_a_function_or_its_helpers_name_may_be_bound_anew(of, monkeypatch: pytest.MonkeyPatch) -> None:
    _kept_up(fusewright.fuse(of(), strict=True), lambda: monkeypatch.setitem(globals(), "FACTOR", 5.0))


def test_what_is_read_of_globals_may_change_and_what_is_not_read_traces_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "TERMS", [1.0, 2.0])
    _kept_up(fusewright.fuse(by_globals, strict=True), lambda: TERMS.__setitem__(1, 8.0))
    _kept_up(fusewright.fuse(by_globals, strict=True), lambda: monkeypatch.setattr(CONFIG.within, "term", 4.0))
    _kept_up(
        fusewright.fuse(by_globals, strict=True), lambda: monkeypatch.setattr(CONFIG, "within", Namespace(term=-2.0))
    )
    other = lambda x: x * 11.0 + 1.0  # noqa: E731
    _kept_up(fusewright.fuse(by_globals, strict=True), lambda: monkeypatch.setitem(globals(), "helped", other))
    fused, x = fusewright.fuse(by_globals, strict=True), torch.randn(4, 8)
    fused(x)
    monkeypatch.setattr(CONFIG, "unread", 7)
    fused(x)
    assert len(fused.traces) == 1


def test_objects_within_modules_may_change() -> None:
    module = Module()
    _kept_up(fusewright.fuse(module, strict=True), lambda: setattr(module.config, "term", 3.0))


def test_a_fused_module_has_what_the_module_has() -> None:
    module, x = Module(), torch.randn(4, 8)
    fused = fusewright.fuse(module, strict=True)
    assert fused.eval() is fused and not module.training and fused.to(torch.float32) is fused
    assert list(fused.state_dict()) == ["weight"] and [*fused.parameters()] == [module.weight]
    fused.extra = 5
    assert module.extra == 5 and "extra" in dir(fused)
    del fused.extra
    assert not hasattr(module, "extra") and not hasattr(fused, "extra")
    _kept_up(fused, lambda: setattr(fused, "weight", torch.nn.Parameter(torch.zeros(8), requires_grad=False)))
    other = copy.deepcopy(fused)
    assert type(other) is type(fused) and other.fn is not module and torch.equal(other(x), fused(x))


@pytest.mark.parametrize("what", [None, 3, torch.nn.Linear])
def test_what_is_no_function_is_refused(what: Any) -> None:
    with pytest.raises(TypeError, match="`fuse` takes a function or a module, not"):
        fusewright.fuse(what)


@pytest.mark.parametrize("overwrites", [False, True])
def test_tensors_that_stand_for_their_negatives_or_conjugates_are_what_they_stand_for(overwrites: bool) -> None:
    real = (lambda x: x.mul_(2.0).relu_()) if overwrites else (lambda x: torch.relu(x * 2.0) + 1.0)
    of_complex = (lambda z: z.mul_(z).add_(1.0)) if overwrites else (lambda z: z * z + 1.0)
    x, z = torch.randn(4, 8), torch.randn(4, 8, dtype=torch.complex64)
    for function, plain, turned in (
        (real, x, torch._neg_view),
        (real, z, lambda z: z.conj().imag),
        (of_complex, z, torch.conj),
    ):
        fused = fusewright.fuse(function)
        first = plain.clone() if function is of_complex or plain is x else plain.imag.clone()
        assert torch.equal(fused(first.clone()), function(first.clone()))
        one, other = turned(plain.clone()), turned(plain.clone())
        assert torch.equal(fused(one), function(other)) and torch.equal(one, other)
        assert torch.equal(fused(first.clone()), function(first.clone()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", ["fuse", "torch.compile"])
def test_a_bound_of_zero_keeps_zeros_of_either_sign(way: str, dtype: torch.dtype) -> None:
    functions: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: 1.0 / torch.relu(x),
        lambda x: torch.nn.functional.relu6(x * 1.0) * 1.0,
        lambda x: torch.nn.functional.hardtanh(x * 1.0, 0.0, 1.0) * 1.0,
        lambda x: (x * 1.0).clamp(min=0) * 1.0,
        lambda x: (x * 1.0).clamp_min_(0.0) * 1.0,
        lambda x: (x * 1.0).clamp(-1.0, -0.0) * 1.0,
        lambda x: torch.relu(x * 1.0).square(),
    ]
    x = torch.tensor([-0.0, 0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf")] * 9, dtype=dtype)
    for function in functions:
        torch._dynamo.reset()
        fused = (
            fusewright.fuse(function, strict=True) if way == "fuse" else torch.compile(function, backend="fusewright")
        )
        for rows in (1, 3, len(x)):
            got, expected = fused(x[:rows].clone()), function(x[:rows].clone())
            torch.testing.assert_close(got, expected, rtol=0.0, atol=0.0, equal_nan=True)
            numbers = ~expected.isnan()
            assert torch.equal(torch.signbit(got[numbers]), torch.signbit(expected[numbers]))
