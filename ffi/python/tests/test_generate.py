"""``fuse`` of language models as Hugging Face's library has them: ``generate`` with caches that grow, slide and stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fusewright

transformers = pytest.importorskip("transformers", reason="skipped: transformers (not installed)")

_SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 200,
    "max_position_embeddings": 128,
}
#: Models by name, with what is their own.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3ForCausalLM": ("Qwen3Config", {"head_dim": 16}),
    "LlamaForCausalLM": ("LlamaConfig", {}),
    "Gemma3ForCausalLM": ("Gemma3TextConfig", {"head_dim": 16, "sliding_window": 8}),
    "MixtralForCausalLM": ("MixtralConfig", {"num_local_experts": 4}),
}


def made(name: str) -> Any:
    torch.manual_seed(0)
    config_name, more = _MODELS[name]
    config = getattr(transformers, config_name)(**_SIZES, **more)
    model = getattr(transformers, name)(config).eval()
    model.generation_config.eos_token_id = None
    return model


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", _MODELS)
def test_models_generate_what_they_do_without_kernels(name: str, cache: str) -> None:
    model = made(name)
    fused = fusewright.fuse(model)
    static: dict[str, Any] = {"cache_implementation": "static", "disable_compile": True}
    for batch in (1, 2):
        ids = torch.randint(1, 200, (batch, 5))
        options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
        options |= {"attention_mask": torch.ones_like(ids), **(static if cache == "static" else {})}
        expected, launches = model.generate(ids, **options), fusewright.counters()["launches"]
        assert torch.equal(fused.generate(ids, **options), expected)
        assert fusewright.counters()["launches"] > launches + 12
    # A trace for each batch's first tokens, and few for those that follow.
    assert len(fused.results) <= (8 if cache == "static" else 12)
    assert "forward" not in vars(model)


def test_results_are_the_models_own() -> None:
    model = made("Qwen3ForCausalLM")
    ids = torch.randint(1, 200, (2, 5))
    with torch.no_grad():
        expected, got = model(ids), fusewright.fuse(model)(ids)
    assert type(got) is type(expected) and list(got) == list(expected)
    torch.testing.assert_close(got.logits, expected.logits)
    assert type(got.past_key_values) is type(expected.past_key_values)
    for ours, theirs in zip(got.past_key_values.layers, expected.past_key_values.layers, strict=True):
        assert vars(ours).keys() == vars(theirs).keys()
        torch.testing.assert_close(ours.keys, theirs.keys)


def test_a_layer_takes_its_positions_in_a_tuple() -> None:
    model = made("LlamaForCausalLM")
    layer, x = model.model.layers[0], torch.randn(2, 5, 64)
    positions = model.model.rotary_emb(x, torch.arange(5)[None])
    fused = fusewright.fuse(layer)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fused(x, position_embeddings=positions), layer(x, position_embeddings=positions))
    assert len(fused.traces) == 1
