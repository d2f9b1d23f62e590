"""The Llama family (Llama, SmolLM2, TinyLlama): config and weights of a decoder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litert_lm.convert.architectures.decoder import (
    DecoderShape,
    DecoderWeights,
    LayerWeights,
    Linear,
    is_scale_folded,
)
from litert_lm.convert.checkpoint import Checkpoint, JoinedRows, Rows, ScaledRows
from litert_lm.convert.quantize import Weight
from litert_lm.convert.rope import Rope, make_rope
from litert_lm.convert.weights import WeightMaker
from litert_lm.errors import ConversionError

__all__ = ["LlamaConfig", "make_weights", "num_weights", "read_config"]


_NORMS = ("input_layernorm", "post_attention_layernorm")
_ATTENTION = tuple(f"self_attn.{name}_proj" for name in "qkvo")
_MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


@dataclass(frozen=True, kw_only=True, eq=False)
class LlamaConfig:
    """What config.json says, checked.

    Args:
        max_positions: longest context the checkpoint was trained for.
        is_tied: the head is the embedding table.
    """

    shape: DecoderShape
    rope: Rope
    max_positions: int
    is_tied: bool
    has_attention_bias: bool
    has_mlp_bias: bool


def read_config(checkpoint: Checkpoint) -> LlamaConfig:
    """Check the config; raises ConversionError for what the graph cannot express."""
    config = _Fields(checkpoint)
    config.expect("hidden_act", "silu")
    config.expect("partial_rotary_factor", 1.0)
    config.expect("rope_interleaved", False)
    config.expect("quantization_config", None)
    shape = _shape(config)
    max_positions = config.count("max_position_embeddings", 2048)
    scaling = config.table("rope_parameters") or config.table("rope_scaling") or {}
    theta = scaling.get("rope_theta", config.values.get("rope_theta", 10000.0))
    rope = make_rope(
        shape.head_dim,
        config.positive("rope_theta", theta),
        max_positions,
        scaling,
        checkpoint.rope_factors,
    )
    return LlamaConfig(
        shape=shape,
        rope=rope,
        max_positions=max_positions,
        is_tied=config.flag("tie_word_embeddings"),
        has_attention_bias=config.flag("attention_bias"),
        has_mlp_bias=config.flag("mlp_bias"),
    )


def _shape(config: _Fields) -> DecoderShape:
    hidden = config.count("hidden_size")
    heads = config.count("num_attention_heads")
    kv_heads = config.count("num_key_value_heads", heads)
    head_dim = config.count("head_dim", hidden // heads)
    if heads % kv_heads or head_dim % 2:
        raise ConversionError(
            f"'{config.path}' has {heads} query heads, {kv_heads} key-value heads of "
            f"size {head_dim}; the first must be a multiple of the second, the size "
            "even."
        )
    epsilon = config.values.get("rms_norm_eps", 1e-6)
    return DecoderShape(
        num_layers=config.count("num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=config.count("intermediate_size"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=config.count("vocab_size"),
        norm_epsilon=config.positive("rms_norm_eps", epsilon),
    )


class _Fields:
    """config.json with every value checked when it is asked for."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path = checkpoint.path
        self.values: Mapping[str, Any] = checkpoint.config

    def fail(self, name: str, value: object, wanted: str) -> ConversionError:
        return ConversionError(
            f"The config of '{self.path}' has {name} = {value!r}; {wanted}."
        )

    def expect(self, name: str, wanted: object) -> None:
        """The graph knows one value only; a missing or null one is the same."""
        value = self.values.get(name)
        if value is not None and value != wanted:
            raise self.fail(name, value, f"only {wanted!r} can be converted")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.fail(name, value, "a whole number of at least 1 is needed")
        return value

    def positive(self, name: str, value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:  # type: ignore
            raise self.fail(name, value, "a positive number is needed")
        return float(value)  # type: ignore[arg-type]

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        if value not in (None, True, False):
            raise self.fail(name, value, "true or false is needed")
        return bool(value)

    def table(self, name: str) -> Mapping[str, Any] | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.fail(name, value, "an object is needed")
        return value


def num_weights(config: LlamaConfig) -> int:
    """How many weights `make_weights` counts, to show progress."""
    shape = config.shape
    queries = shape.num_heads * shape.head_dim
    kv = shape.num_kv_heads * shape.head_dim
    per_layer = shape.hidden_size * (
        2 * queries + 2 * kv + 3 * shape.intermediate_size + 2
    )
    tables = 1 if config.is_tied else 2
    vocabulary = tables * shape.vocab_size * shape.hidden_size
    return shape.num_layers * per_layer + vocabulary + shape.hidden_size


def make_weights(
    checkpoint: Checkpoint, config: LlamaConfig, maker: WeightMaker, kind: str
) -> DecoderWeights:
    """All weights as `kind`; with int4 the embedding and the head are int8.

    Raises:
        ConversionError: a weight is missing, misshapen or no number.
    """
    _refuse_unknown(checkpoint, config)
    source = _Source(checkpoint, config, maker, kind)
    shape = config.shape
    size = (shape.vocab_size, shape.hidden_size)
    table_kind = "int8" if kind == "int4" else kind
    name = "model.embed_tokens.weight"
    embedding = maker.matrix(checkpoint.rows(name, *size), name, table_kind)
    layers = [source.layer(index) for index in range(shape.num_layers)]
    head = embedding
    if not config.is_tied:
        head = maker.matrix(
            checkpoint.rows("lm_head.weight", *size), "lm_head.weight", table_kind
        )
    return DecoderWeights(
        embedding=embedding,
        layers=layers,
        final_norm=source.norm("model.norm.weight"),
        head=head,
    )


def _refuse_unknown(checkpoint: Checkpoint, config: LlamaConfig) -> None:
    """A weight that is not used means another architecture than the config says."""
    known = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}
    for index in range(min(config.shape.num_layers, len(checkpoint.tensors))):
        prefix = f"model.layers.{index}."
        known |= {f"{prefix}{norm}.weight" for norm in _NORMS}
        for group, has_bias in (
            (_ATTENTION, config.has_attention_bias),
            (_MLP, config.has_mlp_bias),
        ):
            known |= {f"{prefix}{name}.weight" for name in group}
            known |= {f"{prefix}{name}.bias" for name in group if has_bias}
    for name in checkpoint.tensors:
        # Older checkpoints store the frequencies, which follow from the config.
        if name not in known and not name.endswith(".rotary_emb.inv_freq"):
            raise ConversionError(
                f"'{checkpoint.path}' has a weight '{name}' that a Llama model of "
                f"{config.shape.num_layers} layers does not use."
            )


class _Source:
    """The checkpoint's layers, fused as the graph wants them."""

    def __init__(
        self, checkpoint: Checkpoint, config: LlamaConfig, maker: WeightMaker, kind: str
    ) -> None:
        self.checkpoint = checkpoint
        self.config = config
        self.maker = maker
        self.kind = kind

    def norm(self, name: str) -> Weight:
        rows = self.checkpoint.rows(name, self.config.shape.hidden_size)
        return self.maker.vector([rows], name)

    def layer(self, index: int) -> LayerWeights:
        shape = self.config.shape
        prefix = f"model.layers.{index}."
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        queries = shape.num_heads * shape.head_dim
        kv = shape.num_kv_heads * shape.head_dim
        hidden, width = shape.hidden_size, shape.intermediate_size
        has_bias, has_mlp_bias = (
            self.config.has_attention_bias,
            self.config.has_mlp_bias,
        )
        scale = shape.head_dim**-0.5 if is_scale_folded(shape.head_dim) else 1.0
        return LayerWeights(
            attention_norm=self.norm(f"{prefix}input_layernorm.weight"),
            qkv=self.linear(
                attention,
                {"q_proj": queries, "k_proj": kv, "v_proj": kv},
                hidden,
                has_bias,
                first_scale=scale,
            ),
            attention_out=self.linear(attention, {"o_proj": hidden}, queries, has_bias),
            mlp_norm=self.norm(f"{prefix}post_attention_layernorm.weight"),
            gate=self.linear(mlp, {"gate_proj": width}, hidden, has_mlp_bias),
            up=self.linear(mlp, {"up_proj": width}, hidden, has_mlp_bias),
            down=self.linear(mlp, {"down_proj": hidden}, width, has_mlp_bias),
        )

    def linear(
        self,
        prefix: str,
        outputs: Mapping[str, int],
        inputs: int,
        has_bias: bool,
        first_scale: float = 1.0,
    ) -> Linear:
        """Several projections of the same input as one matrix."""
        parts = [
            self.checkpoint.rows(f"{prefix}{name}.weight", size, inputs)
            for name, size in outputs.items()
        ]
        if first_scale != 1.0:
            parts[0] = ScaledRows(parts[0], first_scale)
        joined: Rows = parts[0] if len(parts) == 1 else JoinedRows(parts)
        label = f"{prefix}{'+'.join(outputs)}.weight"
        weight = self.maker.matrix(joined, label, self.kind)
        if not has_bias:
            return Linear(weight)
        biases = [
            self.checkpoint.rows(f"{prefix}{name}.bias", size)
            for name, size in outputs.items()
        ]
        return Linear(weight, self.maker.vector(biases, label, first_scale))
