"""Model classes of ``transformers`` with random weights: fused and as they are, at many lengths with one compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from bounds import spread

import fusewright

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


DTYPES = [torch.bfloat16, torch.float32]


def small(name: str, dtype: torch.dtype) -> torch.nn.Module:
    config, model, more = MODELS[name]
    made = getattr(transformers, config)(**SMALL, **more)
    if name in ("mixtral", "qwen3_moe"):
        made._experts_implementation = "grouped_mm"
    return cast(getattr(transformers, model)(made).eval(), dtype)


def cast(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    # Buffers stay as they are: the frequencies of RoPE are f32.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def run(model: Callable[..., Any], lengths: Iterable[int]) -> list[int]:
    """Runs a model at lengths, and gives how many kernels had been compiled after each."""
    compiles = []
    for length in lengths:
        ids = torch.randint(0, SMALL["vocab_size"], (1, length))
        torch._dynamo.maybe_mark_dynamic(ids, 1)
        with torch.no_grad():
            model(ids)
        compiles.append(fusewright.counters()["compiles"])
    return compiles


def judge(checker: fusewright.Checker) -> None:
    """All is right, and little is left open: nearly all elements have one value alone, in 16 bits that is."""
    assert checker.passed and checker.parts, str(checker)
    for part in checker.parts:
        assert part.outside == 0, str(part)
        # What has one value alone has PyTorch's.
        assert part.mismatched <= part.elements - part.exact + part.expected_outside, str(part)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_all_parts_of_a_model_are_right_at_all_lengths(name: str, dtype: torch.dtype) -> None:
    model, checker = small(name, dtype), fusewright.Checker(strict=True)
    fused = torch.compile(lambda ids: model(ids, use_cache=False).logits, backend=checker, fullgraph=True)
    compiles = run(fused, (6, 9, 17, 40))
    assert len(set(compiles)) == 1, compiles
    judge(checker)
    kernels = {kernel for part in checker.parts for kernel in part.kernels}
    assert KERNELS[name] <= kernels, kernels
    assert {part.calls for part in checker.parts} == {4}
    if dtype == torch.bfloat16:
        exact, elements = (sum(getattr(part, what) for part in checker.parts) for what in ("exact", "elements"))
        assert exact > 0.99 * elements, str(checker)


@pytest.mark.parametrize("name", MODELS)
def test_parts_of_a_model_with_graph_breaks_are_right(name: str) -> None:
    model, checker = small(name, torch.bfloat16), fusewright.Checker(strict=True)
    for layer in model.model.layers:
        layer.mlp.register_forward_pre_hook(lambda *_: torch._dynamo.graph_break())
    run(torch.compile(lambda ids: model(ids, use_cache=False).logits, backend=checker), (6, 9, 17, 40))
    judge(checker)
    assert sum("add_rms_norm" in part.kernels or "rms_norm" in part.kernels for part in checker.parts) >= 4


def test_parts_without_sums_and_functions_have_the_bits_of_pytorch() -> None:
    def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    for dtype in DTYPES:
        inputs = (torch.randn(9, 64).to(dtype), torch.randn(9, 64).to(dtype), torch.randn(9, 64).to(dtype))
        (part,) = fusewright.check(rotated, *inputs, strict=True).parts
        assert (part.exact, part.mismatched) == (part.elements, 0), str(part)


def test_a_wrong_result_is_found() -> None:
    def rotated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y) * y

    checker = fusewright.Checker(strict=True)
    from fusewright import _check

    own = _check._on_host
    # Results of one element are what is wrong here, as of a kernel that drops a rounding.
    wrong = torch.compile(rotated, backend=checker)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        seen: list[int] = []

        def third(tensor: torch.Tensor) -> torch.Tensor:
            seen.append(1)
            return own(tensor) * (1.0 if len(seen) != 3 else 1.01)

        patch.setattr(_check, "_on_host", third)
        wrong(torch.randn(4, 8), torch.randn(4, 8))
    (part,) = checker.parts
    assert not checker.passed and part.outside > 0 and part.first_wrong and "WRONG" in str(checker)


@pytest.mark.parametrize("options", [{"mode": "relaxed"}, {"inner": "inductor"}])
def test_what_cannot_be_checked_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(fusewright.CompileError, match=next(iter(options))):
        fusewright.Checker(**options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_decoding_with_a_cache_follows_eager(name: str, dtype: torch.dtype) -> None:
    """Many steps over one sequence: logits are as near eager's as those of any right kernels, and the same token comes
    first wherever it is clear which."""
    model, steps = small(name, dtype), 64
    ids = torch.randint(0, SMALL["vocab_size"], (1, steps))

    def logits(run: Callable[..., Any]) -> torch.Tensor:
        cache = transformers.StaticCache(config=model.config, max_cache_len=steps)
        with torch.no_grad():
            made = [
                run(ids[:, i : i + 1], past_key_values=cache, cache_position=torch.tensor([i]), use_cache=True).logits[
                    0, -1
                ]
                for i in range(steps)
            ]
        return torch.stack(made)

    expected = logits(model)
    got = logits(torch.compile(model, backend=fusewright.backend, options={"strict": True}))
    # As results of another graph may be outside of ranges: as far as these are wide, here those of a sample, or by a place.
    bound = 2 * spread(model, logits).amax(-1, keepdim=True) + torch.finfo(dtype).eps * expected.double().abs()
    assert bool(((got.double() - expected.double()).abs() <= bound).all())
    first, second = expected.double().topk(2, -1).values.unbind(-1)
    clear = first - second > bound.amax(-1)
    assert clear.sum() > steps // 2
    assert torch.equal(got.argmax(-1)[clear], expected.argmax(-1)[clear])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layer_of_real_size_is_right(dtype: torch.dtype) -> None:
    """A layer of Qwen3-8B, at two numbers of rows."""
    config = transformers.Qwen3Config(
        hidden_size=4096, intermediate_size=12288, num_attention_heads=32, num_key_value_heads=8, head_dim=128
    )
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        layer = transformers.models.qwen3.modeling_qwen3.Qwen3DecoderLayer(config, 0)
    layer = cast(layer, dtype).to_empty(device="cpu").eval()
    for name, parameter in layer.named_parameters():
        with torch.no_grad():
            parameter.normal_(1.0, 0.1) if "norm" in name else parameter.uniform_(-0.02, 0.02)
    checker = fusewright.Checker(strict=True)
    fused = torch.compile(lambda x, cos, sin: layer(x, position_embeddings=(cos, sin)), backend=checker)
    for rows in (3, 8):
        x, angles = torch.randn(1, rows, 4096).to(dtype), torch.rand(1, rows, 128) * 6
        inputs = (x, angles.cos().to(dtype), angles.sin().to(dtype))
        for tensor in inputs:
            torch._dynamo.maybe_mark_dynamic(tensor, 1)
        with torch.no_grad():
            fused(*inputs)
    judge(checker)
    kernels = {kernel for part in checker.parts for kernel in part.kernels}
    assert {"add_rms_norm", "qk_norm_rope", "silu_mul"} <= kernels, kernels
