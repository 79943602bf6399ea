"""Models on an NVIDIA GPU: by fusewright, by PyTorch as it is, and by Inductor, with and without its search.

``python benches/models_cuda.py OUT.jsonl [--models qwen3,llama,…] [--tokens 1,32,512,2048] [--deadline SECONDS]`` runs by
hand, on an idle machine. Each row is a line of OUT.jsonl as soon as it is measured; rows that the file has of this device
and this PyTorch are not measured again, so that a run goes on where an earlier one ended. ``--table`` prints what the file
has and measures nothing. Three figures for each model of one layer, of the sizes of a published one, with random weights:

* ``part``: what is neither a matrix product nor attention: calls of those give results that are there already. Both
  sides are recorded as CUDA graphs of several calls behind each other, which hold nothing else.
* ``model``: all of the model, called from Python, and recorded as a CUDA graph.
* ``compile``: seconds of a first call in a fresh process with empty caches, and of them the compiler's own: of
  ``torch.compile`` with either compiler, and with none, which is Dynamo alone, and of ``fuse``.

``exact`` has Inductor round where the graph does, as the kernels of fusewright always do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
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
#: Variants: the mode of ``torch.compile`` and options beside it. The last has Inductor compile what is not fused.
AUTOTUNED = "max-autotune-no-cudagraphs"
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "inductor": ("default", {}),
    "inductor exact": ("default", {"emulate_precision_casts": True}),
    "autotuned": (AUTOTUNED, {}),
    "autotuned exact": (AUTOTUNED, {"emulate_precision_casts": True}),
    "fusewright inductor": ("", {}),
}
CHAIN, REPLAYS, CALLS, ROUNDS = 8, 41, 30, 9


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


def compiled(call: Call, inputs: Tensors, variant: str) -> Call:
    """A compiled call that was called once."""
    if variant == "eager":
        made = call
    elif variant.startswith("fusewright"):
        options = {"strict": True, "inner": "inductor" if variant.endswith("inductor") else "eager"}
        made = torch.compile(call, backend="fusewright", dynamic=False, options=options)
    else:
        # As options, which Dynamo tells apart: with a setting around it, one variant would get the code of another.
        mode, settings = VARIANTS[variant]
        options = {**torch._inductor.list_mode_options(mode), **settings}
        made = torch.compile(call, dynamic=False, options=options)
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


def microseconds(calls: dict[str, Callable[[], Any]], repeats: int, rounds: int) -> dict[str, float]:
    """The median of rounds of so many calls each, by the device's clock.

    Every round has all of them, in another order, so that what disturbs one disturbs all, and none always follows one that
    leaves the device cool.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    order, chance = list(calls.items()), random.Random(0)
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        chance.shuffle(order)
        for name, call in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(repeats):
                call()
            end.record()
            end.synchronize()
            taken[name].append(begin.elapsed_time(end) * 1e3 / repeats)
    return {name: statistics.median(times) for name, times in taken.items()}


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
    times = microseconds({variant: of.replay for variant, of in graphs.items()}, 3, REPLAYS)
    out("part", name, tokens, {variant: time / CHAIN for variant, time in times.items()}, differ)


def measured_model(name: str, tokens: int, out: Callable[..., None], variants: list[str]) -> None:
    module = model_of(name, 1, "cuda")
    inputs = (torch.randn(1, tokens, module.inner.config.hidden_size, device="cuda", dtype=torch.bfloat16),)
    expected = module(*inputs)
    calls, graphs, differ = {}, {}, {}
    for variant in ["eager", "fusewright", *variants]:
        call = compiled(module, inputs, variant)
        differ[variant] = apart(call(*inputs), expected)
        calls[variant] = lambda call=call: call(*inputs)
        graphs[variant] = recorded(calls[variant], 1)
    out("model called", name, tokens, microseconds(calls, CALLS, ROUNDS), differ)
    replays = {variant: graph.replay for variant, graph in graphs.items()}
    out("model recorded", name, tokens, microseconds(replays, CALLS, ROUNDS), differ)


def compile_once(who: str) -> None:
    """Prints the seconds of the first call of a whole model, those of the compiler's own part in it, and the share of
    other bits than eager's."""
    module = model_of("qwen3", 28, "cuda", {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16})
    rows = torch.randn(1, 32, 1024, device="cuda", dtype=torch.bfloat16)
    # With a mask, or the model looks at positions for sequences in one row, which no trace can.
    ones = torch.ones(1, 32, device="cuda", dtype=torch.bool)

    def model(rows: torch.Tensor) -> torch.Tensor:
        return module.inner(inputs_embeds=rows, attention_mask=ones, use_cache=False).last_hidden_state

    expected = model(rows)
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
            model, backend=lambda gm, given: compile_fx.compile_fx(gm, given, inner_compile=inner), dynamic=False
        )
    elif who == "fusewright":
        from fusewright import _backend

        _backend.fuse_module = timed(_backend.fuse_module)
        made = torch.compile(model, backend="fusewright", options={"strict": True}, dynamic=False)
    elif who == "dynamo":
        made = torch.compile(model, backend="eager", dynamic=False)
    else:
        import fusewright
        from fusewright import _trace

        _trace.fuse_module = timed(_trace.fuse_module)
        # `strict` would compare the first calls.
        made = fusewright.fuse(model)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = made(rows)
    torch.cuda.synchronize()
    taken = time.perf_counter() - begin
    print(taken, own, apart(result, expected))


class Rows:
    """The figures of a file, a line each, and those that are added to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text() if path.exists() else ""
        if text and not text.endswith("\n"):
            # A run that was stopped has left the last line half-written.
            path.write_text(text + "\n")
        self.all: list[dict[str, Any]] = [row for line in text.splitlines() if (row := _row(line)) is not None]

    def add(self, kind: str, model: str, tokens: int, us: dict[str, float], differ: dict[str, Any]) -> None:
        place = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        row = {"kind": kind, "model": model, "tokens": tokens, "us": us, "other bits": differ, **place}
        self.all.append(row)
        shown = " ".join(f"{variant} {time:.1f}" for variant, time in us.items())
        print(f"{kind} {model} {tokens}: {shown} | {differ}"[:900], flush=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def has(self, kind: str, model: str, tokens: int, variants: Iterable[str]) -> bool:
        """Whether a row with all of some variants was measured here."""
        here = (kind, model, tokens, torch.cuda.get_device_name(), torch.__version__)
        keys = ("kind", "model", "tokens", "device", "torch")
        return any(tuple(row[key] for key in keys) == here and set(variants) <= set(row["us"]) for row in self.all)


def _row(line: str) -> dict[str, Any] | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


def compilation(who: str, rows: Rows) -> None:
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
        raise RuntimeError(done.stderr[-1500:])
    first, own, differ = map(float, done.stdout.split()[-3:])
    rows.add("compile", who, 32, {"first call": first * 1e6, "compiler": own * 1e6}, {who: differ})


#: What tables compare fusewright with: with the roundings of the graph, and in brackets without.
COMPARED = (
    ("inductor exact", "inductor"),
    ("autotuned exact", "autotuned"),
    ("eager", None),
    ("fusewright inductor", None),
)


def tables(rows: list[dict[str, Any]]) -> None:
    """Prints the time of others over fusewright's, of the last row of each model and number of tokens."""
    for device in dict.fromkeys(row["device"] for row in rows):
        own = {(r["kind"], r["model"], r["tokens"]): r["us"] for r in rows if r["device"] == device}
        for (_, who, _), us in own.items():
            if "first call" in us:
                first, compiler = us["first call"] / 1e6, us["compiler"] / 1e6
                print(f"{device}, compile: {who}: first call {first:.1f} s, of which the compiler {compiler:.2f} s")
        for kind in ("part", "model called", "model recorded"):
            for variants in COMPARED:
                _table(f"{device}, {kind}", {k[1:]: us for k, us in own.items() if k[0] == kind}, variants)


def _table(title: str, measured: dict[tuple[str, int], dict[str, float]], variants: tuple[str, str | None]) -> None:
    shown, other = variants
    if other is not None and not any(shown in us for us in measured.values()):
        shown, other = other, None
    ratios = {key: us[shown] / us["fusewright"] for key, us in measured.items() if shown in us and "fusewright" in us}
    others = {key: us[other] / us["fusewright"] for key, us in measured.items() if other in us and "fusewright" in us}
    if not ratios:
        return
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    print(f"\n{title}: {shown} / fusewright: mean {mean:.3f}, least {min(ratios.values()):.3f}, {len(ratios)} rows\n")
    tokens = sorted({tokens for _, tokens in ratios})
    print("| | " + " | ".join(map(str, tokens)) + " |")
    print("|" + "---|" * (len(tokens) + 1))
    for model in dict.fromkeys(model for model, _ in ratios):
        cells = []
        for key in ((model, number) for number in tokens):
            aside = f" ({others[key]:.2f})" if key in others else ""
            cells.append(f"{ratios[key]:.2f} x{aside}" if key in ratios else "")
        print(f"| {model} | " + " | ".join(cells) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", default="1,32,512,2048")
    parser.add_argument("--kinds", default="compile,part,model")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds after which no further row should end")
    parser.add_argument("--table", action="store_true", help="print what the file has, and measure nothing")
    parser.add_argument("--compile-once", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_grad_enabled(False)
    if chosen.compile_once:
        compile_once(chosen.compile_once)
        return 0
    rows, begin = Rows(Path(chosen.out)), time.monotonic()
    if not chosen.table:
        left = measured(rows, chosen, begin)
        if left:
            print(f"{left} rows are left: run again to go on")
    tables(rows.all)
    return 0


def measured(rows: Rows, chosen: argparse.Namespace, begin: float) -> int:
    """Measures the rows that are missing, as far as time goes; how many are left."""
    kinds, variants = chosen.kinds.split(","), [v for v in chosen.variants.split(",") if v]
    models, tokens = chosen.models.split(","), list(map(int, chosen.tokens.split(",")))
    compared = ["eager", "fusewright", *variants]
    work: list[tuple[str, str, int, Callable[[], None]]] = []
    for who in ("inductor", "dynamo", "fusewright", "fuse"):
        if "compile" in kinds and not rows.has("compile", who, 32, ()):
            work.append(("compile", who, 32, lambda who=who: compilation(who, rows)))
    for kind, measure, last in (("part", measured_part, "part"), ("model", measured_model, "model recorded")):
        for number, name in itertools.product(tokens, models):
            if kind in kinds and not rows.has(last, name, number, compared):
                call = lambda m=measure, name=name, n=number: m(name, n, rows.add, variants)  # noqa: E731
                work.append((kind, name, number, call))
    failed = Counter((row["model"], row["tokens"]) for row in rows.all if row["kind"] == "failed")
    # What failed before may take long to fail again.
    work.sort(key=lambda of: failed[of[1:3]])
    longest: dict[str, float] = {}
    for done, (kind, name, number, call) in enumerate(work):
        start = time.monotonic()
        if start - begin + longest.get(kind, 0.0) > chosen.deadline:
            return len(work) - done
        try:
            torch._dynamo.reset()
            call()
        except Exception as e:
            rows.add("failed", name, number, {}, {"reason": f"{kind}: {type(e).__name__}: {str(e)[:1500]}"})
        torch.cuda.empty_cache()
        longest[kind] = max(longest.get(kind, 0.0), time.monotonic() - start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
