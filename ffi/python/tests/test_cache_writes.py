"""Writes of parts of a tensor of the caller, in every spelling: only the part is written, and nothing is copied."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule, Node

import fusewright
from fusewright import _backend, _fuse
from fusewright._graph import value
from fusewright._nodes import is_getitem, is_view
from fusewright._options import Options

ROWS, HEADS, SLOTS, WIDTH = 3, 2, 48, 16


def new(k: torch.Tensor) -> torch.Tensor:
    """Rows that are computed, as keys are."""
    return torch.relu(k * 2.0) + 1.0


def slot(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 5] = new(k)


def slot_from_the_end(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, -1] = new(k)


def first_slot(c: torch.Tensor, k: torch.Tensor) -> None:
    c.select(2, 0).copy_(new(k))


def stretch(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 7:9] = new(k).unsqueeze(2)


def last_stretch(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, -3:] = new(k).unsqueeze(2)


def every_seventh(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 1::7] = new(k).unsqueeze(2)


def lanes_of_a_slot(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 4, 3:7] = new(k)[..., 3:7]


def every_other_lane(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 6, 1::2] = new(k)[..., 1::2]


def several_axes(c: torch.Tensor, k: torch.Tensor) -> None:
    c[1, :, 3:5, ::2] = new(k)[0, :, None, ::2]


def row_of_pages(c: torch.Tensor, k: torch.Tensor) -> None:
    c.view(-1, WIDTH)[9] = new(k)[0, 0]


def through_a_transposition(c: torch.Tensor, k: torch.Tensor) -> None:
    c.transpose(1, 2)[:, 5] = new(k)


def diagonal(c: torch.Tensor, k: torch.Tensor) -> None:
    c.diagonal(0, 0, 1).copy_(new(k)[0, 0, :2].expand(SLOTS, WIDTH, 2))


def strided(c: torch.Tensor, k: torch.Tensor) -> None:
    c.as_strided((ROWS, WIDTH), (HEADS * SLOTS * WIDTH, 1), 5 * WIDTH).copy_(new(k)[:, 0])


def scattered_and_copied(c: torch.Tensor, k: torch.Tensor) -> None:
    c.copy_(torch.select_scatter(c, new(k), 2, 11))


def two_slots(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 5] = new(k)
    c[:, :, 6] = new(k * 3.0)


def added(c: torch.Tensor, k: torch.Tensor) -> None:
    c[:, :, 5] += new(k)


SPELLINGS = (
    slot,
    slot_from_the_end,
    first_slot,
    stretch,
    last_stretch,
    every_seventh,
    lanes_of_a_slot,
    every_other_lane,
    several_axes,
    row_of_pages,
    through_a_transposition,
    strided,
    scattered_and_copied,
    two_slots,
    added,
)
#: These write as much as a tensor that is not small beside the cache.
LARGE = (diagonal,)


def tensors(dtype: torch.dtype = torch.float32, lies: str = "whole") -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    shape = {"whole": (ROWS, HEADS, SLOTS, WIDTH), "turned": (ROWS, SLOTS, HEADS, WIDTH)}
    if lies == "with gaps":
        c = torch.randn(ROWS, 2, HEADS, SLOTS, WIDTH)[:, 1]
    elif lies == "turned":
        c = torch.randn(shape["turned"]).transpose(1, 2)
    elif lies == "a part":
        c = torch.randn(2, ROWS, HEADS, SLOTS, WIDTH)[1]
    else:
        c = torch.randn(shape["whole"])
    return c.to(dtype), torch.randn(ROWS, HEADS, WIDTH)


def read(write: Callable[..., None]) -> Callable[..., torch.Tensor]:
    """The write, and what is read of the tensor behind it."""

    def function(c: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        write(c, k)
        return c[:, :, 3:12].float() * 2.0

    return function


def read_before(write: Callable[..., None]) -> Callable[..., torch.Tensor]:
    """The write, and what is read of the tensor ahead of it and behind it."""

    def function(c: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        before = torch.cumsum(c[:, :, 3:12].float(), -1)
        write(c, k)
        return c[:, :, 3:12].float() - before

    return function


def moved(function: Callable[..., Any], *given: torch.Tensor, **options: Any) -> int:
    """The elements that a fused function writes: those of every tensor that its graph makes or copies to."""
    graphs: list[GraphModule] = []

    def inference(graph: GraphModule, _: Any) -> Callable[..., Any]:
        results.append(_backend.fuse_module(graph, Options.of({"strict": True, **options})))
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    results: list[_fuse.Result] = []
    compiler = aot_autograd(
        fw_compiler=inference, inference_compiler=inference, decompositions={}, keep_inference_input_mutations=True
    )
    with torch.no_grad():
        torch.compile(function, backend=compiler, fullgraph=True)(*given)
    (graph,), (result,) = graphs, results
    calls = {fusion.call.function: fusion.call for fusion in result.fusions}
    count = 0
    for node in graph.graph.nodes:
        if node.op != "call_function" or is_getitem(node) or is_view(node):
            continue
        if node.target in calls:
            shapes = [made for made in calls[node.target].record.outputs if made.overwrites is None]
            count += sum(math.prod(int(n) for n in made.shape) for made in shapes)
        elif not is_onto_itself(node):
            count += value(node).numel()
    return count


def is_onto_itself(node: Node) -> bool:
    """Says whether a node copies what a kernel has written where the caller has it."""
    if node.target is not torch.ops.aten.copy_.default:
        return False
    source = node.args[1]
    while isinstance(source, Node) and (is_view(source) or is_getitem(source)):
        source = source.args[0]
    return isinstance(source, Node) and not isinstance(source.target, torch._ops.OpOverload)


def same(function: Callable[..., Any], fused: Callable[..., Any], *given: torch.Tensor) -> None:
    def copies() -> list[torch.Tensor]:
        # In the layout that they have.
        made = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in given]
        return [t.copy_(source) for t, source in zip(made, given, strict=True)]

    own, others = copies(), copies()
    with torch.no_grad():
        got, expected = fused(*own), function(*others)
    torch.testing.assert_close(got, expected, equal_nan=True)
    for a, b in zip(own, others, strict=True):
        assert torch.equal(
            a.view(torch.uint8) if a.is_contiguous() else a.float(),
            b.view(torch.uint8) if b.is_contiguous() else b.float(),
        )


def fused(function: Callable[..., Any], door: str) -> Callable[..., Any]:
    if door == "fuse":
        return fusewright.fuse(function, strict=True)
    return torch.compile(function, backend=fusewright.backend, options={"strict": True, "inner": door}, fullgraph=True)


#: Every spelling of every layout that it can be written for.
LAYOUTS = [
    (write, lies)
    for write in SPELLINGS
    for lies in ("whole", "a part", "turned", "with gaps")
    if not (write in (row_of_pages, strided) and lies in ("turned", "with gaps"))
]


@pytest.mark.parametrize(("write", "lies"), LAYOUTS, ids=lambda given: getattr(given, "__name__", given))
def test_only_the_part_is_written(write: Callable[..., None], lies: str) -> None:
    c, k = tensors(lies=lies)
    cache, rows = c.numel(), k.numel()
    # What a write computes, and its own copy of that: never anything of the size of the cache.
    assert moved(write, c, k) <= 8 * rows < cache // 4


@pytest.mark.parametrize("write", SPELLINGS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("reads", [read, read_before])
def test_what_is_read_beside_is_not_copied_either(write: Callable[..., None], reads: Callable[..., Any]) -> None:
    c, k = tensors()
    shown = c[:, :, 3:12].numel()
    assert moved(reads(write), c, k) <= 8 * k.numel() + 4 * shown


@pytest.mark.parametrize("door", ["eager", "inductor", "fuse"])
@pytest.mark.parametrize("write", (*SPELLINGS, *LARGE), ids=lambda write: write.__name__)
def test_callers_see_what_was_written(write: Callable[..., None], door: str) -> None:
    for reads in (read, read_before):
        torch._dynamo.reset()
        compiled = fused(reads(write), door)
        for _ in range(2):
            same(reads(write), compiled, *tensors())


@pytest.mark.parametrize("lies", ["a part", "turned", "with gaps"])
@pytest.mark.parametrize("write", [slot, stretch, every_other_lane, several_axes], ids=lambda write: write.__name__)
def test_caches_that_lie_otherwise(write: Callable[..., None], lies: str) -> None:
    torch._dynamo.reset()
    same(read(write), fused(read(write), "eager"), *tensors(lies=lies))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("write", [slot, every_seventh, lanes_of_a_slot], ids=lambda write: write.__name__)
def test_caches_of_other_dtypes(write: Callable[..., None], dtype: torch.dtype) -> None:
    def function(c: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        rows = k.clamp(-3, 3).to(dtype)
        if write is slot:
            c[:, :, 5] = rows
        elif write is every_seventh:
            c[:, :, 1::7] = rows.unsqueeze(2)
        else:
            c[:, :, 4, 3:7] = rows[..., 3:7]
        return c[:, :, 3:9].float()

    torch._dynamo.reset()
    c, k = tensors()
    k[0, 0, :4] = torch.tensor([0.0, -0.0, 1e-40, 3.5])
    same(function, fused(function, "eager"), c.clamp(-3, 3).to(dtype), k)


def test_a_slot_that_is_a_symbol_is_written_with_one_kernel() -> None:
    def step(c: torch.Tensor, k: torch.Tensor, i: int) -> torch.Tensor:
        c[:, :, i] = new(k)
        return c[:, :, :4] * 2.0

    torch._dynamo.reset()
    compiled = torch.compile(step, backend=fusewright.backend, options={"strict": True}, dynamic=True)
    c, k = tensors()
    made = set()
    for at in (7, 3, SLOTS - 1, 2):
        own, other = c.clone(), c.clone()
        with torch.no_grad():
            assert torch.equal(compiled(own, k, at), step(other, k, at))
        assert torch.equal(own, other)
        made.add(fusewright.counters()["compiles"])
    assert len(made) == 1


def test_what_is_returned_is_no_memory_of_the_caller() -> None:
    def function(c: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        whole = torch.select_scatter(c, new(k), 2, 3)
        c.copy_(whole)
        return whole

    torch._dynamo.reset()
    c, k = tensors()
    with torch.no_grad():
        got = fused(function, "eager")(c, k)
    assert got.data_ptr() != c.data_ptr() and torch.equal(got, c)
    c.zero_()
    assert got[:, :, 3].abs().sum() > 0


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def test_inductor_leaves_residuals_to_our_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A residual that is added to a product, and the norm of the sum, are one kernel; the product stays alone."""
    from torch._inductor import compile_fx
    from torch._inductor.graph import GraphLowering

    called: list[str] = []
    run = GraphLowering.run

    def noted(self: Any, *args: Any) -> Any:
        called.extend(str(node.target) for node in self.module.graph.nodes if node.op == "call_function")
        return run(self, *args)

    assert compile_fx is not None
    monkeypatch.setattr(GraphLowering, "run", noted)

    def layer(x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor, v: torch.Tensor, n: torch.Tensor) -> Any:
        h = residual + torch.nn.functional.linear(x, w)
        return h + torch.nn.functional.linear(_norm(h, n), v), h

    torch._dynamo.reset()
    given = [torch.randn(8, 32), torch.randn(8, 32), torch.randn(32, 32), torch.randn(32, 32), torch.randn(32)]
    compiled = torch.compile(layer, backend=fusewright.backend, options={"strict": True, "inner": "inductor"})
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        torch.testing.assert_close(compiled(*given), layer(*given))
    products = [name for name in called if "mm" in name]
    # The last sum is read by nobody's norm: Inductor may fold that one.
    assert called.count("fusewright.call.default") == 1 and products[0] == "aten.mm.default", called


def test_old_values_that_need_each_others_new_ones_are_kept() -> None:
    """Each old value is read together with the new value of the other tensor: not both writes can be made in place."""

    def function(a: torch.Tensor, b: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b_new = torch.select_scatter(b, new(k), 2, 3)
        first = torch.cumsum(a[:, :, 2:5], -1) + b_new[:, :, 2:5]
        a_new = torch.select_scatter(a, new(k * 2.0), 2, 4)
        second = torch.cumsum(b[:, :, 2:5], -1) + a_new[:, :, 2:5]
        a.copy_(a_new)
        b.copy_(b_new)
        return first, second

    a, k = tensors()
    for door in ("eager", "inductor", "fuse"):
        same(function, fused(function, door), a, a * 2.0, k)
