"""What a fused call costs beside its kernel: by itself, as a custom operator, through ``fuse`` and through ``torch.compile``.

Run by hand, on an idle machine: ``python benches/host_cost.py``. Tensors are of a few elements, so that the kernel itself
takes no time worth counting; its own launch is in all figures. Fails if one is above its limit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

import fusewright
from fusewright import _ops
from fusewright._fuse import Result

#: Microseconds that a call may cost.
LIMITS = {"direct call": 5.0, "custom operator": 10.0}
CALLS, ROUNDS = 5000, 9


def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y) + y


def microseconds(call: Callable[[], object]) -> float:
    """The median of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter() - begin) / CALLS * 1e6)
    return sorted(rounds)[ROUNDS // 2]


def main() -> int:
    torch.set_num_threads(1)
    x, y = torch.randn(4, 16), torch.randn(4, 16)
    fused = fusewright.fuse(gate, strict=True)
    fused(x, y)
    (result,) = fused.results
    assert isinstance(result, Result)
    call = result.fusions[0].call
    function, key = call.function, _ops.register(call.record, call.function)
    operator = torch.ops.fusewright.call.default
    compiled = torch.compile(gate, backend=fusewright.backend, options={"strict": True})
    with torch.no_grad():
        measured = {
            "direct call": microseconds(lambda: function(x, y)),
            "custom operator": microseconds(lambda: operator([x, y], [], key)),
            "fuse": microseconds(lambda: fused(x, y)),
            "torch.compile": microseconds(lambda: compiled(x, y)),
            "PyTorch's three operators": microseconds(lambda: gate(x, y)),
        }
    for name, cost in measured.items():
        limit = f" (limit {LIMITS[name]:.0f})" if name in LIMITS else ""
        print(f"{name:28}{cost:7.2f} us{limit}")
    return int(any(measured[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
