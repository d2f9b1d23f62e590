"""GGUF files of the Llama family as checkpoints with Hugging Face names and order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litert_lm.convert.checkpoint import (
    Checkpoint,
    FileRows,
    FloatArray,
    Rows,
    UnpermutedRows,
)
from litert_lm.convert.gguf_container import (
    GgufHeader,
    GgufTensor,
    read_gguf_header,
)
from litert_lm.convert.gguf_tokenizer import tokenizer_parts
from litert_lm.errors import ConversionError, MissingExtraError, ModelFileError

__all__ = ["open_gguf"]

_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FACTORS = "rope_freqs.weight"


def open_gguf(path: Path) -> Checkpoint:
    """Read a GGUF file's header; weights are read when asked for.

    Raises:
        ModelFileError: the file is damaged.
        ConversionError: it is sound, but of an architecture, tokenizer or weight type
            that cannot be converted.
        MissingExtraError: the `gguf` package is not installed.
    """
    header = read_gguf_header(path)
    values = header.values
    config = _config(path, header)
    head_dim = config["head_dim"]
    tensors = {
        _hugging_face_name(path, name): _rows(path, header, tensor, head_dim)
        for name, tensor in header.tensors.items()
        if name != _ROPE_FACTORS
    }
    template = values.get("tokenizer.chat_template")
    return Checkpoint(
        path=path,
        config=config,
        tensors=tensors,
        tokenizer=tokenizer_parts(path, values),
        chat_template=template if isinstance(template, str) else None,
        generation=_generation(values),
        rope_factors=_rope_factors(path, header, head_dim),
    )


def _config(path: Path, header: GgufHeader) -> dict[str, Any]:
    """The config.json that the key-values stand for."""
    values = header.values
    architecture = values.get("general.architecture")
    if architecture != "llama":
        raise ConversionError(
            f"'{path}' has architecture {architecture!r}; only 'llama' can be "
            "converted from GGUF."
        )
    _refuse_unsupported(path, values)
    heads = _integer(path, values, "llama.attention.head_count")
    hidden = _integer(path, values, "llama.embedding_length")
    head_dim = _integer(path, values, "llama.attention.key_length", hidden // heads)
    rotated = _integer(path, values, "llama.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise ConversionError(
            f"'{path}' rotates {rotated} of {head_dim} dimensions of a head; only "
            "full rotation can be converted."
        )
    embedding = header.tensors.get("token_embd.weight")
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": _integer(path, values, "llama.feed_forward_length"),
        "num_hidden_layers": _integer(path, values, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _integer(
            path, values, "llama.attention.head_count_kv", heads
        ),
        "head_dim": head_dim,
        "vocab_size": embedding.shape[0] if embedding and embedding.shape else 0,
        "max_position_embeddings": _integer(path, values, "llama.context_length"),
        "rms_norm_eps": values.get("llama.attention.layer_norm_rms_epsilon", 1e-5),
        "rope_theta": values.get("llama.rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(values),
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "mlp_bias": "blk.0.ffn_down.bias" in header.tensors,
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }


def _refuse_unsupported(path: Path, values: Mapping[str, object]) -> None:
    """Variants that share the name 'llama' but compute something else."""
    if values.get("llama.expert_count"):
        raise ConversionError(f"'{path}' is a mixture of experts, which is not known.")
    if values.get("split.count") not in (None, 0, 1):
        raise ConversionError(
            f"'{path}' is one part of a split GGUF; join the parts with "
            "llama-gguf-split --merge first."
        )


def _integer(
    path: Path, values: Mapping[str, object], key: str, default: int | None = None
) -> int:
    """A whole number of at least 1."""
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConversionError(f"'{path}' needs a number '{key}', got {value!r}.")
    return value


def _rope_scaling(values: Mapping[str, object]) -> dict[str, object] | None:
    prefix = "llama.rope.scaling."
    kind = values.get(f"{prefix}type")
    if kind in (None, "none"):
        return None
    scaling = {
        "rope_type": kind,
        "factor": values.get(f"{prefix}factor"),
        "original_max_position_embeddings": values.get(
            f"{prefix}original_context_length"
        ),
        "attention_factor": values.get(f"{prefix}attn_factor"),
        "beta_fast": values.get(f"{prefix}yarn_beta_fast"),
        "beta_slow": values.get(f"{prefix}yarn_beta_slow"),
    }
    return {name: value for name, value in scaling.items() if value is not None}


def _generation(values: Mapping[str, object]) -> dict[str, object]:
    """The sampling the file recommends, as a generation_config.json has it."""
    names = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p"}
    found = {
        name: values[f"general.sampling.{key}"]
        for key, name in names.items()
        if f"general.sampling.{key}" in values
    }
    return {"do_sample": True, **found} if found else {}


def _hugging_face_name(path: Path, name: str) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    match = re.fullmatch(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in _LAYER_NAMES:
        raise ConversionError(
            f"'{path}' has a tensor '{name}' that a Llama model does not have."
        )
    return f"model.layers.{int(match[1])}.{_LAYER_NAMES[match[2]]}.{match[3]}"


def _rows(path: Path, header: GgufHeader, tensor: GgufTensor, head_dim: int) -> Rows:
    rows = _file_rows(path, header, tensor)
    if re.search(r"\.attn_[qk]\.(weight|bias)$", tensor.name):
        if tensor.shape[0] % head_dim or head_dim % 2:
            raise ConversionError(
                f"Tensor '{tensor.name}' of '{path}' has {tensor.shape[0]} rows, which "
                f"are not whole heads of {head_dim}."
            )
        return UnpermutedRows(rows, head_dim)
    return rows


def _file_rows(path: Path, header: GgufHeader, tensor: GgufTensor) -> FileRows:
    """The tensor in the file; raises when its bytes do not lie inside."""
    block, block_bytes, decode = _type(path, tensor)
    if len(tensor.shape) not in (1, 2) or 0 in tensor.shape:
        raise ConversionError(
            f"Tensor '{tensor.name}' of '{path}' has shape {list(tensor.shape)}; "
            "vectors and matrices are expected."
        )
    width = tensor.shape[-1]
    if width % block:
        raise ModelFileError(
            f"Tensor '{tensor.name}' of '{path}' has rows of {width} weights, which "
            f"are not whole blocks of {block}."
        )
    row_bytes = width // block * block_bytes
    num_rows = math.prod(tensor.shape[:-1])
    if tensor.offset + num_rows * row_bytes > header.num_bytes:
        raise ModelFileError(
            f"'{path}' ends before its tensor '{tensor.name}' does; it is cut off. "
            "Fetch it again."
        )
    return FileRows(path, tensor.shape, tensor.offset, row_bytes, decode)


def _type(
    path: Path, tensor: GgufTensor
) -> tuple[int, int, Callable[[NDArray[np.uint8]], FloatArray]]:
    """Weights per block, bytes per block, and the function that decodes rows."""
    quants = _gguf_package()
    try:
        kind = quants.GGMLQuantizationType(tensor.type_number)
        block, block_bytes = quants.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError) as error:
        raise ConversionError(
            f"Tensor '{tensor.name}' of '{path}' has type {tensor.type_number}, which "
            "the installed gguf package does not know; try to update it."
        ) from error

    def decode(raw: NDArray[np.uint8]) -> FloatArray:
        try:
            return np.asarray(quants.dequantize(raw, kind), np.float32)
        except (NotImplementedError, ValueError) as error:
            raise ConversionError(
                f"Weights of type {kind.name} cannot be read from '{path}': {error}."
            ) from error

    return block, block_bytes, decode


def _gguf_package() -> Any:
    try:
        import gguf
        import gguf.quants
    except ImportError as error:
        raise MissingExtraError.of("Reading GGUF files", "gguf", "convert") from error
    return gguf


def _rope_factors(path: Path, header: GgufHeader, head_dim: int) -> FloatArray | None:
    tensor = header.tensors.get(_ROPE_FACTORS)
    if tensor is None:
        return None
    factors = _file_rows(path, header, tensor).read(0, 1).reshape(-1)
    if len(factors) != head_dim // 2 or not (factors > 0).all():
        raise ConversionError(
            f"'{path}' has {len(factors)} RoPE factors for heads of {head_dim}, or "
            "some that are not positive."
        )
    return factors
