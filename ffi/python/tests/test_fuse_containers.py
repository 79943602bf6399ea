"""``fuse``: containers that show other elements than they hold, large ones, and tables that are filled."""

import warnings
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import fusewright


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
