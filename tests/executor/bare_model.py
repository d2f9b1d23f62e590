"""Signatures with any inputs and outputs, over graphs that compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from litert_lm._proto.executor_metadata_pb2 import ExecutorMetadata, StateBuffer
from litert_lm.convert.graph import GraphAuthor, Tensor
from litert_lm.convert.tflite import ModelAuthor
from tests.fixtures.bundles import ToyBundle, llm_metadata
from tests.fixtures.llama import LLAMA_METADATA
from tests.fixtures.llama_tokens import tokenizer_json

__all__ = ["BareSignature", "bare_bundle", "bare_model", "step"]

Spec = tuple[str, Sequence[int]]  # dtype and shape; -1 for an open dimension
Changes = Mapping[str, Spec | None]


@dataclass(frozen=True)
class BareSignature:
    """One signature: names of its inputs and outputs with their dtypes and shapes."""

    key: str
    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]

    def author(self, model: ModelAuthor) -> None:
        graph = GraphAuthor(model, self.key)
        inputs = {name: self._input(graph, name) for name in self.inputs}
        outputs = {name: self._output(graph, name, inputs) for name in self.outputs}
        graph.signature(inputs, outputs)

    def _input(self, graph: GraphAuthor, name: str) -> Tensor:
        dtype, shape = self.inputs[name]
        return graph.tensor(
            [abs(size) for size in shape],
            dtype,
            f"{self.key}_{name}",
            shape_signature=shape if min(shape, default=0) < 0 else None,
        )

    def _output(
        self, graph: GraphAuthor, name: str, inputs: Mapping[str, Tensor]
    ) -> Tensor:
        dtype, shape = self.outputs[name]
        if name in inputs and self.inputs[name] == (dtype, shape):
            return graph.reshape(inputs[name], shape)
        return graph.reshape(graph.const(np.zeros(shape, dtype)), shape)


def step(
    key: str = "decode",
    length: int = 1,
    inputs: Changes | None = None,
    outputs: Changes | None = None,
) -> BareSignature:
    """A sound signature over a cache of 64 tokens, but for what is changed.

    None leaves an input or output out. Only "decode" has logits.
    """
    caches: dict[str, Spec | None] = {
        "kv_cache_k_0": ("float32", [1, 1, 64, 8]),
        "kv_cache_v_0": ("float32", [1, 1, 8, 64]),
    }
    given: dict[str, Spec | None] = {
        "tokens": ("int32", [1, length]),
        "input_pos": ("int32", [length]),
        "mask": ("float32", [1, 1, length, 64]),
        **caches,
        **(inputs or {}),
    }
    logits: Changes = {"logits": ("float32", [1, 1, 64])} if key == "decode" else {}
    made = {**caches, **logits, **(outputs or {})}
    return BareSignature(key, _kept(given), _kept(made))


def _kept(specs: Changes) -> dict[str, Spec]:
    return {name: spec for name, spec in specs.items() if spec is not None}


def bare_model(*signatures: BareSignature) -> bytes:
    """The TFLite bytes of a model with these signatures."""
    model = ModelAuthor()
    for signature in signatures:
        signature.author(model)
    return model.finish().to_bytes()


def bare_bundle(
    *signatures: BareSignature,
    models: Mapping[str, bytes] | None = None,
    is_declared: bool = False,
    window: int = 0,
) -> ToyBundle:
    """A bundle of these signatures and of other `models`.

    `is_declared` adds metadata that say where the caches' token axes are, and with
    `window` that they are rings of a sliding window.
    """
    return ToyBundle(
        models={"prefill_decode": bare_model(*signatures), **(models or {})},
        tokenizer_json=tokenizer_json(),
        llm_metadata=llm_metadata(LLAMA_METADATA, {}),
        executor_metadata=_metadata(window) if is_declared else None,
    )


def _metadata(window: int) -> ExecutorMetadata:
    made = ExecutorMetadata()
    settings = made.llm_executor_metadata
    types = (StateBuffer.TYPE_GLOBAL_KEY_CACHE, StateBuffer.TYPE_GLOBAL_VALUE_CACHE)
    if window:
        types = (StateBuffer.TYPE_LOCAL_KEY_CACHE, StateBuffer.TYPE_LOCAL_VALUE_CACHE)
        settings.attention_mask_settings.sliding_window_size = window
    for part, axis, state_type in zip("kv", (2, 3), types, strict=True):
        name = f"kv_cache_{part}_0"
        settings.state_buffers.add(
            type=state_type,
            sequence_axis=axis,
            prefill_input_name=name,
            prefill_output_name=name,
            decode_input_name=name,
            decode_output_name=name,
        )
    return made
