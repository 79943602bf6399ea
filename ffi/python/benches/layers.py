"""Layers of models on the CPU: what is neither a matrix product nor attention, by fusewright and by Inductor, and how long
each compiles a whole layer in a fresh process.

``python benches/layers.py [--models qwen3,llama] [--tokens 32,512] [--threads N] [--compile]`` runs by hand, on an idle
machine. Layers have the sizes of the 8B models. Both compilers get the same graph: results of products and attention are
inputs to it, and what products and attention read are outputs. Inductor keeps the roundings of the graph, as kernels do
(``emulate_precision_casts``). Rounds of both are interleaved; figures are medians, eager's results are the check.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from parts import Tensors, apart, rest
from torch.fx import GraphModule

#: How often Inductor's time fusewright's must be, and its compilation's.
FASTER, COMPILES_FASTER = 1.5, 20.0
ROUNDS, ROUND_SECONDS = 9, 0.03

SIZES = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 1,
    "vocab_size": 128,
}
MODELS = {
    "qwen3": ("Qwen3", {"intermediate_size": 12288}),
    "llama": ("Llama", {"intermediate_size": 14336}),
}


def layer(name: str, tokens: int, dtype: torch.dtype) -> tuple[torch.nn.Module, Tensors]:
    """A decoder layer as a function of rows and RoPE tables, and arguments for it."""
    import transformers
    from transformers.models import llama, qwen3

    stem, more = MODELS[name]
    config = getattr(transformers, f"{stem}Config")(**SIZES, **more)
    config._attn_implementation = "sdpa"
    module = {"qwen3": qwen3.modeling_qwen3, "llama": llama.modeling_llama}[name]
    with torch.device("meta"):
        decoder = getattr(module, f"{stem}DecoderLayer")(config, 0)
    # Weights of products stay as the allocator gives them but for their pages: nothing is measured of them.
    decoder = decoder.to(dtype).to_empty(device="cpu").eval()
    for parameter in decoder.parameters():
        parameter.data.fill_(0.01)
    for norm in (n for n in decoder.modules() if type(n).__name__.endswith("RMSNorm")):
        torch.nn.init.normal_(norm.weight, 1.0, 0.1)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = decoder

        def forward(self, rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
            return self.decoder(rows, position_embeddings=(cos, sin))

    angles = torch.rand(1, tokens, SIZES["head_dim"]) * 6
    return Layer(), (
        torch.randn(1, tokens, SIZES["hidden_size"]).to(dtype),
        angles.cos().to(dtype),
        angles.sin().to(dtype),
    )


def by_inductor(call: Callable[..., Any]) -> Callable[..., Any]:
    torch._inductor.config.emulate_precision_casts = True
    return torch.compile(call, dynamic=False)


def by_fusewright(call: Callable[..., Any], kernels: list[Any]) -> Callable[..., Any]:
    from fusewright._backend import compile_graph
    from fusewright._options import Options

    def backend(gm: GraphModule, inputs: Any) -> Any:
        return compile_graph(gm, inputs, Options(strict=True), lambda result: kernels.extend(result.fusions))

    return torch.compile(call, backend=backend, dynamic=False)


def microseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Medians of interleaved rounds."""
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    repeats = {}
    for name, call in calls.items():
        begin = time.perf_counter()
        for _ in range(3):
            call()
        repeats[name] = max(3, int(ROUND_SECONDS / ((time.perf_counter() - begin) / 3)))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            rounds[name].append((time.perf_counter() - begin) / repeats[name] * 1e6)
    return {name: sorted(times)[ROUNDS // 2] for name, times in rounds.items()}


def run(name: str, tokens: int, dtype: torch.dtype) -> float:
    graph, inputs = rest(*layer(name, tokens, dtype))
    fusions: list[Any] = []
    inductor, fused = by_inductor(graph), by_fusewright(graph, fusions)
    with torch.no_grad():
        expected = graph(*inputs)
        differ = {"inductor": apart(inductor(*inputs), expected), "fusewright": apart(fused(*inputs), expected)}
        for fusion in fusions:
            fusion.call.kernel.promote()
        calls = {
            "eager": lambda: graph(*inputs),
            "inductor": lambda: inductor(*inputs),
            "fusewright": lambda: fused(*inputs),
        }
        times = microseconds(calls)
    ratio = times["inductor"] / times["fusewright"]
    figures = " ".join(f"{who} {time:8.0f} us" for who, time in times.items())
    bits = " ".join(f"{who} {share:.1e}" for who, share in differ.items())
    kernels = sum(fusion.call.kernel.launches for fusion in fusions)
    print(
        f"{name:6} {str(dtype)[6:]:8} {tokens:4} tokens: {figures}  {ratio:.2f} x; {kernels} kernels; "
        f"other bits than eager: {bits}",
        flush=True,
    )
    return ratio


def compile_once(name: str, who: str) -> None:
    """Prints the seconds of a first call and of the compiler's own part in it."""
    module, inputs = layer(name, 32, torch.bfloat16)
    seconds = 0.0
    if who == "inductor":
        import torch._inductor.compile_fx as compile_fx

        torch._inductor.config.emulate_precision_casts = True
        own = compile_fx.compile_fx_inner

        def inner(*args: Any, **kwargs: Any) -> Any:
            nonlocal seconds
            begin = time.perf_counter()
            try:
                return own(*args, **kwargs)
            finally:
                seconds += time.perf_counter() - begin

        def backend(gm: GraphModule, given: Any) -> Any:
            return compile_fx.compile_fx(gm, given, inner_compile=inner)
    else:
        from fusewright import _backend
        from fusewright._options import Options

        fuse = _backend.fuse_module

        def timed(*args: Any) -> Any:
            nonlocal seconds
            begin = time.perf_counter()
            try:
                return fuse(*args)
            finally:
                seconds += time.perf_counter() - begin

        _backend.fuse_module = timed

        def backend(gm: GraphModule, given: Any) -> Any:
            return _backend.compile_graph(gm, given, Options(strict=True))

    begin = time.perf_counter()
    with torch.no_grad():
        torch.compile(module, backend=backend, dynamic=False)(*inputs)
    print(time.perf_counter() - begin, seconds)


def compilations(name: str, threads: int) -> float:
    taken = {}
    for who in ("inductor", "fusewright"):
        with tempfile.TemporaryDirectory() as folder:
            caches = {
                "TORCHINDUCTOR_CACHE_DIR": folder,
                "FUSEWRIGHT_CACHE_DIR": folder,
                "OMP_NUM_THREADS": str(threads),
            }
            command = [sys.executable, __file__, "--compile-once", name, who]
            done = subprocess.run(command, env={**os.environ, **caches}, capture_output=True, text=True, check=True)
            whole, own = map(float, done.stdout.split()[-2:])
            taken[who] = own
            print(f"{name:6} {who:10} first call {whole:6.2f} s, of which the compiler {own * 1e3:8.1f} ms", flush=True)
    return taken["inductor"] / taken["fusewright"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="qwen3,llama")
    parser.add_argument("--tokens", default="32,512")
    parser.add_argument("--dtypes", default="bfloat16")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--compile", action="store_true", help="compile whole layers in fresh processes instead")
    parser.add_argument("--compile-once", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.compile_once:
        compile_once(*chosen.compile_once)
        return 0
    models = chosen.models.split(",")
    if chosen.compile:
        worst = min(compilations(name, chosen.threads) for name in models)
        print(f"compiles at least {worst:.1f} x as fast (wanted: {COMPILES_FASTER:.0f} x)")
        return int(worst < COMPILES_FASTER)
    torch.set_num_threads(chosen.threads)
    cases = [
        (name, int(tokens), getattr(torch, dtype))
        for name in models
        for dtype in chosen.dtypes.split(",")
        for tokens in chosen.tokens.split(",")
    ]
    worst = min(run(*case) for case in cases)
    print(f"at least {worst:.2f} x as fast (wanted: {FASTER} x)")
    return int(worst < FASTER)


if __name__ == "__main__":
    sys.exit(main())
