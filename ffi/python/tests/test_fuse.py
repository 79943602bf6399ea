"""``fusewright.fuse``: functions of a few ops in eager code."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from models import steps_apart

import fusewright


def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x) * y


def test_one_trace_serves_all_row_counts() -> None:
    fused = fusewright.fuse(gate, strict=True)
    for rows in (3, 2, 70, 9):
        x, y = torch.randn(rows, 40), torch.randn(rows, 40)
        assert steps_apart(fused(x, y), gate(x, y)) <= 4
    assert len(fused.traces) == 1
    assert [name for fusion in fused.results[0].fusions for name, _ in fusion.kernels] == ["silu_mul"]


def test_one_row_and_other_widths_are_kinds_of_their_own() -> None:
    fused = fusewright.fuse(strict=True)(gate)
    for shape in ((3, 40), (1, 40), (3, 8), (5, 40), (1, 40)):
        x, y = torch.randn(shape), torch.randn(shape)
        assert steps_apart(fused(x, y), gate(x, y)) <= 4
    assert len(fused.traces) == 3


def test_other_arguments_are_constants() -> None:
    @fusewright.fuse(strict=True)
    def scaled(x: torch.Tensor, by: float, relu: bool) -> torch.Tensor:
        y = x * by + 1.0
        return torch.relu(y) - x if relu else y - x

    x = torch.randn(4, 8)
    for by, relu in ((2.0, True), (2.0, False), (3.0, True), (2.0, True)):
        assert torch.equal(scaled(x, by, relu), scaled.fn(x, by, relu))
    assert len(scaled.traces) == 3


def test_tensors_without_order_are_put_in_order() -> None:
    fused = fusewright.fuse(gate, strict=True)
    x, y = torch.randn(40, 6).t(), torch.randn(6, 80)[:, ::2]
    assert steps_apart(fused(x, y), gate(x, y)) <= 4


def test_what_a_function_asks_of_its_sizes_is_asked_again() -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x * 2.0) - 1.0
        return y if x.shape[0] > 8 else y * 3.0

    fused = fusewright.fuse(padded, strict=True)
    for rows in (4, 8, 9, 40, 3):
        x = torch.randn(rows, 16)
        assert torch.equal(fused(x), padded(x)), rows
    assert len(fused.traces) == 2


def test_gradients_are_the_frameworks() -> None:
    fused = fusewright.fuse(gate, strict=True)
    x = torch.randn(3, 8, requires_grad=True)
    fused(x, x).sum().backward()
    assert x.grad is not None and not fused.traces
    with torch.no_grad():
        fused(x, x)
    assert len(fused.traces) == 1


def test_under_compile_the_function_itself_is_traced() -> None:
    fused = fusewright.fuse(gate, strict=True)
    x = torch.randn(3, 8)
    with torch.no_grad():
        got = torch.compile(lambda x: fused(x, x) + 1.0, backend="eager", fullgraph=True)(x)
    assert torch.equal(got, gate(x, x) + 1.0) and not fused.traces


def test_methods_are_bound() -> None:
    class Model:
        factor = 2.0

        @fusewright.fuse(strict=True)
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x * self.factor) + x

    x = torch.randn(3, 8)
    assert torch.equal(Model().run(x), torch.relu(x * 2.0) + x)


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))

    @fusewright.fuse(strict=True)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.weight) + 1.0


def test_weights_may_change_and_be_replaced() -> None:
    model, x = Scaled(), torch.randn(3, 8)

    def right() -> bool:
        return torch.equal(model(x), torch.relu(x * model.weight) + 1.0)

    with torch.no_grad():
        assert right()
        model.weight.mul_(2.0)
        assert right() and len(Scaled.forward.traces) == 1
        model.weight.data = torch.randn(8)
        assert right()
        model.weight = torch.nn.Parameter(torch.randn(8))
        assert right()
        model.load_state_dict({"weight": torch.randn(8)}, assign=True)
        assert right()


def test_a_function_that_is_not_fused_still_runs() -> None:
    fused = fusewright.fuse(lambda x: x @ x.t())
    x = torch.randn(3, 8)
    assert torch.equal(fused(x), x @ x.t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_empty_tensor_has_an_empty_result(dtype: torch.dtype) -> None:
    fused = fusewright.fuse(gate, strict=True)
    x = torch.randn(0, 8).to(dtype)
    assert fused(x, x).shape == (0, 8) and fused(x, x).dtype == dtype


def test_more_kinds_of_arguments_than_are_kept_are_said_once() -> None:
    def shifted(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.relu(x + n) if n % 40 != 39 else x

    def unrolled(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.relu(x + [*range(n)][-1])

    x = torch.randn(4, 8)
    fused, again = fusewright.fuse(shifted), fusewright.fuse(unrolled)
    for n in range(2, 60):
        assert torch.equal(fused(x, n), shifted(x, n))
    # Numbers that vary are symbols in the end, if the function has nothing against it.
    assert len(fused.traces) <= 6
    for n in range(2, 18):
        assert torch.equal(again(x, n), unrolled(x, n))
    with pytest.warns(UserWarning, match="keeps 16 traces"):
        assert torch.equal(again(x, 18), unrolled(x, 18))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(again(x, 19), unrolled(x, 19))


def test_numbers_are_what_they_are_to_the_sign_of_zero() -> None:
    scaled = fusewright.fuse(lambda x, by: torch.relu(x) * by, strict=True)
    x = torch.randn(3, 4)
    for by in (0.0, -0.0, float("nan"), 0.0, float("nan")):
        assert scaled(x, by).view(torch.int32).equal(scaled.fn(x, by).view(torch.int32))
    assert len(scaled.traces) == 3


def test_weights_that_train_get_their_gradients() -> None:
    model, x = Scaled(), torch.randn(3, 8)
    outside = torch.randn(8, requires_grad=True)
    closed = fusewright.fuse(lambda x: torch.relu(x * outside) + 1.0, strict=True)
    assert model(x).requires_grad and closed(x).requires_grad
    launches = fusewright.counters()["launches"]
    with torch.no_grad():
        assert torch.equal(model(x), torch.relu(x * model.weight) + 1.0) and not closed(x).requires_grad
    assert fusewright.counters()["launches"] == launches + 2


def test_arguments_that_share_memory_are_overwritten_as_one() -> None:
    def overwrites(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(y * 2.0)
        return x + y

    fused = fusewright.fuse(overwrites, strict=True)
    ours, theirs = torch.arange(9.0), torch.arange(9.0)
    for x, y in ((slice(1, None), slice(None, -1)), (slice(0, 4), slice(4, 8))):
        assert torch.equal(fused(ours[x], ours[y]), overwrites(theirs[x], theirs[y])) and torch.equal(ours, theirs)


class Counts(torch.nn.Module):
    """Writes into buffers of its own, one of them row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(4))
        self.register_buffer("last", torch.zeros(2, 4))
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.last[0] = self.last[1]
        self.last[1] = self.calls * 2
        return torch.relu(self.norm(x) * 2) + self.calls + self.last[0]


def test_what_a_function_writes_elsewhere_is_written_once_a_call() -> None:
    ours, theirs = Counts(), Counts()
    fused = fusewright.fuse(ours, strict=True)
    with torch.no_grad():
        for rows in (4, 6, 3, 4):
            for x in (torch.randn(rows, 4), torch.randn(rows, 8)[:, :4]):
                torch.testing.assert_close(fused(x), theirs(x))
                assert all(map(torch.equal, ours.buffers(), theirs.buffers()))


def by_its_sum(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


@pytest.mark.parametrize(
    "function",
    [by_its_sum, lambda x: x.numpy() + 1, lambda x: x[0].tolist(), lambda x: x * len(repr(x)) + 1.0],
)
def test_what_cannot_be_traced_runs_as_it_is(function) -> None:
    fused = fusewright.fuse(function)
    x = torch.rand(3, 4)
    line = function.__code__.co_firstlineno + (function is by_its_sum)
    says = rf"it looks at elements of a tensor, at .*test_fuse.py:{line}"
    with pytest.warns(UserWarning, match=f"cannot trace .*{says}"):
        fused(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (torch.as_tensor(fused(-x)) == torch.as_tensor(function(-x))).all()
    with pytest.raises(fusewright.CompileError, match=says) as refused:
        fusewright.fuse(function, strict=True)(x)
    assert refused.value.source in str(refused.value)


def test_a_wrong_call_is_refused_by_pytorch_and_the_next_is_fused() -> None:
    fused = fusewright.fuse(gate)
    with pytest.raises(RuntimeError, match=r"\(5\).*\(4\)"):
        fused(torch.randn(3, 5), torch.randn(3, 4))
    x = torch.randn(3, 4)
    assert steps_apart(fused(x, x), gate(x, x)) <= 4 and len(fused.traces) == 1


def test_casts_of_autocast_are_pytorchs() -> None:
    fused = fusewright.fuse(lambda x: torch.relu(x @ x.t()) + 1.0)
    x = torch.randn(4, 4)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(fused(x), fused.fn(x)) and fused(x).dtype == torch.bfloat16
        assert torch.equal(fused(x), fused.fn(x)) and fused(x).dtype == torch.float32


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(is_enabled: bool) -> None:
    x = torch.randn(4, 4)
    if not is_enabled:
        gc.disable()
    try:
        fusewright.fuse(gate, strict=True)(x, x)
        with pytest.raises(fusewright.CompileError, match="elements"):
            fusewright.fuse(by_its_sum, strict=True)(x)
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()
