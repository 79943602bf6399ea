"""``fuse``: parameters, buffers, submodules and modes of the modules that a function reaches, and other objects."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import fusewright


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm: torch.nn.Module = torch.nn.LayerNorm(8).requires_grad_(False)
        self.bias: torch.nn.Parameter | None
        self.register_parameter("bias", None)
        self.weight = torch.nn.Parameter(torch.rand(8), requires_grad=False)
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.rand(1))
        self.rest = torch.nn.Sequential(torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.rest(self.norm(x * self.scale)) * self.weight
        y = y if self.bias is None else y + self.bias
        return y * 2.0 if self.training else y


class Engine:
    """Has a module in an attribute, and reads a weight of it without a call."""

    def __init__(self, module: Scaled) -> None:
        self.parts = {"model": module}

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts["model"](x) + self.parts["model"].weight


HELD = Scaled()


def by_default(module: Scaled) -> Any:
    def call(x: torch.Tensor, module: Scaled = module) -> torch.Tensor:
        return module(x)

    return call


def through_a_global(module: Scaled) -> Any:
    global HELD
    HELD = module
    return lambda x: HELD(x)


DOORS: list[Callable[[Scaled], Any]] = [
    lambda m: m,
    lambda m: m.forward,
    by_default,
    lambda m: functools.partial(m),
    lambda m: lambda x: m(x),
    lambda m: functools.partial(lambda table, x: table["m"](x), {"m": m}),
    through_a_global,
    lambda m: Engine(m).step,
]
CHANGES: dict[str, Callable[[Scaled], Any]] = {
    "submodule": lambda m: setattr(m, "norm", torch.nn.Identity()),
    "weight": lambda m: setattr(m, "weight", torch.nn.Parameter(torch.rand(8), requires_grad=False)),
    "no weight": lambda m: setattr(m, "bias", torch.nn.Parameter(torch.randn(8), requires_grad=False)),
    "state": lambda m: m.load_state_dict({k: torch.rand_like(v) for k, v in m.state_dict().items()}, assign=True),
    "buffer": lambda m: setattr(m, "scale", torch.rand(1)),
    "extent": lambda m: setattr(m.weight, "data", m.weight.data[:1]),
    "type": lambda m: m.half().float(),
    "elements": lambda m: m.norm.weight.mul_(3.0),
    "mode": lambda m: m.eval(),
    "item": lambda m: m.rest.append(torch.nn.Hardtanh()),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("door", DOORS)
def test_what_modules_hold_may_change(door: Callable[[Scaled], Any], change: str) -> None:
    module = Scaled()
    function, x = door(module), torch.randn(4, 8)
    fused = fusewright.fuse(function, strict=True)
    torch.testing.assert_close(fused(x), function(x))
    CHANGES[change](module)
    for _ in range(3):
        torch.testing.assert_close(fused(x), function(x))


def test_modes_are_kinds_and_what_is_replaced_is_not_kept() -> None:
    module, x = Scaled(), torch.randn(4, 8)
    fused = fusewright.fuse(module, strict=True)
    for _ in range(2):
        for mode in (True, False):
            module.train(mode)
            torch.testing.assert_close(fused(x), module(x))
    assert len(fused.traces) == 2
    old = weakref.ref(module.weight)
    module.weight = torch.nn.Parameter(torch.rand(8), requires_grad=False)
    torch.testing.assert_close(fused(x), module(x))
    gc.collect()
    assert old() is None and len(fused.traces) == 1


def test_weights_that_train_get_their_gradients_and_that_is_said_once() -> None:
    module = Scaled()
    fused, x = fusewright.fuse(module, strict=True), torch.randn(4, 8)
    assert not fused(x).requires_grad
    module.requires_grad_(True)
    with pytest.warns(UserWarning, match=r"needs? gradients: call it under `torch.no_grad\(\)`"):
        assert fused(x).requires_grad
    with torch.no_grad():
        assert not fused(x).requires_grad and len(fused.traces) == 1


def test_all_else_is_a_constant_and_what_is_read_of_tensors_is_not() -> None:
    def scaled(x: torch.Tensor, module: Any) -> torch.Tensor:
        return torch.relu(x * module.factor) + 1.0

    class Factor(torch.nn.Module):
        factor = 2.0

    module, x = Factor(), torch.randn(3, 8)
    fused, strict = fusewright.fuse(scaled), fusewright.fuse(scaled, strict=True)
    first = fused(x, module), strict(x, module)
    module.factor = 3.0
    assert torch.equal(fused(x, module), first[0])
    with pytest.raises(fusewright.CompileError, match=r"what it gives is another .*scaled"):
        strict(x, module)
    assert not fusewright.check(fused, x, module).passed
    module.factor = 2.0
    assert fusewright.check(fused, x, module).passed


class Leaves(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table: torch.Tensor | None = None
        self.calls, self.seen, self.known = 0, list[int](), dict[int, torch.Tensor]()

    def forward(self, x: torch.Tensor, how: str) -> torch.Tensor:
        if how == "attribute" and self.table is None:
            self.table = torch.arange(8.0)
        elif how == "count":
            self.calls += 1
        elif how == "list":
            self.seen.append(x.shape[-1])
        elif how == "dictionary" and x.shape[-1] not in self.known:
            self.known[x.shape[-1]] = torch.arange(8.0)
        return x + 1.0


@pytest.mark.parametrize("how", ["attribute", "count", "list", "dictionary"])
def test_what_is_left_behind_is_what_the_function_leaves(how: str) -> None:
    module, other, x = Leaves(), Leaves(), torch.ones(3, 8)
    fused = fusewright.fuse(module)
    is_every = how in ("count", "list")
    with pytest.warns(UserWarning, match="sets attributes") if is_every else torch.no_grad():
        for _ in range(3):
            assert torch.equal(fused(x, how), other(x, how))
    # What a first call makes, later ones find.
    assert (module.calls, module.seen) == (other.calls, other.seen) and len(fused.traces) == (not is_every)
    for made in (module.table, *module.known.values()):
        assert made is None or torch.equal(made, torch.arange(8.0))


def test_memory_that_is_overwritten_is_looked_for_in_constants_and_in_parts() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1.0)
        return y * 2.0

    fused = fusewright.fuse(twice, strict=True)
    fused(torch.randn(8), torch.randn(8))
    memory = np.zeros(12, np.float32)
    assert fused(torch.from_numpy(memory[:8]), torch.from_numpy(memory[4:])).tolist() == [2.0] * 4 + [0.0] * 4

    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held: torch.Tensor
            self.register_buffer("held", torch.zeros(4, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1.0)
            return self.held * 2.0 + x

    module = Held()
    called = fusewright.fuse(module, strict=True)
    called(torch.randn(4, 8))
    assert torch.equal(called(module.held), torch.full((4, 8), 3.0))


def test_every_layer_of_a_model_is_fused() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8), requires_grad=False)

        @fusewright.fuse(strict=True)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x * self.weight) + 1.0

    layers, x = [Layer() for _ in range(70)], torch.randn(3, 8)
    for _ in range(2):
        for layer in layers:
            assert torch.equal(layer(x), torch.relu(x * layer.weight) + 1.0)
        assert len(Layer.forward.traces) == 70
    gone = weakref.ref(layers[0])
    del layers, layer
    gc.collect()
    assert gone() is None and Layer.forward.traces == []


def test_a_fused_module_has_what_the_module_has() -> None:
    module, x = Scaled(), torch.randn(4, 8)
    fused = fusewright.fuse(module, strict=True)
    assert fused.eval() is fused and not module.training and fused.weight is module.weight
    fused.weight = torch.nn.Parameter(torch.rand(8), requires_grad=False)
    assert module.weight is fused.weight
    torch.testing.assert_close(fused(x), module(x))
    assert "forward" not in vars(module) and {"traces", "norm"} <= set(dir(fused))
    with pytest.raises(AttributeError, match="set it on `fn`"):
        fused.traces = []


def test_methods_of_a_module_call_its_fused_forward() -> None:
    class Loops(Scaled):
        def run(self, x: torch.Tensor, times: int) -> torch.Tensor:
            for _ in range(times):
                x = self(x)
            return x

    module, x = Loops(), torch.randn(4, 8)
    fused = fusewright.fuse(module, strict=True)
    expected, launches = module.run(x, 3), fusewright.counters()["launches"]
    torch.testing.assert_close(fused.run(x, 3), expected)
    assert (
        fusewright.counters()["launches"] >= launches + 3 and "forward" not in vars(module) and len(fused.results) == 1
    )
