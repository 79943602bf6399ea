"""Model classes of ``transformers`` with random weights: fused and as they are, at many lengths with one compilation."""

from __future__ import annotations

import pytest
import torch

import fusewright
from fusewright._backend import compile_graph
from fusewright._fuse import Result
from fusewright._options import Options

transformers = pytest.importorskip("transformers", reason="skipped: transformers (not installed)")

SMALL = {
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

MODELS = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {"sliding_window": 64}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {"pad_token_id": 0}),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", EXPERTS),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
    ),
}
#: What every layer of each has.
KERNELS = {
    "llama": {"add_rms_norm", "silu_mul"},
    "qwen3": {"add_rms_norm", "qk_norm_rope", "silu_mul"},
    "gemma3": {"qk_norm_rope"},
    "phi3": {"add_rms_norm", "silu_mul"},
    "mixtral": {"add_rms_norm"},
    "qwen3_moe": {"add_rms_norm", "qk_norm_rope"},
}


def small(name: str) -> torch.nn.Module:
    config, model, more = MODELS[name]
    made = getattr(transformers, config)(**SMALL, **more)
    if name in ("mixtral", "qwen3_moe"):
        made._experts_implementation = "grouped_mm"
    built = getattr(transformers, model)(made).eval()
    # Buffers stay as they are: the frequencies of RoPE are f32.
    for parameter in built.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return built


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_fused_once_for_all_lengths(name: str) -> None:
    model, results = small(name), list[Result]()

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        return compile_graph(gm, inputs, Options(strict=True), results.append)

    fused = torch.compile(lambda ids: model(ids, use_cache=False).logits, backend=backend)
    compiles = []
    for length in (6, 9, 17, 40, 64):
        ids = torch.randint(0, SMALL["vocab_size"], (1, length))
        torch._dynamo.maybe_mark_dynamic(ids, 1)
        with torch.no_grad():
            got, expected = fused(ids), model(ids, use_cache=False).logits
        # A sum of another order may round a mean to its neighbour, which later layers spread.
        scale = expected.float().abs().max()
        assert (got.float() - expected.float()).abs().max() <= 0.02 * scale
        compiles.append((fusewright.counters()["compiles"], len(results)))
    assert len(set(compiles)) == 1, compiles
    kernels = {kernel for result in results for fusion in result.fusions for kernel, _ in fusion.kernels}
    assert KERNELS[name] <= kernels, kernels


def test_decoding_with_a_cache_follows_eager() -> None:
    """Many steps over one sequence: logits near eager's, and the same token wherever it is clear which."""
    model, steps = small("qwen3"), 64
    fused = torch.compile(model, backend=fusewright.backend, options={"strict": True})
    ids = torch.randint(0, SMALL["vocab_size"], (1, steps))

    def logits(run: torch.nn.Module) -> torch.Tensor:
        cache = transformers.StaticCache(config=model.config, max_cache_len=steps)
        with torch.no_grad():
            made = [
                run(ids[:, i : i + 1], past_key_values=cache, cache_position=torch.tensor([i]), use_cache=True).logits[
                    0, -1
                ]
                for i in range(steps)
            ]
        return torch.stack(made).float()

    expected, got = logits(model), logits(fused)
    bound = 0.02 * expected.abs().max()
    assert (got - expected).abs().max() <= bound
    first, second = expected.topk(2, -1).values.unbind(-1)
    clear = first - second > 2 * bound
    assert torch.equal(got.argmax(-1)[clear], expected.argmax(-1)[clear])
