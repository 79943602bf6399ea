"""``fuse``: variables that functions read by name, what is reached from there, and attributes of what is fused."""

import copy
import functools
import sys
import weakref
from collections import ChainMap
from collections.abc import Callable
from types import MappingProxyType, ModuleType
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


class Held:
    """A layer, a number behind a method, and one that the class has."""

    term = 1.0

    def __init__(self) -> None:
        self.layer = torch.nn.Linear(8, 8).requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(8).eval().requires_grad_(False)
        self._by, self.act = 2.0, scaled_by_global

    def by(self) -> float:
        return self._by

    def __getitem__(self, _: int) -> float:
        return self._by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.layer(x))) * self.by() + self.term + self[0]


class Apart(torch.nn.Module):
    """Layers that the module does not list as its own."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held, self.layers = held, [held.layer]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layers[0](x)) + self.held(x)


def scaled_by_global(x: torch.Tensor) -> torch.Tensor:
    return activation(x) * FACTOR


activation = torch.nn.functional.relu
HELD = {"one": Held()}

CHANGES: dict[str, Callable[[Held, pytest.MonkeyPatch], Any]] = {
    "weight": lambda held, _: setattr(held.layer, "weight", torch.nn.Parameter(torch.ones(8, 8), requires_grad=False)),
    "mode": lambda held, _: held.norm.train(),
    "hook": lambda held, _: held.layer.register_forward_hook(lambda module, args, made: made * 3.0),
    "behind a method": lambda held, _: setattr(held, "_by", 3.0),
    "method": lambda held, _: setattr(held, "by", lambda: 5.0),
    "default of a class": lambda held, _: setattr(held, "term", 5.0),
    "function": lambda held, _: setattr(held, "act", torch.exp),
    "global of a function": lambda _, patch: patch.setitem(globals(), "FACTOR", 5.0),
    "function of a library": lambda _, patch: patch.setitem(globals(), "activation", torch.nn.functional.silu),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "of", [lambda held: held, Apart, lambda held: lambda x: held(x) + 1.0, lambda _: lambda x: HELD["one"](x) + 1.0]
)
def test_what_is_reached_by_names_and_elements_may_change(of, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    monkeypatch.setitem(HELD, "one", held)
    function, x = of(held), torch.randn(4, 8)
    fused = fusewright.fuse(function, strict=True)
    before = function(x)
    torch.testing.assert_close(fused(x), before)
    CHANGES[change](held, monkeypatch)
    after = fused(x)
    torch.testing.assert_close(after, function(x))
    assert not torch.equal(after, before) and len(fused.traces) == 2


def test_a_global_or_attribute_that_was_not_there_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Namespace()
    _kept_up(
        fusewright.fuse(lambda x: x * getattr(held, "by", 2.0) + 1.0, strict=True), lambda: setattr(held, "by", 5.0)
    )

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (5.0 if "absent" in globals() else abs(2.0)) + 1.0

    _kept_up(fusewright.fuse(function, strict=True), lambda: monkeypatch.setitem(globals(), "abs", lambda _: 7.0))


def test_weights_of_which_a_function_asks_the_kind_alone_may_change() -> None:
    class Typed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(self.weight.dtype) * self.weight.numel() + 1.0

    changes: list[Callable[[Typed], Any]] = [
        lambda module: module.half(),
        lambda module: setattr(module, "weight", torch.nn.Parameter(torch.ones(16), requires_grad=False)),
    ]
    for change in changes:
        module, x = Typed(), torch.randn(4, 8)
        fused = fusewright.fuse(module, strict=True)
        fused(x)
        change(module)
        assert torch.equal(fused(x), module(x)) and fused(x).dtype == module(x).dtype


def test_what_is_behind_views_references_and_imports_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    held, owner = {"by": 2.0}, Namespace(by=2.0)
    view, chain, reference = MappingProxyType(held), ChainMap({}, held), weakref.ref(owner)
    module = ModuleType("of_test_fuse_variables")
    module.by = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def imports(x: torch.Tensor) -> torch.Tensor:
        from of_test_fuse_variables import by  # type: ignore[import-not-found]

        return x * by + 1.0

    class Partly:
        def scaled(self, more: float, x: torch.Tensor) -> torch.Tensor:
            return x * FACTOR * more

        method = functools.partialmethod(scaled, 1.5)

    partly = Partly()
    for function, change in (
        (lambda x: x * view["by"] + 1.0, lambda: held.update(by=3.0)),
        (lambda x: x * chain["by"] + 1.0, lambda: held.update(by=4.0)),
        (lambda x: x * reference().by + 1.0, lambda: setattr(owner, "by", 3.0)),
        (imports, lambda: setattr(module, "by", 3.0)),
        (lambda x: partly.method(x) + 1.0, lambda: monkeypatch.setitem(globals(), "FACTOR", 9.0)),
    ):
        _kept_up(fusewright.fuse(function, strict=True), change)


def test_names_of_its_own_are_not_set_and_methods_are_compared() -> None:
    module = Module()
    fused, x = fusewright.fuse(lambda x, act: act(x) * 2.0, strict=True), torch.randn(4, 8)
    for _ in range(3):
        assert torch.equal(fused(x, module.scaled), module.scaled(x) * 2.0)
    assert len(fused.traces) == 1
    for name in ("fn", "options", "traces", "results"):
        with pytest.raises(AttributeError, match=f"`{name}` is of what `fuse` gives"):
            setattr(fused, name, None)


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
