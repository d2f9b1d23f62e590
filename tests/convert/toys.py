"""Random two-layer Llamas, written as checkpoints and computed in plain numpy."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file
from tokenizers import pre_tokenizers

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("t h", "th e", "Ġ a", "1 2")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
    "<|im_end|>\n{% endfor %}"
)
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Toy:
    """A model's sizes; `vocab_size` has some ids more than the tokenizer."""

    hidden: int = 32
    ffn: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    vocab_size: int = 277
    is_tied: bool = False
    has_bias: bool = False
    theta: float = 10000.0
    scaling: dict[str, Any] | None = None
    max_positions: int = 256
    layers: int = 2
    changes: dict[str, Any] = field(default_factory=dict)

    def config(self):
        return {
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab_size,
            "num_hidden_layers": self.layers,
            "rms_norm_eps": 1e-5,
            "rope_theta": self.theta,
            "rope_scaling": self.scaling,
            "max_position_embeddings": self.max_positions,
            "attention_bias": self.has_bias,
            "mlp_bias": self.has_bias,
            "tie_word_embeddings": self.is_tied,
            "hidden_act": "silu",
            "eos_token_id": 2,
        } | self.changes


def weights(toy):
    """All weights by their Hugging Face names."""
    random = np.random.default_rng(3)
    queries, kv = toy.heads * toy.head_dim, toy.kv_heads * toy.head_dim
    shapes = {
        "self_attn.q_proj": (queries, toy.hidden),
        "self_attn.k_proj": (kv, toy.hidden),
        "self_attn.v_proj": (kv, toy.hidden),
        "self_attn.o_proj": (toy.hidden, queries),
        "mlp.gate_proj": (toy.ffn, toy.hidden),
        "mlp.up_proj": (toy.ffn, toy.hidden),
        "mlp.down_proj": (toy.hidden, toy.ffn),
    }
    made = {}
    for layer in range(toy.layers):
        for name, shape in shapes.items():
            prefix = f"model.layers.{layer}.{name}"
            made[f"{prefix}.weight"] = random.standard_normal(shape) / shape[1] ** 0.5
            if toy.has_bias:
                made[f"{prefix}.bias"] = random.standard_normal(shape[0]) / 4
        for name in ("input_layernorm", "post_attention_layernorm"):
            norm = 1 + random.standard_normal(toy.hidden) / 10
            made[f"model.layers.{layer}.{name}.weight"] = norm
    size = (toy.vocab_size, toy.hidden)
    made["model.embed_tokens.weight"] = random.standard_normal(size)
    made["model.norm.weight"] = 1 + random.standard_normal(toy.hidden) / 10
    if not toy.is_tied:
        made["lm_head.weight"] = random.standard_normal(size) / 4
    return {name: value.astype(np.float32) for name, value in made.items()}


def forward(toy, ids, inv_freq=None, factor=1.0):
    """Logits f64[len(ids), V] of every position."""
    w = {name: value.astype(np.float64) for name, value in weights(toy).items()}
    half, count = toy.head_dim // 2, len(ids)
    if inv_freq is None:
        inv_freq = toy.theta ** (-np.arange(half) / half)
    angles = np.arange(count)[:, None] * np.asarray(inv_freq, np.float64)
    cos, sin = np.cos(angles)[:, None] * factor, np.sin(angles)[:, None] * factor

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)

    def rotated(x):
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][ids]
    hidden_future = np.triu(np.full((count, count), -np.inf), 1)
    for layer in range(toy.layers):
        at = f"model.layers.{layer}"
        h = norm(x, f"{at}.input_layernorm")
        q, k, v = (
            linear(h, f"{at}.self_attn.{name}_proj").reshape(count, -1, toy.head_dim)
            for name in "qkv"
        )
        repeats = toy.heads // toy.kv_heads
        k, v = np.repeat(rotated(k), repeats, 1), np.repeat(v, repeats, 1)
        scores = np.einsum("tnd,snd->nts", rotated(q), k) * toy.head_dim**-0.5
        scores = np.exp(scores + hidden_future)
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("nts,snd->tnd", scores, v).reshape(count, -1)
        x = x + linear(mixed, f"{at}.self_attn.o_proj")
        h = norm(x, f"{at}.post_attention_layernorm")
        gate = linear(h, f"{at}.mlp.gate_proj")
        inner = gate / (1 + np.exp(-gate)) * linear(h, f"{at}.mlp.up_proj")
        x = x + linear(inner, f"{at}.mlp.down_proj")
    head = "model.embed_tokens.weight" if toy.is_tied else "lm_head.weight"
    return norm(x, "model.norm") @ w[head].T


def pieces():
    """Byte-level vocabulary: specials, one piece per byte, the merges' results."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return [*SPECIALS, *alphabet, *(merge.replace(" ", "") for merge in MERGES)]


def tokenizer_json(**changes):
    """The same vocabulary as a tokenizer.json."""
    special = {"single_word": False, "lstrip": False, "rstrip": False}
    frame = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": text, "normalized": False, "special": True} | special
            for i, text in enumerate(SPECIALS)
        ],
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "vocab": {piece: i for i, piece in enumerate(pieces())},
            "merges": [merge.split(" ") for merge in MERGES],
        },
    }
    return json.dumps(frame | changes)


def write_folder(folder, toy, *, dtype="F32", num_parts=1, **files):
    """A Hugging Face folder; `files` adds or, with None, drops files by stem."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "config.json": json.dumps(toy.config()),
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": json.dumps({"chat_template": TEMPLATE}),
    }
    texts |= {name.replace("__", "."): text for name, text in files.items()}
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(text)
    entries = {k: value.astype(DTYPES[dtype]) for k, value in weights(toy).items()}
    if num_parts == 1:
        save_file(entries, folder / "model.safetensors")
        return folder
    parts = [f"model-{i + 1:05}.safetensors" for i in range(num_parts)]
    placed = {name: parts[i % num_parts] for i, name in enumerate(entries)}
    for part in parts:
        inside = {name: entries[name] for name in entries if placed[name] == part}
        save_file(inside, folder / part)
    index = json.dumps({"weight_map": placed})
    (folder / "model.safetensors.index.json").write_text(index)
    return folder


def permuted(array, num_heads):
    """Rows in the order of llama.cpp: the halves of each head interleaved."""
    halves = array.reshape(num_heads, 2, -1, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)


GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
TOP_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_name(name):
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_NAMES[stem]}.{kind}"


def write_gguf(path, toy, *, kind="F32", tensors=None, **keys):
    """A GGUF file; `keys` adds key-values, `tensors` replaces (array, type) by name."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(toy.layers)
    writer.add_context_length(toy.max_positions)
    writer.add_embedding_length(toy.hidden)
    writer.add_feed_forward_length(toy.ffn)
    writer.add_head_count(toy.heads)
    writer.add_head_count_kv(toy.kv_heads)
    writer.add_key_length(toy.head_dim)
    writer.add_rope_dimension_count(toy.head_dim)
    writer.add_rope_freq_base(toy.theta)
    writer.add_layer_norm_rms_eps(1e-5)
    for key, value in (tokenizer_keys() | keys).items():
        if value is not None:
            name = key.replace("__", ".")
            writer.add_key_value(name, value, *value_types(value))
    for name, value in weights(toy).items():
        heads = {"q": toy.heads, "k": toy.kv_heads}.get(name.split("_proj")[0][-1])
        if heads and "self_attn" in name:
            value = permuted(value, heads)
        add_tensor(writer, gguf_name(name), value, kind)
    for name, (value, number) in (tensors or {}).items():
        writer.add_tensor(name, value, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tensor(writer, name, value, kind):
    number = gguf.GGMLQuantizationType[kind if value.ndim > 1 else "F32"]
    writer.add_tensor(name, gguf.quantize(value, number), raw_dtype=number)


def value_types(value):
    """The value's type in a GGUF file, and that of its items where it is a list."""
    types = gguf.GGUFValueType
    if isinstance(value, list):
        return types.ARRAY, value_types(value[0])[0]
    names = {bool: "BOOL", int: "UINT32", float: "FLOAT32", str: "STRING"}
    return (types[names[type(value)]],)


def tokenizer_keys():
    return {
        "tokenizer__ggml__model": "gpt2",
        "tokenizer__ggml__pre": "smollm",
        "tokenizer__ggml__tokens": pieces(),
        "tokenizer__ggml__token_type": [3] * 3 + [1] * (len(pieces()) - 3),
        "tokenizer__ggml__merges": list(MERGES),
        "tokenizer__ggml__bos_token_id": 1,
        "tokenizer__ggml__eos_token_id": 2,
        "tokenizer__ggml__padding_token_id": 2,
        "tokenizer__ggml__add_bos_token": False,
        "tokenizer__chat_template": TEMPLATE,
    }
