"""One decode step of several sequences at once.

The weights are read once for all of them, which is what a decode step spends its time
on. Every sequence brings caches and a mask of its own, so that each is as it would be
alone.
"""

from __future__ import annotations

from litert_lm.convert.architectures.decoder import (
    DecoderGraph,
    DecoderShape,
    DecoderWeights,
    Signature,
)
from litert_lm.convert.graph import Tensor
from litert_lm.convert.rope import Rope
from litert_lm.convert.tflite import ModelAuthor

__all__ = ["BATCH", "add_batch_signature"]

BATCH = Signature("decode_batch_4", 4, True)


def add_batch_signature(
    model: ModelAuthor,
    signature: Signature,
    shape: DecoderShape,
    weights: DecoderWeights,
    rope: Rope,
    context_length: int,
) -> None:
    """Author a step of one token for each of `signature.length` sequences.

    Inputs: tokens i32[1, N], input_pos i32[N], and for every sequence r its
    row_<r>_mask f32[1, 1, 1, T] and caches row_<r>_kv_cache_<k or v>_<layer>. Outputs:
    logits f32[1, N, V], and all caches.
    """
    _BatchGraph(model, signature, shape, weights, rope, context_length).author()


class _BatchGraph(DecoderGraph):
    """Row r of what would be a chunk belongs to sequence r."""

    def _add_states(self, context_length: int) -> None:
        for row in range(self.length):
            name = f"row_{row}_mask"
            sizes = [1, 1, 1, context_length]
            self.masks[name] = self.graph.tensor(sizes, name=name)
            self._add_caches(context_length, f"row_{row}_")

    def _add_starts(self) -> None:
        self.starts = [self._start(row) for row in range(self.length)]

    def _mix(
        self,
        index: int,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        new_caches: dict[str, Tensor],
        is_needed: bool,
    ) -> Tensor:
        mixed = []
        for row, starts in enumerate(self.starts):
            name = f"row_{row}_"
            both = self._store(
                index,
                self._row(keys, 2, row),
                self._row(values, 3, row),
                new_caches,
                starts,
                name,
            )
            own_query, mask = self._row(query, 2, row), self.masks[f"{name}mask"]
            mixed.append(self._attention(own_query, *both, mask))
        return self.graph.concat(mixed, 1)

    def _row(self, x: Tensor, axis: int, row: int) -> Tensor:
        begin, sizes = [0] * len(x.shape), list(x.shape)
        begin[axis], sizes[axis] = row, 1
        return self.graph.slice(x, begin, sizes)
