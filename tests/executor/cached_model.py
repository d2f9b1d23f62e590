"""One step of attention over a KV cache, with the parts that tests choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from litert_lm.bundle.tflite import TfliteModel
from litert_lm.bundle.verify import verify_model
from litert_lm.convert.graph import GraphAuthor, Tensor
from litert_lm.convert.tflite import ModelAuthor
from litert_lm.executor.executor import Executor
from litert_lm.executor.layout.layout import ModelLayout
from litert_lm.executor.layout.layout_reader import read_layout
from litert_lm.executor.layout.state_reader import read_updates
from litert_lm.executor.native.compiled_model import CompileOptions
from litert_lm.executor.native.compiler import ModelCompiler
from litert_lm.executor.patching.patch_reader import read_patches

__all__ = ["VOCAB", "CachedModel", "logits_of", "shortened"]

VOCAB = 16
MAIN = "prefill_decode"


def no_change(graph: GraphAuthor, x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True, kw_only=True)
class CachedModel:
    """A model with a signature "decode" over one cache k [1, 1, tokens, width].

    Args:
        tokens: length of the cache.
        width: of a head.
        mask: (graph, positions i32[1], tokens) -> what is added to scores
            [1, 1, 1, tokens].
        scores: changes the scores.
        head: changes what attention gave, [1, width].
        external_from_bytes: see ModelAuthor.
    """

    tokens: int = 64
    width: int = 8
    mask: Callable[[GraphAuthor, Tensor, int], Tensor]
    scores: Callable[[GraphAuthor, Tensor], Tensor] = no_change
    head: Callable[[GraphAuthor, Tensor], Tensor] = no_change
    external_from_bytes: int | None = None

    def to_bytes(self) -> bytes:
        """The TFLite model."""
        model = ModelAuthor(self.external_from_bytes)
        graph = GraphAuthor(model, "decode")
        random = np.random.default_rng(0)
        tokens = graph.tensor([1, 1], "int32", "tokens")
        positions = graph.tensor([1], "int32", "input_pos")
        cache = graph.tensor([1, 1, self.tokens, self.width], "float32", "k")
        table = random.standard_normal((VOCAB, self.width)).astype(np.float32)
        row = graph.gather(graph.const(table), graph.reshape(tokens, [1]))
        row = graph.reshape(row, [1, 1, 1, self.width])
        zero = graph.const([0], "int32")
        start = graph.concat([zero, zero, positions, zero], 0)
        keys = graph.dynamic_update_slice(cache, row, start)
        scores = graph.batch_matmul(row, keys, transpose_b=True)
        scores = graph.add(scores, self.mask(graph, positions, self.tokens))
        weights = graph.softmax(self.scores(graph, scores))
        out = graph.batch_matmul(weights, keys)
        out = self.head(graph, graph.reshape(out, [1, self.width]))
        head = random.standard_normal((VOCAB, out.shape[-1])).astype(np.float32)
        logits = graph.fully_connected(out, graph.const(head))
        graph.signature(
            {"tokens": tokens, "input_pos": positions, "k": cache},
            {"k": keys, "logits": graph.reshape(logits, [1, 1, VOCAB])},
        )
        return model.finish().to_bytes()


def layout_of(model: TfliteModel) -> ModelLayout:
    return read_layout({MAIN: model}, read_updates({MAIN: model}))


def shortened(data: bytes, tokens: int) -> bytes:
    """The model with a cache of `tokens` tokens; raises what `read_patches` raises."""
    model = verify_model(data, MAIN)
    memory = bytearray(data)
    read_patches({MAIN: model}, layout_of(model))[MAIN].write(
        memoryview(memory), tokens
    )
    return bytes(memory)


def logits_of(data: bytes, count: int) -> np.ndarray:
    """Logits [count, VOCAB] of a fixed text."""
    layout = layout_of(verify_model(data, MAIN))
    options = CompileOptions(num_threads=1)
    compiler = ModelCompiler({MAIN: memoryview(data)}, options, {}, {})
    executor = Executor(layout, compiler)
    cache = executor.new_cache()
    text = np.random.default_rng(1).integers(0, VOCAB, count).tolist()
    made = np.array([executor.decode(cache, token).copy() for token in text])
    executor.close()
    return made
