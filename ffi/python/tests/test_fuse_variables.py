"""``fuse``: variables that functions read by name, and bits of tensors that their dtype does not tell."""

import copy
import functools
import sys
import warnings
import weakref
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterator
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


def test_the_memory_of_a_tensor_that_is_found_may_be_replaced() -> None:
    weight = torch.ones(1024)
    fused, x = fusewright.fuse(lambda x: (x * weight + weight) * 2.0, strict=True), torch.ones(2, 1024)
    assert torch.equal(fused(x), fused.fn(x))
    weight.data = torch.ones(1)
    assert torch.equal(fused(x), fused.fn(x))


def test_large_containers_that_are_not_read_are_not_compared() -> None:
    class Words(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = {str(i): i for i in range(1000)}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2.0 + 1.0

    module, x = Words(), torch.randn(4, 8)
    fused = fusewright.fuse(module, strict=True)
    fused(x)
    module.words["new"] = 1
    assert torch.equal(fused(x), module(x)) and len(fused.traces) == 1


def test_a_mode_sees_functions_and_a_default_device_is_none() -> None:
    class Sevens(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            return made * 0.0 + 7.0 if func is torch.relu else made

    fused, x = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True), torch.randn(4, 8)
    with Sevens():
        assert torch.equal(fused(x), torch.full_like(x, 8.0))
    assert torch.equal(fused(x), fused.fn(x)) and len(fused.traces) == 1
    with Sevens():
        assert torch.equal(fused(x), torch.full_like(x, 8.0))
    makes = fusewright.fuse(lambda x: (torch.relu(x * 2.0) + 1.0, torch.ones(3)), strict=True)
    for device in ("cpu", "meta", "cpu"):
        with torch.device(device):
            assert makes(x)[1].device.type == device
    assert makes(x)[1].device.type == "cpu" and len(makes.traces) == 3


def test_tensors_that_have_no_strides_or_memory_are_not_fused() -> None:
    fused, x = fusewright.fuse(lambda x: x * 2.0 * 3.0), torch.randn(4, 8)
    fused(x)
    for other in (x.to_sparse_csr(), x.to_sparse(), torch.nested.nested_tensor([x, x], layout=torch.strided)):
        with pytest.warns(UserWarning, match="does not look into a"):
            again = fusewright.fuse(fused.fn)
            again(other)
        assert type(fused(other)) is type(fused.fn(other))
    assert torch.equal(fused(torch._efficientzerotensor((4, 8))), torch.zeros(4, 8))


def test_what_needs_numbers_is_traced_for_them() -> None:
    table = {rows: float(rows) for rows in range(8)}
    fused = fusewright.fuse(lambda x: x * table[x.shape[0]] + 1.0, strict=True)
    for rows in (4, 3, 4):
        x = torch.randn(rows, 8)
        assert torch.equal(fused(x), fused.fn(x))
    assert len(fused.traces) == 2


class Lazy(dict[str, Any]):
    """Values that are made as they are asked for."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


class LazyOrdered(OrderedDict[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


class Tenfold(list[float]):
    def __iter__(self) -> Iterator[float]:
        return (value * 10.0 for value in super().__iter__())


@pytest.mark.parametrize(
    ("table", "raw"),
    [
        (Lazy(act=torch.nn.ReLU), dict.items),
        (LazyOrdered(act=torch.nn.ReLU, other=torch.nn.Tanh), OrderedDict.items),
        (Tenfold([1.0, 2.0]), list.__iter__),
    ],
)
def test_containers_that_show_something_else_than_they_hold_are_left_as_they_are(table: Any, raw: Any) -> None:
    before = list(raw(table))
    key = 0 if isinstance(table, list) else "act"
    of = (lambda x: x * table[key] + 1.0) if isinstance(table, list) else (lambda x: table[key](x) + 1.0)
    fused, x = fusewright.fuse(of), torch.randn(4, 8)
    for _ in range(3):
        assert torch.equal(fused(x), of(x))
    assert list(raw(table)) == before


def test_modules_of_torchscript_are_not_looked_into() -> None:
    x = torch.randn(4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))
        scripts = (
            torch.jit.script(torch.nn.Linear(8, 8)),
            torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(8, 8)), x),
        )
    for script in scripts:
        for function in (script, lambda x, script=script: script(x) + 1.0):
            fused = fusewright.fuse(function)
            with torch.no_grad(), pytest.warns(UserWarning, match="a module of TorchScript"):
                assert torch.equal(fused(x), function(x))


def test_as_many_layers_as_a_model_has_keep_their_traces() -> None:
    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8), requires_grad=False)

        @fusewright.fuse(strict=True)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x * self.weight) + 1.0

    norms, x = [Norm() for _ in range(70)], torch.randn(4, 8)
    for norm in norms:
        norm(x)
    kept = list(Norm.forward.traces)
    for norm in norms:
        assert torch.equal(norm(x), Norm.forward.fn(norm, x))
    assert Norm.forward.traces == kept and len(kept) == 70


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


COUNTS = {"calls": 0}


def counted(x: torch.Tensor) -> torch.Tensor:
    COUNTS["calls"] += 1
    return x * 2.0


def test_a_helper_that_counts_is_called_by_every_call() -> None:
    fused, x, before = fusewright.fuse(lambda x: counted(x) + 1.0), torch.randn(4, 8), COUNTS["calls"]
    with pytest.warns(UserWarning, match="it sets attributes, or changes lists"):
        for _ in range(5):
            assert torch.equal(fused(x), x * 2.0 + 1.0)
    assert COUNTS["calls"] == before + 5 and not fused.traces


def test_a_table_may_be_filled_by_the_first_call_of_every_kind() -> None:
    class Tables(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.made: dict[torch.dtype, torch.Tensor] = {}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype not in self.made:
                self.made[x.dtype] = torch.arange(8).to(x.dtype)
            return torch.relu(x * self.made[x.dtype])

    fused, x = fusewright.fuse(Tables(), strict=True), torch.randn(4, 8)
    for dtype in (torch.float32, torch.float64) * 3:
        assert torch.equal(fused(x.to(dtype)), torch.relu(x.to(dtype) * torch.arange(8).to(dtype)))
    assert {trace.expected[0].dtype for trace in fused.traces} == {torch.float32, torch.float64}


def test_names_of_its_own_are_not_set_and_methods_are_compared() -> None:
    module = Module()
    fused, x = fusewright.fuse(lambda x, act: act(x) * 2.0, strict=True), torch.randn(4, 8)
    for _ in range(3):
        assert torch.equal(fused(x, module.scaled), module.scaled(x) * 2.0)
    assert len(fused.traces) == 1
    for name in ("fn", "options", "traces", "results"):
        with pytest.raises(AttributeError, match=f"`{name}` is of what `fuse` gives"):
            setattr(fused, name, None)


def test_every_other_column_is_one_kind_of_tensor() -> None:
    fused = fusewright.fuse(lambda x: (x + 1.0) * 2.0, strict=True)
    for rows in (4, 4, 6):
        x = torch.randn(rows, 16)[:, ::2]
        assert torch.equal(fused(x), fused.fn(x))
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
