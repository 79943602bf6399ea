"""What a fused call costs beside its kernel: by itself, as a custom operator, through ``fuse`` and through ``torch.compile``.

Run by hand, on an idle machine: ``python benches/host_cost.py [DEVICE]``, such as ``cuda:1``. Tensors are of a few elements,
so that the kernel itself takes no time worth counting; its launch is in all figures, and by itself another. On a GPU, whose
driver takes microseconds for a launch, limits are of what a call costs beside that, and a round is no longer than what its
stream takes without making the caller wait. Fails if a figure is above its limit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch

import fusewright
from fusewright import _call, _ops
from fusewright._fuse import Result

#: Microseconds that a call may cost.
LIMITS = {"direct call": 5.0, "custom operator": 10.0}
CALLS, ROUNDS = 5000, 9
#: Calls of a round on a GPU, whose stream holds about a thousand launches.
CALLS_ON_GPU = 250


def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y) + y


def microseconds(call: Callable[[], object], device: torch.device) -> float:
    """The median of several rounds."""
    rounds = []
    on_gpu = device.type == "cuda"
    calls, count = (CALLS_ON_GPU, 20 * ROUNDS) if on_gpu else (CALLS, ROUNDS)
    for _ in range(count):
        if on_gpu:
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - begin) / calls * 1e6)
    return sorted(rounds)[count // 2]


def main() -> int:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="?", type=torch.device, default="cpu")
    device = parser.parse_args().device
    x, y = torch.randn(4, 16, device=device), torch.randn(4, 16, device=device)
    fused = fusewright.fuse(gate, strict=True)
    fused(x, y)
    (result,) = fused.results
    assert isinstance(result, Result)
    call = result.fusions[0].call
    function, part = call.function, _ops.register(call.record, call.function)
    operator = torch.ops.fusewright.call.default
    compiled = torch.compile(gate, backend=fusewright.backend, options={"strict": True})
    kernel, result = call.kernel, torch.empty_like(x)
    values = _call.symbols(call.record)(x, y)
    sizes = tuple(values[symbol] for symbol in kernel.symbols)
    addresses = tuple(tensor.data_ptr() for tensor in (x, y, result))
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    with torch.no_grad():
        measured = {
            "launch alone": microseconds(lambda: kernel.launch(sizes, addresses, 1, stream), device),
            "direct call": microseconds(lambda: function(x, y), device),
            "custom operator": microseconds(lambda: operator([x, y], [], part), device),
            "fuse": microseconds(lambda: fused(x, y), device),
            "torch.compile": microseconds(lambda: compiled(x, y), device),
            "PyTorch's three operators": microseconds(lambda: gate(x, y), device),
        }
    for name, cost in measured.items():
        limit = f" (limit {LIMITS[name]:.0f})" if name in LIMITS else ""
        print(f"{name:28}{cost:7.2f} us{limit}")
    beside = measured["launch alone"] if device.type == "cuda" else 0.0
    return int(any(measured[name] - beside > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
