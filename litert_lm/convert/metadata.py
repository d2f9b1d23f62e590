"""The metadata of a converted model: LlmMetadata and ExecutorMetadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from litert_lm._proto.executor_metadata_pb2 import (
    ATTENTION_MASK_TYPE_CAUSAL,
    ExecutorMetadata,
    StateBuffer,
)
from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
from litert_lm._proto.sampler_parameters_pb2 import SamplerParameters
from litert_lm.bundle.lint import TURN_ENDS
from litert_lm.config import SamplerConfig
from litert_lm.convert.checkpoint import Checkpoint
from litert_lm.errors import ConversionError, InvalidArgumentError

__all__ = ["make_executor_metadata", "make_llm_metadata"]

# Turns may also end with the token that ends a text.
_ENDS = (*TURN_ENDS, "<|end_of_text|>", "<|endoftext|>", "</s>")
_THINK = ("<think>", "</think>")
# transformers samples from so many tokens where generation_config.json is silent.
_DEFAULT_TOP_K = 50


def make_llm_metadata(
    checkpoint: Checkpoint, context_length: int, sampler: SamplerConfig | None
) -> LlmMetadata:
    """What the bundle says about the language model.

    Args:
        context_length: longest context in tokens.
        sampler: how tokens are drawn by default; None takes generation_config.json.
    """
    tokenizer = checkpoint.tokenizer
    known = set(tokenizer.pieces.values())
    metadata = LlmMetadata(max_num_tokens=context_length)
    metadata.llm_model_type.generic_model.SetInParent()
    if tokenizer.bos_id is not None:
        metadata.start_token.token_ids.ids.append(tokenizer.bos_id)
    for stop_id in _stop_ids(checkpoint):
        if stop_id in known:
            metadata.stop_tokens.add().token_ids.ids.append(stop_id)
    if tokenizer.pad_id in known:
        metadata.pad_token.token_ids.ids.append(tokenizer.pad_id)
    _add_sampler(metadata, checkpoint, sampler)
    _add_template(metadata, checkpoint.chat_template or "")
    return metadata


def _stop_ids(checkpoint: Checkpoint) -> list[int]:
    """The checkpoint's own stop ids, then the turn ends that its template writes."""
    template = checkpoint.chat_template or ""
    pieces = checkpoint.tokenizer.pieces
    ends = [pieces[end] for end in _ENDS if end in template and end in pieces]
    return list(dict.fromkeys([*checkpoint.tokenizer.stop_ids, *ends]))


def _add_template(metadata: LlmMetadata, template: str) -> None:
    has_thoughts = all(marker in template for marker in _THINK)
    if template:
        metadata.jinja_prompt_template = template
    if has_thoughts:
        metadata.channels.add(
            channel_name="thought",
            start=_THINK[0],
            end=_THINK[1],
            is_reasoning_channel=True,
        )
    metadata.supports_thinking = has_thoughts
    metadata.supports_function_calling = bool(re.search(r"\btools\b", template))


def _add_sampler(
    metadata: LlmMetadata, checkpoint: Checkpoint, sampler: SamplerConfig | None
) -> None:
    """Sampler parameters; none at all where nobody says anything."""
    if sampler is None:
        sampler = _generation_sampler(checkpoint.generation)
    if sampler is None:
        return
    stored = metadata.sampler_params
    if sampler.temperature == 0 or sampler.top_k == 1:
        stored.type = SamplerParameters.GREEDY
        return
    stored.type = SamplerParameters.TOP_P
    for field, value in (
        ("k", sampler.top_k),
        ("p", sampler.top_p),
        ("temperature", sampler.temperature),
        ("seed", sampler.seed),
    ):
        if value is not None:
            _store(stored, field, value)


def _store(stored: SamplerParameters, field: str, value: float) -> None:
    try:
        setattr(stored, field, value)
    except ValueError as error:
        raise InvalidArgumentError(
            f"The sampler's {field} = {value} does not fit into 32 bits."
        ) from error


def _generation_sampler(generation: Mapping[str, Any]) -> SamplerConfig | None:
    """The sampling of a generation_config.json, with the defaults of transformers."""
    does_sample = generation.get("do_sample")
    if does_sample is None:
        return None
    if not does_sample:
        return SamplerConfig(temperature=0.0)
    top_k = generation.get("top_k", _DEFAULT_TOP_K)
    try:
        return SamplerConfig(
            top_k=top_k or None,
            top_p=generation.get("top_p", 1.0),
            temperature=generation.get("temperature", 1.0),
        )
    except InvalidArgumentError as error:
        raise ConversionError(
            f"The checkpoint's generation config cannot be used: {error}"
        ) from error


def make_executor_metadata(num_layers: int, context_length: int) -> ExecutorMetadata:
    """What the cache tensors of `decoder` mean: keys grow along axis 2, values 3."""
    metadata = ExecutorMetadata()
    llm = metadata.llm_executor_metadata
    llm.max_history_size = context_length
    llm.attention_mask_settings.attention_mask_type = ATTENTION_MASK_TYPE_CAUSAL
    kinds = (
        ("k", StateBuffer.TYPE_GLOBAL_KEY_CACHE, 2),
        ("v", StateBuffer.TYPE_GLOBAL_VALUE_CACHE, 3),
    )
    for layer in range(num_layers):
        for letter, kind, axis in kinds:
            name = f"kv_cache_{letter}_{layer}"
            llm.state_buffers.add(
                prefill_input_name=name,
                prefill_output_name=name,
                decode_input_name=name,
                decode_output_name=name,
                type=kind,
                sequence_axis=axis,
                maximum_sequence_length=context_length,
            )
    return metadata
