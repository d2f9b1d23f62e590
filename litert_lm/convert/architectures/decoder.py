"""The graph of a Llama-like decoder, one subgraph per signature.

Layout of the caches: k f32[1, K, T, D] and v f32[1, K, D, T], K key-value heads of size
D. Nothing but the shapes of caches and mask depends on T, so a runtime may resize them.
Values laid out like keys would be faster at long contexts, but XNNPACK rounds their
sums in an order that depends on T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from litert_lm.convert.graph import GraphAuthor, Tensor
from litert_lm.convert.quantize import Weight
from litert_lm.convert.rope import Rope
from litert_lm.convert.tflite import ModelAuthor

__all__ = [
    "SIGNATURES",
    "DecoderGraph",
    "DecoderShape",
    "DecoderWeights",
    "LayerWeights",
    "Linear",
    "Signature",
    "add_signature",
    "is_scale_folded",
]


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """Sizes and constants that the graph needs.

    Args:
        num_heads: query heads; a multiple of `num_kv_heads`.
        norm_epsilon: added to the mean square in RMSNorm.
    """

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    norm_epsilon: float


@dataclass(frozen=True, eq=False)
class Linear:
    """A matrix [O, I] and, where the checkpoint has one, a bias [O]."""

    weight: Weight
    bias: Weight | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerWeights:
    """One layer. `qkv` holds query, key and value rows.

    Query rows are multiplied by the attention scale if `is_scale_folded`. Gate and up
    are not joined: cutting their product apart again costs a prefill on two threads
    more than reading the input twice.
    """

    attention_norm: Weight
    qkv: Linear
    attention_out: Linear
    mlp_norm: Weight
    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True, eq=False, kw_only=True)
class DecoderWeights:
    """All weights; a tied `head` is the same object as `embedding`."""

    embedding: Weight
    layers: Sequence[LayerWeights]
    final_norm: Weight
    head: Weight


@dataclass(frozen=True)
class Signature:
    """A way to run the model: `length` tokens, with logits of every one or of none."""

    key: str
    length: int
    has_logits: bool


SIGNATURES = (
    Signature("decode", 1, True),
    Signature("verify_8", 8, True),
    Signature("verify_16", 16, True),
    Signature("prefill_32", 32, False),
    Signature("prefill_128", 128, False),
)


def is_scale_folded(head_dim: int) -> bool:
    """Whether 1 / sqrt(head_dim) is a power of two, so that folding it is exact."""
    return math.frexp(head_dim**-0.5)[0] == 0.5


def add_signature(
    model: ModelAuthor,
    signature: Signature,
    shape: DecoderShape,
    weights: DecoderWeights,
    rope: Rope,
    context_length: int,
) -> None:
    """Author one signature.

    Inputs: tokens i32[1, L], input_pos i32[L], mask f32[1, 1, L, T] (added to the
    scores) and all caches. Outputs: logits f32[1, L, V] where wanted, and all caches.
    """
    graph = DecoderGraph(model, signature, shape, weights, rope, context_length)
    graph.author()


class DecoderGraph:
    """One subgraph while it is being authored."""

    def __init__(
        self,
        model: ModelAuthor,
        signature: Signature,
        shape: DecoderShape,
        weights: DecoderWeights,
        rope: Rope,
        context_length: int,
    ) -> None:
        self.graph = GraphAuthor(model, signature.key)
        self.signature = signature
        self.length = signature.length
        self.shape = shape
        self.weights = weights
        self.tokens = self.graph.tensor([1, self.length], "int32", "tokens")
        self.positions = self.graph.tensor([self.length], "int32", "input_pos")
        self.masks: dict[str, Tensor] = {}
        self.caches: dict[str, Tensor] = {}
        self._add_states(context_length)
        self._add_rotation(rope)
        self._add_starts()

    def _add_states(self, context_length: int) -> None:
        sizes = [1, 1, self.length, context_length]
        self.masks["mask"] = self.graph.tensor(sizes, name="mask")
        self._add_caches(context_length)

    def _add_caches(self, context_length: int, row: str = "") -> None:
        """The caches of a sequence; `row` begins their names."""
        heads, dim = self.shape.num_kv_heads, self.shape.head_dim
        for layer in range(self.shape.num_layers):
            for kind, sizes in (
                ("k", [1, heads, context_length, dim]),
                ("v", [1, heads, dim, context_length]),
            ):
                name = f"{row}kv_cache_{kind}_{layer}"
                self.caches[name] = self.graph.tensor(sizes, name=name)

    def _add_starts(self) -> None:
        self.starts = [self._start(0)]
        repeats = self.shape.num_heads // self.shape.num_kv_heads
        mask = self.masks["mask"]
        # Rows of one key-value head: its query heads one after another.
        self.grouped_mask = (
            mask
            if self.length == 1 or repeats == 1
            else self.graph.concat([mask] * repeats, 2)
        )

    def _add_rotation(self, rope: Rope) -> None:
        """cos f32[1, 1, L, D], and sin with the sign that the swapped half takes."""
        graph = self.graph
        both = np.concatenate([rope.inv_freq, rope.inv_freq])
        ones = np.ones(len(rope.inv_freq), np.float32)
        signs = np.concatenate([-ones, ones]) * np.float32(rope.attention_factor)
        column = graph.reshape(
            graph.cast(self.positions, "float32"), [1, 1, self.length, 1]
        )
        angles = graph.mul(column, graph.const(both.reshape(1, 1, 1, -1)))
        self.sin = graph.mul(
            graph.sin(angles), graph.const(signs.reshape(1, 1, 1, -1), "float32")
        )
        self.cos = graph.cos(angles)
        if rope.attention_factor != 1.0:
            factor = graph.const([rope.attention_factor], "float32")
            self.cos = graph.mul(self.cos, factor)

    def _start(self, index: int) -> tuple[Tensor, Tensor]:
        """Where position `index` of the inputs lies in a key and in a value cache."""
        graph = self.graph
        first = graph.slice(self.positions, [index], [1])
        zero = graph.const([0], "int32")
        return (
            graph.concat([zero, zero, first, zero], 0),
            graph.concat([zero, zero, zero, first], 0),
        )

    def author(self) -> None:
        graph, shape = self.graph, self.shape
        ids = graph.reshape(self.tokens, [self.length])
        table = graph.weight(self.weights.embedding)
        x = graph.reshape(
            graph.embedding_lookup(ids, table), [1, self.length, shape.hidden_size]
        )
        new_caches: dict[str, Tensor] = {}
        last = shape.num_layers - 1
        for index, layer in enumerate(self.weights.layers):
            is_needed = self.signature.has_logits or index < last
            x = self._layer(x, index, layer, new_caches, is_needed)
        outputs: dict[str, Tensor] = {}
        if self.signature.has_logits:
            normed = self._norm(x, self.weights.final_norm)
            head = graph.weight(self.weights.head)
            outputs["logits"] = graph.fully_connected(normed, head)
        inputs = {"tokens": self.tokens, "input_pos": self.positions}
        graph.signature(inputs | self.masks | self.caches, outputs | new_caches)

    def _layer(
        self,
        x: Tensor,
        index: int,
        layer: LayerWeights,
        new_caches: dict[str, Tensor],
        is_needed: bool,
    ) -> Tensor:
        """x after the layer; only the caches are filled where x is not needed."""
        graph = self.graph
        projected = self._linear(self._norm(x, layer.attention_norm), layer.qkv)
        query, keys, values = self._split(projected)
        mixed = self._mix(index, query, keys, values, new_caches, is_needed)
        if mixed is None:
            return x
        x = graph.add(x, self._linear(mixed, layer.attention_out))
        return graph.add(x, self._mlp(self._norm(x, layer.mlp_norm), layer))

    def _mix(
        self,
        index: int,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        new_caches: dict[str, Tensor],
        is_needed: bool,
    ) -> Tensor | None:
        """The attention of layer `index` [1, L, H * D]; its entries are stored."""
        both = self._store(index, keys, values, new_caches, self.starts[0])
        if not is_needed:
            return None
        return self._attention(query, *both, self.grouped_mask)

    def _store(
        self,
        index: int,
        keys: Tensor,
        values: Tensor,
        new_caches: dict[str, Tensor],
        starts: tuple[Tensor, Tensor],
        row: str = "",
    ) -> tuple[Tensor, Tensor]:
        """The caches of layer `index` with new entries; `row` begins their names."""
        for kind, update, start in zip("kv", (keys, values), starts, strict=True):
            name = f"{row}kv_cache_{kind}_{index}"
            new_caches[name] = self.graph.dynamic_update_slice(
                self.caches[name], update, start
            )
        return (
            new_caches[f"{row}kv_cache_k_{index}"],
            new_caches[f"{row}kv_cache_v_{index}"],
        )

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated query [1, H, L, D], rotated keys [1, K, L, D], values [1, K, D, L].

        Query and keys rotate together: one operator instead of two.
        """
        graph, shape, length = self.graph, self.shape, self.length
        heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        rotating = (heads + kv_heads) * dim
        both = graph.slice(projected, [0, 0, 0], [1, length, rotating])
        rotated = self._rotate(self._to_heads(both, heads + kv_heads))
        query = graph.slice(rotated, [0, 0, 0, 0], [1, heads, length, dim])
        keys = graph.slice(rotated, [0, heads, 0, 0], [1, kv_heads, length, dim])
        flat = graph.slice(projected, [0, 0, rotating], [1, length, kv_heads * dim])
        if length == 1:
            return query, keys, graph.reshape(flat, [1, kv_heads, dim, 1])
        values = graph.reshape(flat, [1, length, kv_heads, dim])
        return query, keys, graph.transpose(values, [0, 2, 3, 1])

    def _to_heads(self, x: Tensor, num_heads: int) -> Tensor:
        """[1, L, N * D] to [1, N, L, D]."""
        dim = self.shape.head_dim
        if self.length == 1:
            return self.graph.reshape(x, [1, num_heads, 1, dim])
        split = self.graph.reshape(x, [1, self.length, num_heads, dim])
        return self.graph.transpose(split, [0, 2, 1, 3])

    def _rotate(self, x: Tensor) -> Tensor:
        """RoPE over halves: x * cos + swapped(x) * signed sin."""
        graph = self.graph
        half = self.shape.head_dim // 2
        size = [*x.shape[:3], half]
        first = graph.slice(x, [0, 0, 0, 0], size)
        second = graph.slice(x, [0, 0, 0, half], size)
        swapped = graph.concat([second, first], 3)
        return graph.add(graph.mul(x, self.cos), graph.mul(swapped, self.sin))

    def _attention(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor
    ) -> Tensor:
        """Grouped-query attention: [1, L, H * D]."""
        graph, shape, length = self.graph, self.shape, query.shape[2]
        heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
        if not is_scale_folded(dim):
            query = graph.mul(query, graph.const([dim**-0.5], "float32"))
        rows = heads // kv_heads * length
        grouped = graph.reshape(query, [1, kv_heads, rows, dim])
        scores = graph.batch_matmul(grouped, keys, transpose_b=True)
        weights = graph.softmax(graph.add(scores, mask))
        mixed = graph.batch_matmul(weights, values, transpose_b=True)
        if length == 1:
            return graph.reshape(mixed, [1, 1, heads * dim])
        by_head = graph.reshape(mixed, [1, heads, length, dim])
        by_token = graph.transpose(by_head, [0, 2, 1, 3])
        return graph.reshape(by_token, [1, length, heads * dim])

    def _mlp(self, x: Tensor, layer: LayerWeights) -> Tensor:
        """down(silu(gate(x)) * up(x))."""
        graph = self.graph
        gate = self._linear(x, layer.gate)
        activated = graph.mul(gate, graph.logistic(gate))
        up = self._linear(x, layer.up)
        return self._linear(graph.mul(activated, up), layer.down)

    def _norm(self, x: Tensor, weight: Weight) -> Tensor:
        """RMSNorm over the last axis."""
        graph = self.graph
        epsilon = graph.const([self.shape.norm_epsilon], "float32")
        mean_square = graph.mean(graph.square(x))
        normed = graph.mul(x, graph.rsqrt(graph.add(mean_square, epsilon)))
        return graph.mul(normed, graph.weight(weight))

    def _linear(self, x: Tensor, linear: Linear) -> Tensor:
        graph = self.graph
        bias = None if linear.bias is None else graph.weight(linear.bias)
        return graph.fully_connected(x, graph.weight(linear.weight), bias)
