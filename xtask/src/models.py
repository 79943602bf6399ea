"""Exports tiny models of `transformers`, one per family of layers, into a folder: `models.py FOLDER [NAME…]`.

Each is written as NAME.pt2 with a sequence length that is open, or as it was called where a model fixes it. What cannot be
built or exported is said by name on stderr; the exit status is 1 if nothing was exported.
"""

import logging
import pathlib
import sys
import warnings

import torch
import transformers

SIZES = dict(
    vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
EXPERTS = dict(
    num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, num_local_experts=4, n_routed_experts=4,
    n_shared_experts=1,
)
LATENT = dict(
    q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16, n_group=1, topk_group=1,
    first_k_dense_replace=1, num_key_value_heads=4,
)
DELTA = dict(
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
    linear_conv_kernel_dim=4,
)
SCAN = dict(
    mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=16,
    mamba_expand=1, mamba_d_conv=4,
)
INDEXER = dict(index_n_heads=4, index_head_dim=32, index_topk=4)
FEW = dict(num_local_experts=4, num_experts_per_tok=2)
PER_LAYER = dict(vocab_size_per_layer_input=128, hidden_size_per_layer_input=16, num_kv_shared_layers=0, sliding_window=8)


def layers(*kinds):
    return dict(layer_types=list(kinds))


SLIDING = layers("sliding_attention", "full_attention")
LINEAR = layers("linear_attention", "full_attention")
# The class of each model before `Config` and `ForCausalLM`, and what its configuration has beside or in place of SIZES.
MODELS = {
    "apertus": ("Apertus", {}),
    "arcee": ("Arcee", {}),
    "bailing_hybrid": ("BailingHybrid", EXPERTS | LATENT | DELTA),
    "cwm": ("Cwm", SLIDING | dict(sliding_window=8)),
    "deepseek_v32": ("DeepseekV32", EXPERTS | LATENT | INDEXER),
    "deepseek_v4": ("DeepseekV4", EXPERTS | LATENT | dict(num_key_value_heads=1, head_dim=32)),
    "diffllama": ("DiffLlama", {}),
    "doge": ("Doge", {}),
    "ernie4_5_moe": ("Ernie4_5_Moe", dict(moe_num_experts=4, moe_k=2, moe_num_shared_experts=1,
                                          moe_intermediate_size=32, moe_layer_start_index=1)),
    "falcon_h1": ("FalconH1", SCAN),
    "gemma3n": ("Gemma3nText", PER_LAYER | SLIDING | dict(laurel_rank=8, altup_num_inputs=2, intermediate_size=[96, 96],
                                                          activation_sparsity_pattern=[0.95, 0.0])),
    "gemma4": ("Gemma4Text", PER_LAYER | SLIDING | dict(global_head_dim=16)),
    "glm4_moe": ("Glm4Moe", EXPERTS | dict(n_group=1, topk_group=1, first_k_dense_replace=1, partial_rotary_factor=0.5,
                                           use_qk_norm=True)),
    "glm_moe_dsa": ("GlmMoeDsa", EXPERTS | LATENT | INDEXER),
    "gpt_oss": ("GptOss", FEW | SLIDING | dict(sliding_window=8)),
    "granite4h": ("GraniteMoeHybrid", SCAN | FEW | layers("mamba", "attention") | dict(
        shared_intermediate_size=32, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=6.0,
        attention_multiplier=0.1)),
    "hunyuan_moe": ("HunYuanMoEV1", dict(num_experts=4, moe_topk=2, moe_intermediate_size=32)),
    "hy_v3": ("HYV3", EXPERTS),
    "kimi_linear": ("KimiLinear", EXPERTS | LATENT | DELTA | LINEAR),
    "lfm2": ("Lfm2", layers("conv", "full_attention") | dict(block_auto_adjust_ff_dim=False)),
    "longcat_flash": ("LongcatFlash", EXPERTS | LATENT | dict(num_layers=1, moe_topk=2, zero_expert_num=2,
                                                              expert_ffn_hidden_size=32, ffn_hidden_size=96)),
    "mamba2": ("Mamba2", dict(num_heads=8, head_dim=16, state_size=8, n_groups=2, chunk_size=16, expand=2,
                              num_attention_heads=None, num_key_value_heads=None, intermediate_size=None,
                              max_position_embeddings=None)),
    "mimo_v2_flash": ("MimoV2Flash", EXPERTS | dict(sliding_window=8)),
    "minicpm3": ("MiniCPM3", LATENT),
    "minimax": ("MiniMax", FEW | LINEAR | dict(block_size=16)),
    "minimax_m2": ("MiniMaxM2", FEW | dict(rotary_dim=8)),
    "nemotron_h": ("NemotronH", SCAN | dict(num_hidden_layers=3, layers_block_type=["mamba", "mlp", "attention"],
                                            mamba_num_heads=4, mamba_head_dim=16, n_groups=2, ssm_state_size=8,
                                            chunk_size=16)),
    "olmo3": ("Olmo3", SLIDING | dict(sliding_window=8)),
    "olmo_hybrid": ("OlmoHybrid", DELTA | LINEAR),
    "phimoe": ("Phimoe", FEW),
    "qwen3_5": ("Qwen3_5Text", DELTA | LINEAR),
    "qwen3_next": ("Qwen3Next", EXPERTS | DELTA | LINEAR | dict(shared_expert_intermediate_size=32)),
    "recurrent_gemma": ("RecurrentGemma", dict(block_types=["recurrent", "attention"], lru_width=64,
                                               attention_window_size=8)),
    "seed_oss": ("SeedOss", {}),
    "smollm3": ("SmolLM3", dict(no_rope_layers=[1, 0])),
    "zamba2": ("Zamba2", SCAN | dict(mamba_ngroups=2, n_mamba_heads=4, mamba_headdim=16, num_mem_blocks=1,
                                     layers_block_type=["mamba", "hybrid"], hybrid_layer_ids=[1], chunk_size=16)),
}


class Logits(torch.nn.Module):
    """What a model computes of tokens, without a cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids, use_cache=False).logits


def built(base, changes):
    """A model of bf16 with random weights, by the class names that this release of `transformers` has for it."""
    config = getattr(transformers, base + "Config")
    sizes = {name: value for name, value in (SIZES | changes).items() if value is not None}
    names = [base.removesuffix("Text") + "ForCausalLM", base + "ForCausalLM"]
    of = next(getattr(transformers, name) for name in names if hasattr(transformers, name))
    for attention in ("sdpa", "eager"):
        settings = config(**sizes)
        settings._attn_implementation = attention
        torch.manual_seed(0)
        try:
            model = of(settings)
        except ValueError:
            continue
        return Logits(model.eval().to(torch.bfloat16)).eval()
    raise ValueError("no form of attention fits it")


def exported(module):
    """The module as a graph: over sequences of any length, or of the one that it was called with."""
    ids = torch.arange(2 * 7).reshape(2, 7) * 5 % 120 + 3
    with torch.no_grad():
        try:
            return torch.export.export(module, (ids,), dynamic_shapes=({1: torch.export.Dim("s", min=2, max=64)},))
        except Exception:  # A model may fix its length in many ways.
            return torch.export.export(module, (ids,))


def main(folder, chosen):
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    transformers.logging.set_verbosity_error()
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    for name in chosen or MODELS:
        base, changes = MODELS[name]
        try:
            torch.export.save(exported(built(base, changes)), folder / f"{name}.pt2")
            done += 1
        except Exception as error:  # One model more or less decides nothing; which ones are missing is said.
            words = str(error).strip().splitlines() or [""]
            print(f"skipped: {name} ({type(error).__name__}: {words[0][:150]})", file=sys.stderr)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
