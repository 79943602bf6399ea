"""How far results of a model may be from eager's: computed by running it with other results that its kernels might give.

Every element of a fused part has a range of values that its graph allows, most of one value alone. A model in which each
part gives one or the other end of these ranges is as right as any; what its results spread over is what may be expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fusewright import _native
from fusewright._backend import compile_graph
from fusewright._call import symbols
from fusewright._check import _on_host
from fusewright._fuse import Call
from fusewright._graph import memory_order, value
from fusewright._options import Options


class Ends:
    """A backend whose fused parts give an end of the range of each element: ``choose`` picks the upper ones."""

    def __init__(self, choose: Callable[[torch.Size], torch.Tensor]) -> None:
        self.choose = choose

    def __call__(self, gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(gm, inputs, Options(strict=True), insert=self._insert)

    def _insert(self, graph: Graph, call: Call, tensors: list[Node], sizes: list[Node]) -> Node:
        orders = [memory_order(value(node)) for node in call.program.outputs]
        sizes_of = symbols(call.record)

        def ends(*given: Any) -> Any:
            made = call.function(*given)
            results = made if isinstance(made, tuple) else (made,)
            inputs = [_on_host(tensor) for tensor in given[: len(tensors)]]
            for result, order, pair in zip(
                results, orders, _native.enclose(call.program.text, sizes_of(*given), inputs), strict=True
            ):
                if not result.is_floating_point():
                    # Integers such as the places of the largest belong together.
                    continue
                stored = result.permute(order)
                low, high = (torch.frombuffer(bytearray(end), dtype=torch.float64) for end in pair)
                low, high = low.reshape(stored.shape), high.reshape(stored.shape)
                chosen = torch.where(self.choose(stored.shape), high, low)
                # Where the graph allows one value alone that is what there is; NaN and infinity stay what they are.
                free = (low < high) & chosen.isfinite()
                stored.copy_(torch.where(free, chosen.to(stored.dtype), stored))
            return made

        return graph.call_function(ends, (*tensors, *sizes))


def spread(model: Any, run: Callable[[Any], torch.Tensor], samples: int = 2) -> torch.Tensor:
    """How far apart the results of ``run`` are, element by element, for models whose parts give ends of their ranges: all
    lower ones, all upper ones, and ``samples`` at random."""
    sides = [lambda shape: torch.zeros(shape, dtype=torch.bool), lambda shape: torch.ones(shape, dtype=torch.bool)]
    made, ends = [], Ends(sides[0])
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=ends)
    for ends.choose in [*sides, *[lambda shape: torch.rand(shape) < 0.5] * samples]:
        made.append(run(compiled).double())
    torch._dynamo.reset()
    results = torch.stack(made)
    return results.amax(0) - results.amin(0)
