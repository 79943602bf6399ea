"""Copies into another order of the axes on an NVIDIA GPU: by fusewright, by PyTorch as it is, and by Inductor.

``python benches/copies_cuda.py OUT.jsonl`` runs by hand, on an idle machine. Each copy is recorded as a CUDA graph of several
launches behind each other on sets of memory that together leave the cache; a figure is the median of its replays, in
microseconds for a launch. ``memory`` is a copy of as many bytes as they lie.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models_cuda import compiled, microseconds, recorded

#: Bytes that are written between two launches on the same memory, so that nothing is read from the cache.
BETWEEN = 200 << 20
MOST_SETS, REPLAYS = 64, 21


def rows_of_heads(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).contiguous()


def repeated(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, None].expand(-1, -1, 4, -1, -1).clone(memory_format=torch.contiguous_format)


def a_third(x: torch.Tensor) -> torch.Tensor:
    return x[..., : x.shape[-1] // 3].contiguous()


#: What is copied, of which shapes.
CASES: list[tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = [
    *((rows_of_heads, (1, heads, rows, width)) for heads, width in ((32, 96), (32, 128), (16, 256), (32, 80))
      for rows in (32, 512, 2048)),
    (rows_of_heads, (8, 32, 512, 128)),
    (rows_of_heads, (1, 2048, 32, 128)),
    (repeated, (1, 8, 2048, 128)),
    (a_third, (2048, 3 * 4096)),
]  # fmt: skip
DTYPES = (torch.bfloat16, torch.float32, torch.uint8)


def sets_of(shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    bits = torch.randint(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), device="cuda", dtype=torch.uint8)
    count = min(MOST_SETS, max(2, BETWEEN // bits.numel()))
    return [bits.clone().view(dtype) for _ in range(count)]


def measured(function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    torch._dynamo.reset()
    sets = sets_of(shape, dtype)
    expected = function(sets[0])
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "eager": function,
        "fusewright": compiled(function, (sets[0],), "fusewright"),
        "inductor": compiled(function, (sets[0],), "inductor"),
    }
    us: dict[str, float] = {}
    results = [torch.empty_like(expected) for _ in sets]
    for name, call in calls.items():
        got = call(sets[0])
        assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8)), name
        graph = recorded(lambda call=call: [call(x) for x in sets], 1)
        us |= microseconds({name: graph.replay}, 1, REPLAYS)
        del graph, got
        torch.cuda.empty_cache()
    sources = [torch.empty_like(expected) for _ in sets]
    graph = recorded(lambda: [result.copy_(source) for result, source in zip(results, sources)], 1)
    us |= microseconds({"memory": graph.replay}, 1, REPLAYS)
    # Of what is repeated or left out, as much as is written.
    return {name: time / len(sets) for name, time in us.items()}, 2 * expected.numel() * expected.element_size()


def main() -> int:
    torch.set_grad_enabled(False)
    out = Path(sys.argv[1])
    for dtype in DTYPES:
        for function, shape in CASES:
            us, moved = measured(function, shape, dtype)
            row = {"case": function.__name__, "shape": shape, "dtype": str(dtype)[6:], "us": us, "bytes": moved}
            row["device"] = torch.cuda.get_device_name()
            shown = " ".join(f"{name} {time:7.2f} us {moved / time / 1e6:5.2f} TB/s" for name, time in us.items())
            print(f"{function.__name__:14} {row['dtype']:9} {list(shape)!s:22} {shown}", flush=True)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
