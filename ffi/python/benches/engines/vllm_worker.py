"""A worker with an engine of vLLM in one mode: ``vllm_worker.py MODEL MODE``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from counts import Counts
from worker import seconds_since_begun, serve

_BACKEND = {"mode": 2, "backend": "fusewright"}
#: What a mode gives to the engine, and the variables of its process.
MODES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "f32": ({"enforce_eager": True, "dtype": "float32"}, {}),
    "eager": ({"enforce_eager": True}, {}),
    "inductor": ({}, {}),
    "fusewright": ({"compilation_config": {**_BACKEND, "custom_ops": ["none"]}}, {}),
    "fusewright, vLLM's own ops": ({"compilation_config": _BACKEND}, {}),
    "fusewright, Inductor for the rest": (
        {"compilation_config": {**_BACKEND, "custom_ops": ["none"]}},
        {"FUSEWRIGHT_INNER": "inductor"},
    ),
    "fusewright, relaxed": (
        {"compilation_config": {**_BACKEND, "custom_ops": ["none"]}},
        {"FUSEWRIGHT_MODE": "relaxed"},
    ),
    "inductor with the pass": ({}, {}),
    "door pass": ({}, {"FUSEWRIGHT_VLLM": "pass"}),
    "door compiler": ({"compilation_config": {"mode": 2, "backend": "eager"}}, {"FUSEWRIGHT_VLLM": "compiler"}),
}
#: Tokens whose log-probabilities are compared are at most as many as one call computes.
POSITIONS = 512


def environment(mode: str) -> dict[str, str]:
    """Variables of a mode's process: one thread, and one process for all of the engine."""
    return {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "FUSEWRIGHT_VLLM": "",
        **MODES[mode][1],
    }


def started(path: str, mode: str) -> tuple[Any, dict[str, Callable[..., Any]]]:
    """Starts an engine, which gives its first token; says how long that took."""
    import torch
    import vllm

    counts = Counts()
    imported = seconds_since_begun()
    given = dict(MODES[mode][0])
    if mode == "inductor with the pass":
        import fusewright

        # As the post pass: before Inductor's own passes are done, sums of residuals lie in products.
        own = {"post_grad_custom_post_pass": fusewright.inductor_pass()}
        given["compilation_config"] = {"inductor_compile_config": own}
    elif mode.startswith("fusewright"):
        import fusewright
    engine = vllm.LLM(
        model=path,
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        max_model_len=POSITIONS,
        max_num_batched_tokens=POSITIONS,
        max_num_seqs=8,
        **{"dtype": "bfloat16", **given},
    )
    ready = seconds_since_begun()

    def run(prompts: list[list[int]], **more: Any) -> Any:
        asked = vllm.SamplingParams(temperature=0.0, ignore_eos=True, detokenize=False, **more)
        return engine.generate([{"prompt_token_ids": ids} for ids in prompts], asked, use_tqdm=False)

    def tokens(prompts: list[list[int]], count: int) -> Any:
        begun, busy, before = time.perf_counter(), time.process_time(), _launches()
        made = [list(done.outputs[0].token_ids) for done in run(prompts, max_tokens=count)]
        taken = time.perf_counter() - begun, time.process_time() - busy
        return {"seconds": taken[0], "cpu_seconds": taken[1], "launches": _launches() - before, "tokens": made}

    def logprobs(prompts: list[list[int]]) -> Any:
        found = run(prompts, max_tokens=1, prompt_logprobs=0)
        # Nothing is known of the first token of a prompt.
        return [
            [place[token].logprob for token, place in zip(ids[1:], done.prompt_logprobs[1:], strict=True)]
            for ids, done in zip(prompts, found, strict=True)
        ]

    run([[3, 4, 5, 6]], max_tokens=2)
    first = {"imported": imported, "ready": ready, "first": seconds_since_begun(), "threads": torch.get_num_threads()}
    return {**first, **counts.found()}, {"tokens": tokens, "logprobs": logprobs, "counts": counts.found}


def _launches() -> int:
    if sys.modules.get("fusewright") is None:
        return 0
    import fusewright

    return int(fusewright.counters()["launches"])


def _hide() -> None:
    """Makes a process one without Fusewright: no module of that name, and no entry points."""
    import importlib.metadata

    sys.modules["fusewright"] = None  # type: ignore[assignment]
    found = importlib.metadata.entry_points

    def others(**named: Any) -> Any:
        return type(found())(point for point in found(**named) if not point.value.startswith("fusewright"))

    importlib.metadata.entry_points = others


if __name__ == "__main__":
    if "FUSEWRIGHT_BENCH_WITHOUT" in os.environ:
        _hide()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    serve(lambda: started(*sys.argv[1:]))
