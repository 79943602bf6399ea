"""Models to export: of ``transformers`` by their configuration, or of a function of the user's."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn


class ModelError(Exception):
    """A source that names no model, or a model that cannot be exported."""


@dataclass(frozen=True)
class Model:
    """A module with its inputs by name, and the axis of each that counts rows."""

    module: nn.Module
    inputs: Mapping[str, torch.Tensor]
    rows: Mapping[str, int]


def load(source: str, rows: int, part: str, settings: Mapping[str, Any], dtype: torch.dtype) -> Model:
    """The model that a source names, with inputs of so many rows. Raises ``ModelError``."""
    if ":" in source and not source.endswith(".json"):
        if settings:
            raise ModelError("a function of yours has no configuration to set values of")
        return _of_function(source, rows, dtype)
    return _of_config(_config(source, settings), rows, part, dtype)


class _Layer(nn.Module):
    """The first decoder layer of a model with its rotary embedding, on hidden states ``[1, rows, hidden]``."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.layer: nn.Module
        self.rotary: nn.Module
        self.layer, self.rotary = base.layers[0], base.rotary_emb
        kinds = getattr(base.config, "layer_types", None)
        by_kind = "layer_type" in inspect.signature(self.rotary.forward).parameters
        self.arguments = {"layer_type": kinds[0]} if by_kind and kinds else {}

    def forward(self, hidden: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        turned = self.rotary(hidden, positions, **self.arguments)
        out = self.layer(hidden, position_embeddings=turned, position_ids=positions, attention_mask=None)
        return out[0] if isinstance(out, tuple) else out


class _Logits(nn.Module):
    """A whole model, from token ids ``[1, rows]`` to logits, without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: nn.Module = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, use_cache=False).logits


def _of_function(source: str, rows: int, dtype: torch.dtype) -> Model:
    module_name, _, name = source.partition(":")
    if not module_name or not name:
        raise ModelError(f"`{source}` is not MODULE:FUNCTION")
    # As for `python -m`: the folder that the command runs in comes first.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        raise ModelError(f"`{module_name}` cannot be imported: {error}") from error
    except AttributeError:
        raise ModelError(f"`{module_name}` has no `{name}`") from None
    try:
        made = function(rows)
    except TypeError as error:
        raise ModelError(f"`{source}` cannot be called with a number of rows: {error}") from error
    if not (
        isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module) and isinstance(made[1], Mapping)
    ):
        raise ModelError(f"`{source}` returned {type(made).__name__}, not a module and its inputs by name")
    module, inputs = made
    wrong = next((key for key, value in inputs.items() if not isinstance(value, torch.Tensor)), None)
    if wrong is not None:
        raise ModelError(f"input `{wrong}` of `{source}` is a {type(inputs[wrong]).__name__}, not a tensor")
    # Rows are the first axis of that extent; an input that has none is the same for all numbers of rows.
    axes = {key: tensor.shape.index(rows) for key, tensor in inputs.items() if rows in tensor.shape}
    if not axes:
        raise ModelError(f"no input of `{source}` has an axis of {rows} rows")
    cast = {key: tensor.to(dtype) if tensor.is_floating_point() else tensor for key, tensor in inputs.items()}
    return Model(_cast(module.eval(), dtype), cast, axes)


def _config(source: str, settings: Mapping[str, Any]) -> Any:
    try:
        import transformers
    except ImportError:
        raise ModelError(f"`{source}` is a configuration of transformers, which is not installed") from None
    values = dict(settings)
    if source.endswith(".json"):
        try:
            read = json.loads(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{source}: {error}") from error
        kind = read.pop("model_type", None) if isinstance(read, dict) else None
        if kind is None:
            raise ModelError(f"{source} has no `model_type`")
        values = {**read, **values}
        try:
            return transformers.AutoConfig.for_model(kind, **values)
        except (ValueError, TypeError) as error:
            raise ModelError(f"{source}: {error}") from error
    made = getattr(transformers, source, None)
    if not (inspect.isclass(made) and issubclass(made, transformers.PretrainedConfig)):
        raise ModelError(
            f"`{source}` is no file `….json`, no `MODULE:FUNCTION` and no configuration class of transformers"
        )
    # A configuration takes any name, and keeps what it does not know.
    with contextlib.suppress(ValueError, TypeError):
        own = made()
        unknown = next((name for name in settings if not hasattr(own, name)), None)
        if unknown is not None:
            raise ModelError(f"{source} has no `{unknown}`")
    try:
        return made(**values)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{source}: {error}") from error


def _of_config(config: Any, rows: int, part: str, dtype: torch.dtype) -> Model:
    import transformers

    config._attn_implementation = "sdpa"
    # The loop over experts depends on data; the grouped product does not.
    if any(hasattr(config, name) for name in ("num_experts", "num_local_experts", "n_routed_experts")):
        config._experts_implementation = "grouped_mm"
    if part == "layer":
        config.num_hidden_layers = 1
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:1]
    try:
        whole = _cast(transformers.AutoModelForCausalLM.from_config(config).eval(), dtype)
    except ValueError as error:
        raise ModelError(
            f"{type(config).__name__} makes no causal language model: {str(error).splitlines()[0]}"
        ) from error
    if part == "model":
        return Model(_Logits(whole), {"ids": torch.zeros(1, rows, dtype=torch.long)}, {"ids": 1})
    base: Any = whole.base_model
    if not (hasattr(base, "layers") and hasattr(base, "rotary_emb")):
        raise ModelError(
            f"{type(base).__name__} has no `layers` with a `rotary_emb`; export all of it with --part model"
        )
    inputs = {
        "hidden": torch.randn(1, rows, config.hidden_size, dtype=dtype),
        "positions": torch.arange(rows)[None],
    }
    return Model(_Layer(base), inputs, {"hidden": 1, "positions": 1})


def _cast(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Casts the weights of floats, and no buffers."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
    return module
