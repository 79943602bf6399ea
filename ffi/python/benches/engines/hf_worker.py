"""A worker with a model of Hugging Face's transformers in one mode: ``hf_worker.py FAMILY SIZE MODE CACHE FOLDER``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
from counts import Counts
from worker import seconds_since_begun, serve

#: How a mode runs a model; `f32` is the one that others are compared with.
MODES = ("f32", "eager", "inductor", "fusewright", "fuse")
#: Kinds of caches of keys and values, as `generate` names them.
CACHES = {"dynamic": None, "static": "static"}


def changed(model: Any, mode: str) -> Any:
    """The model as a mode runs it."""
    import torch

    if mode == "f32":
        return model.float()
    if mode == "fuse":
        import fusewright

        return fusewright.fuse(model)
    if mode != "eager":
        model.forward = torch.compile(model.forward, backend=mode)
    return model


def started(family: str, size: str, mode: str, cache: str, folder: str) -> tuple[Any, dict[str, Callable[..., Any]]]:
    """Loads a model."""
    import torch
    import transformers

    torch.set_num_threads(1)
    counts = Counts()
    path = models.written(family, size, Path(folder))
    given: Any = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    model = changed(given.eval(), mode)

    def tokens(prompts: list[list[int]], count: int) -> Any:
        ids = torch.tensor(prompts)
        begun, busy = time.perf_counter(), time.process_time()
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            cache_implementation=CACHES[cache],
            # Whoever compiles is the mode's choice.
            disable_compile=True,
        )
        taken = time.perf_counter() - begun, time.process_time() - busy
        return {"seconds": taken[0], "cpu_seconds": taken[1], "tokens": made[:, ids.shape[1] :].tolist()}

    def logprobs(prompts: list[list[int]]) -> Any:
        ids = torch.tensor(prompts)
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits.float().log_softmax(-1)
        return logits[:, :-1].gather(-1, ids[:, 1:, None])[..., 0].tolist()

    return {"ready": seconds_since_begun()}, {"tokens": tokens, "logprobs": logprobs, "counts": counts.taken}


if __name__ == "__main__":
    serve(lambda: started(*sys.argv[1:]))
