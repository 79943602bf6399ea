"""``fusewright.fuse``: what a function finds around it, gives back and leaves behind."""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import fusewright


def test_what_a_function_overwrites_and_gives_is_the_argument() -> None:
    def gives_both(x: torch.Tensor) -> Any:
        return {"sum": x.add_(1.0), "more": x * 2.0 - 1.0}

    one, both = fusewright.fuse(lambda x: x.add_(1.0), strict=True), fusewright.fuse(gives_both, strict=True)
    for x in (torch.zeros(3, 8), torch.zeros(3, 16)[:, ::2], torch.zeros(1, 8)):
        assert one(x) is x and torch.equal(x, torch.ones_like(x))
        made = both(x)
        assert made["sum"] is x and torch.equal(made["more"], torch.full_like(x, 3.0))


@pytest.mark.filterwarnings("ignore:fusewright")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.add_(1.0).view(-1),
        lambda x: (x.mul_(2.0) + 1.0, x[:, :1])[1],
        lambda x: (x.view(-1), x.add_(1.0))[0],
    ],
)
def test_views_of_what_is_overwritten_are_views(function: Any) -> None:
    x = torch.ones(3, 8)
    made = fusewright.fuse(function)(x)
    assert made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm: torch.nn.Module = torch.nn.LayerNorm(8).requires_grad_(False)
        self.bias: torch.nn.Parameter | None
        self.register_parameter("bias", None)
        self.weight = torch.nn.Parameter(torch.rand(8), requires_grad=False)
        self.rest, self.factor = torch.nn.Sequential(torch.nn.ReLU()), 2.0
        self.factors, self.named = [1.0, 2.0], {"scale": 0.5}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.rest(self.norm(x * self.factor)) * self.weight * self.factors[0] * self.named["scale"]
        return y if self.bias is None else y + self.bias


def by_default(module: Scaled) -> Any:
    def call(x: torch.Tensor, module: Scaled = module) -> torch.Tensor:
        return module(x)

    return call


CHANGES = {
    "submodule": lambda m: setattr(m, "norm", torch.nn.Identity()),
    "item": lambda m: m.rest.append(torch.nn.Hardtanh()),
    "no weight": lambda m: setattr(m, "bias", torch.nn.Parameter(torch.randn(8), requires_grad=False)),
    "element": lambda m: m.factors.__setitem__(0, 3.0),
    "entry": lambda m: m.named.update(scale=2.0),
    "setting": lambda m: setattr(m, "factor", 3.0),
    "hook": lambda m: m.register_forward_hook(lambda module, args, made: made * 2.0),
    "inner hook": lambda m: m.norm.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,)),
    "extent": lambda m: setattr(m.weight, "data", m.weight.data[:1]),
    "elements": lambda m: m.norm.weight.mul_(3.0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("door", [lambda m: m, lambda m: m.forward, by_default, lambda m: functools.partial(m)])
def test_what_modules_hold_may_change(door: Any, change: str) -> None:
    module = Scaled()
    function, x = door(module), torch.randn(4, 8)
    fused = fusewright.fuse(function, strict=True)
    torch.testing.assert_close(fused(x), function(x))
    CHANGES[change](module)
    torch.testing.assert_close(fused(x), function(x))


def test_what_is_set_to_what_it_was_is_no_change() -> None:
    module, x = Scaled(), torch.randn(4, 8)
    fused = fusewright.fuse(module, strict=True)
    for _ in range(3):
        fused(x)
        module.factor, module.factors = float("2.0"), module.factors
    assert len(fused.traces) == 1


def test_weights_that_begin_to_train_get_their_gradients() -> None:
    module = Scaled()
    fused, x = fusewright.fuse(module, strict=True), torch.randn(4, 8)
    assert not fused(x).requires_grad
    module.requires_grad_(True)
    assert fused(x).requires_grad
    with torch.no_grad():
        assert not fused(x).requires_grad and len(fused.traces) == 1


class Reads(torch.nn.Module):
    def __init__(self, how: Any) -> None:
        super().__init__()
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.full((), 3.0))
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.how(self.scale)


@pytest.mark.filterwarnings("ignore:fusewright")
@pytest.mark.parametrize("how", [torch.Tensor.item, float, torch.Tensor.tolist, lambda t: float(t.numpy())])
def test_elements_that_are_read_are_read_by_every_call(how: Any) -> None:
    module = Reads(how)
    fused, x = fusewright.fuse(module), torch.ones(3, 8)
    for scale in (3.0, 7.0):
        module.scale.fill_(scale)
        assert torch.equal(fused(x), x * scale)


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
    for call in range(3):
        # What a first call makes, later ones find.
        with pytest.warns(UserWarning, match="sets attributes") if is_every and call == 1 else nullcontext():
            assert torch.equal(fused(x, how), other(x, how))
    assert (module.calls, module.seen) == (other.calls, other.seen)
    assert len(fused.traces) == (not is_every)
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


def test_one_tensor_given_twice_is_one() -> None:
    def same(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2.0 + 1.0 if x is y else x - y * 3.0

    fused = fusewright.fuse(same, strict=True)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for pair in ((x, x), (x, y), (y, y), (y, x)):
        assert torch.equal(fused(*pair), same(*pair))
    assert len(fused.traces) == 2


def test_objects_may_change_and_containers_are_not_fused() -> None:
    fused = fusewright.fuse(lambda x, o: x * o.t + 1.0, strict=True)
    held, x = SimpleNamespace(t=torch.ones(8)), torch.ones(3, 8)
    for factor in (1.0, 5.0):
        held.t = torch.full((8,), factor)
        assert torch.equal(fused(x, held), x * factor + 1.0)
    several = fusewright.fuse(lambda x, of: x * of[0] + 1.0)
    with pytest.warns(UserWarning, match="`deque`"):
        several(x, deque([x]))
    assert not several.traces


@dataclasses.dataclass
class Made:
    one: torch.Tensor


@pytest.mark.filterwarnings("ignore:fusewright")
def test_results_are_arranged_as_the_function_arranges_them() -> None:
    x = torch.ones(2, 8)
    assert torch.equal(fusewright.fuse(lambda x: Made(x + 1.0))(x).one, x + 1.0)
    ordered = fusewright.fuse(lambda x: OrderedDict(b=x * 2.0, a=(x, [x - 1.0, None, 3]), n=x.shape[0]), strict=True)
    for rows in (2, 5):
        y = torch.ones(rows, 8)
        made = ordered(y)
        assert type(made) is OrderedDict and list(made) == ["b", "a", "n"]
        assert made["a"][0] is y and made["a"][1][1:] == [None, 3] and made["n"] == rows


def test_every_layer_of_a_model_is_fused() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8), requires_grad=False)

        @fusewright.fuse(strict=True)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x * self.weight) + 1.0

    # More than the objects that are gone of which a warning speaks.
    layers, x = [Layer() for _ in range(70)], torch.randn(3, 8)
    for layer in layers:
        assert torch.equal(layer(x), torch.relu(x * layer.weight) + 1.0)
    kept = list(Layer.forward.traces)
    assert len(kept) == 70
    for layer in layers:
        assert torch.equal(layer(x), torch.relu(x * layer.weight) + 1.0)
    assert Layer.forward.traces == kept
