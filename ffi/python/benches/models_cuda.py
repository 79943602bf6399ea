"""Models on an NVIDIA GPU: by fusewright, by PyTorch as it is, and by Inductor, with and without its search.

``python benches/models_cuda.py OUT.json [--models qwen3,llama,…] [--tokens 1,32,512,2048] [--deadline SECONDS]`` runs by
hand, on an idle machine. Three figures for each model of one layer, of the sizes of a published one, with random weights:

* ``part``: what is neither a matrix product nor attention: calls of those give results that are there already. Both
  sides are recorded as CUDA graphs of several calls behind each other, which hold nothing else.
* ``model``: all of the model, called from Python, and recorded as a CUDA graph.
* ``compile``: seconds of a first call in a fresh process with empty caches, and of them the compiler's own.

``exact`` has Inductor round where the graph does, as the kernels of fusewright always do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from parts import Tensors, apart, looked_at, stood_in

Call = Callable[..., Any]

#: Name, the stem of its classes in transformers, and sizes.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": (
        "Qwen3",
        {
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
    "llama": (
        "Llama",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8},
    ),
    "gemma3": (
        "Gemma3Text",
        {
            "hidden_size": 3840,
            "intermediate_size": 15360,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
        },
    ),
    "phi3": (
        "Phi3",
        {"hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 32},
    ),
    "mixtral": (
        "Mixtral",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8},
    ),
    "qwen3_moe": (
        "Qwen3Moe",
        {
            "hidden_size": 2048,
            "moe_intermediate_size": 768,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "num_experts": 128,
        },
    ),
}
#: Variants: the mode of ``torch.compile`` and what is set for it. The last has Inductor compile what is not fused.
AUTOTUNED = "max-autotune-no-cudagraphs"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "inductor": ("default", {}),
    "inductor exact": ("default", {"emulate_precision_casts": True}),
    "autotuned": (AUTOTUNED, {}),
    "autotuned exact": (AUTOTUNED, {"emulate_precision_casts": True}),
    "fusewright inductor": ("", {}),
}
CHAIN, REPLAYS, CALLS = 8, 41, 30


def causal(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: None,
    scaling: float,
    **_: Any,
) -> Any:
    """Attention by PyTorch, causal as an engine's is: no mask is made for it."""
    made = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling, enable_gqa=True
    )
    return made.transpose(1, 2).contiguous(), None


class Tables(torch.nn.Module):
    """Rotary tables that were made before, as an engine has them: every layer reads the same."""

    def __init__(self, made_by: torch.nn.Module) -> None:
        super().__init__()
        self.made_by, self.made = made_by, dict[Any, Any]()

    def forward(self, rows: torch.Tensor, *positions: Any, **more: Any) -> Any:
        key = (rows.shape[1], *(word for word in (*positions, *more.values()) if isinstance(word, str)))
        if key not in self.made:
            self.made[key] = self.made_by(rows, *positions, **more)
        return self.made[key]


def model_of(name: str, layers: int, device: str, sizes: dict[str, Any] | None = None) -> torch.nn.Module:
    """A model without its head as a function of embedded rows ``[1, tokens, hidden]``."""
    import transformers

    stem, own = MODELS[name]
    config = getattr(transformers, f"{stem}Config")(
        **{**own, "num_hidden_layers": layers, "vocab_size": 128, "pad_token_id": 0, **(sizes or {})}
    )
    transformers.AttentionInterface.register("causal", causal)
    transformers.AttentionMaskInterface.register("causal", lambda *_, **__: None)
    config._attn_implementation = "causal"
    torch.manual_seed(0)
    with torch.device(device):
        inner = transformers.AutoModel.from_config(config, dtype=torch.bfloat16).eval()

    class Rows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs_embeds=rows, use_cache=False).last_hidden_state

    inner.rotary_emb = Tables(inner.rotary_emb)
    for norm in (module for module in inner.modules() if type(module).__name__.endswith("RMSNorm")):
        torch.nn.init.normal_(norm.weight, 1.0, 0.1)
    return Rows()


@contextlib.contextmanager
def setting(settings: dict[str, Any]) -> Iterator[None]:
    import torch._inductor.config as config

    with config.patch(settings):
        yield


def compiled(call: Call, inputs: Tensors, variant: str) -> Call:
    """A compiled call that was called once."""
    torch._dynamo.reset()
    if variant == "eager":
        made = call
    elif variant.startswith("fusewright"):
        options = {"strict": True, "inner": "inductor" if variant.endswith("inductor") else "eager"}
        made = torch.compile(call, backend="fusewright", dynamic=False, options=options)
    else:
        mode, settings = VARIANTS[variant]
        with setting(settings):
            made = torch.compile(call, mode=mode, dynamic=False)
            made(*inputs)
    made(*inputs)
    return made


def recorded(call: Callable[[], Any], times: int) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            call()
    return graph


def microseconds(call: Callable[[], Any], repeats: int, rounds: int) -> float:
    """The median of rounds of so many calls each, by the device's clock."""
    taken = []
    for _ in range(3):
        call()
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e3 / repeats)
    return statistics.median(taken)


def measured_part(name: str, tokens: int, out: Callable[..., None], variants: list[str]) -> None:
    module = model_of(name, 1, "cuda")
    rows = torch.randn(1, tokens, module.inner.config.hidden_size, device="cuda", dtype=torch.bfloat16)
    module(rows)
    graph, inputs = stood_in(module, (rows,))
    expected = looked_at(graph, inputs)
    ours = compiled(graph, inputs, "fusewright")
    graphs, differ = {}, {}
    for variant in ["eager", "fusewright", *variants]:
        call = ours if variant == "fusewright" else compiled(graph, inputs, variant)
        differ[variant] = apart(looked_at(call, inputs), expected)
        graphs[variant] = recorded(lambda call=call: call(*inputs), CHAIN)
    times = {variant: microseconds(of.replay, 3, REPLAYS) / CHAIN for variant, of in graphs.items()}
    out("part", name, tokens, times, differ)


def measured_model(name: str, tokens: int, out: Callable[..., None], variants: list[str]) -> None:
    module = model_of(name, 1, "cuda")
    inputs = (torch.randn(1, tokens, module.inner.config.hidden_size, device="cuda", dtype=torch.bfloat16),)
    expected = module(*inputs)
    called, replayed, differ = {}, {}, {}
    for variant in ["eager", "fusewright", *variants]:
        call = compiled(module, inputs, variant)
        differ[variant] = apart(call(*inputs), expected)
        called[variant] = microseconds(lambda call=call: call(*inputs), CALLS, 9)
        replayed[variant] = microseconds(recorded(lambda call=call: call(*inputs), 1).replay, CALLS, 9)
    out("model called", name, tokens, called, differ)
    out("model recorded", name, tokens, replayed, differ)


def compile_once(who: str) -> None:
    """Prints the seconds of the first call of a whole model, and of the compiler's own part in it."""
    module = model_of("qwen3", 28, "cuda", {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16})
    rows = torch.randn(1, 32, 1024, device="cuda", dtype=torch.bfloat16)
    module(rows)
    own = 0.0

    def timed(compile_inner: Call) -> Call:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal own
            begin = time.perf_counter()
            try:
                return compile_inner(*args, **kwargs)
            finally:
                own += time.perf_counter() - begin

        return call

    if who == "inductor":
        import torch._inductor.compile_fx as compile_fx

        inner = timed(compile_fx.compile_fx_inner)
        made = torch.compile(
            module, backend=lambda gm, given: compile_fx.compile_fx(gm, given, inner_compile=inner), dynamic=False
        )
    else:
        from fusewright import _backend

        _backend.fuse_module = timed(_backend.fuse_module)
        made = torch.compile(module, backend="fusewright", options={"strict": True}, dynamic=False)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    made(rows)
    torch.cuda.synchronize()
    print(time.perf_counter() - begin, own)


def compilations(out: Callable[..., None]) -> None:
    for who in ("inductor", "fusewright"):
        with tempfile.TemporaryDirectory() as folder:
            caches = {
                "TORCHINDUCTOR_CACHE_DIR": folder,
                "TRITON_CACHE_DIR": folder,
                "FUSEWRIGHT_CACHE_DIR": folder,
                "CUDA_CACHE_DISABLE": "1",
            }
            command = [sys.executable, __file__, "none", "--compile-once", who]
            done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True)
            if done.returncode != 0:
                out("failed", f"compile {who}", 0, {}, {"reason": done.stderr[-1500:]})
                continue
            first, own = map(float, done.stdout.split()[-2:])
            out("compile", who, 32, {"first call": first * 1e6, "compiler": own * 1e6}, {})


def summary(figures: list[dict[str, Any]]) -> None:
    for kind in ("part", "model called", "model recorded"):
        for variant in VARIANTS:
            ratios = [
                f["us"][variant] / f["us"]["fusewright"] for f in figures if f["kind"] == kind and variant in f["us"]
            ]
            if ratios:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                print(
                    f"{kind:15} {variant:16} / fusewright: mean {mean:.3f}, least {min(ratios):.3f}, {len(ratios)} rows"
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", default="1,32,512,2048")
    parser.add_argument("--kinds", default="compile,part,model")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds after which no further figure is begun")
    parser.add_argument("--compile-once", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_grad_enabled(False)
    if chosen.compile_once:
        compile_once(chosen.compile_once)
        return 0
    begin, figures = time.monotonic(), []

    def out(kind: str, name: str, tokens: int, us: dict[str, float], differ: dict[str, Any]) -> None:
        figures.append({"kind": kind, "model": name, "tokens": tokens, "us": us, "other bits": differ})
        shown = " ".join(f"{variant} {time:.1f}" for variant, time in us.items())
        print(f"{kind} {name} {tokens}: {shown} | {differ}"[:900], flush=True)
        report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "figures": figures}
        Path(chosen.out).write_text(json.dumps(report, indent=1) + "\n")

    kinds, variants = chosen.kinds.split(","), [v for v in chosen.variants.split(",") if v]
    if "compile" in kinds:
        compilations(out)
    for kind, measure in (("part", measured_part), ("model", measured_model)):
        for tokens in map(int, chosen.tokens.split(",")):
            for name in chosen.models.split(","):
                if kind not in kinds or time.monotonic() - begin > chosen.deadline:
                    continue
                try:
                    measure(name, tokens, out, variants)
                except Exception as e:
                    out("failed", name, tokens, {}, {"reason": f"{kind}: {type(e).__name__}: {str(e)[:400]}"})
                torch.cuda.empty_cache()
    summary(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
