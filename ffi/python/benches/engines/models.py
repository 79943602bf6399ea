"""Models of random weights that engines load: small decoders, written in the layout of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

#: Sizes that a model's configuration takes, by the names that all of them share.
SIZES: dict[str, dict[str, int]] = {
    "tiny": {
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
    },
    "middle": {
        "vocab_size": 40960,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
    },
}
#: Configurations of `transformers`, and what they take beside the sizes.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3Config", {}),
    "llama": ("LlamaConfig", {}),
    "gemma3": ("Gemma3TextConfig", {"query_pre_attn_scalar": 64}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
}
#: Positions that a model has.
POSITIONS = 2048
#: Weights are this wide, so that the most likely token is seldom a tie of many.
_SPREAD = 0.05


def made(family: str, size: str, seed: int = 0) -> Any:
    """A model of random weights, in bf16."""
    import transformers

    name, more = FAMILIES[family]
    config = getattr(transformers, name)(
        **SIZES[size],
        **more,
        max_position_embeddings=POSITIONS,
        initializer_range=_SPREAD,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    torch.manual_seed(seed)
    model: Any = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()
    with torch.no_grad():
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                # As they are made, norms have weights that a wrong kernel might leave out.
                module.weight.add_(torch.randn_like(module.weight) * 0.1)
    return model


def written(family: str, size: str, folder: Path) -> Path:
    """The folder of a model, which is written if it is not there."""
    path = folder / f"{family}-{size}"
    if not (path / "made.json").is_file():
        model = made(family, size)
        model.save_pretrained(path)
        count = sum(parameter.numel() for parameter in model.parameters())
        (path / "made.json").write_text(json.dumps({"parameters": count}))
    return path


def parameters(path: Path) -> int:
    """How many parameters a written model has."""
    return int(json.loads((path / "made.json").read_text())["parameters"])


def prompts(size: str, count: int, length: int, seed: int = 1) -> list[list[int]]:
    """Random tokens, none of them a special one."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, SIZES[size]["vocab_size"], (count, length), generator=generator).tolist()
