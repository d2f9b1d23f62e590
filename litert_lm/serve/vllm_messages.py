"""Between the messages of the vLLM Generate schema and an engine's options and answers.

The schema's field names are the option names. What has no presence is unset at its zero
value, and nothing is checked here: the engine does that for all its callers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from litert_lm._proto import vllm_generate_pb2 as schema
from litert_lm.errors import InvalidArgumentError
from litert_lm.generate.request import Prompt
from litert_lm.generate.response import (
    CandidateToken,
    FinishInfo,
    GenerateResponse,
    PromptInfo,
    SequenceOutput,
)

__all__ = [
    "Reply",
    "absorb",
    "options_of",
    "parse_request",
    "prompt_of",
    "trailing_metadata",
]

_NO_PRESENCE: Mapping[str, tuple[str, ...]] = {
    "sampling": ("num_sequences", "top_k", "top_p", "min_p"),
    "decoding": (
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "allowed_token_ids",
    ),
    "stopping": (
        "max_new_tokens",
        "min_new_tokens",
        "include_stop_strings",
        "ignore_eos",
        "stop_token_ids",
        "stop_strings",
    ),
    "response": (
        "prompt_token_ids",
        "prompt_logprobs",
        "output_token_ids",
        "output_logprobs",
    ),
    "kv": ("bypass_prefix_cache", "cache_salt"),
}
_MAX_EXACT = 2**53 - 1  # integers up to here survive as a Struct's double
_KV_TRANSFER_KEY = "litert-lm-kv-transfer"
_MAX_MERGED_BYTES = 1 << 16  # clients refuse messages above 4 MiB by default
_MAX_MERGED_TOKENS = 4  # a reader that lags still sees the answer grow


def parse_request(data: bytes) -> schema.GenerateRequest:
    """The request in a message's bytes.

    Raises:
        InvalidArgumentError: they are no such message.
    """
    try:
        message: schema.GenerateRequest = schema.GenerateRequest.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError(
            f"The {len(data)} bytes are no vllm.GenerateRequest: they are damaged, "
            "nested too deeply, or hold text that is not UTF-8."
        ) from error
    return message


def prompt_of(message: schema.GenerateRequest) -> Prompt:
    """Text or token ids.

    Raises:
        InvalidArgumentError: there is neither.
    """
    kind = message.WhichOneof("prompt")
    if kind is None:
        raise InvalidArgumentError("The request has no prompt; set text or token_ids.")
    return message.text if kind == "text" else message.token_ids.ids


def options_of(message: schema.GenerateRequest) -> dict[str, object]:
    """Keyword arguments of `Engine.generate`; what is unset is left out."""
    options: dict[str, object] = {
        name: getattr(getattr(message, part), name)
        for part, names in _NO_PRESENCE.items()
        for name in names
    }
    options |= {
        "request_id": message.request_id,
        "truncate_prompt_tokens": message.truncate_prompt_tokens,
        "priority": message.priority,
        "logit_bias": dict(message.decoding.logit_bias),
    }
    given = {name: value for name, value in options.items() if value}
    return given | dict(_present(message))


def _present(message: schema.GenerateRequest) -> Iterator[tuple[str, object]]:
    """Options whose zero values mean something."""
    if message.HasField("temperature"):
        yield "temperature", message.temperature
    if message.sampling.HasField("seed"):
        yield "seed", message.sampling.seed
    response = message.response
    if response.HasField("output_text"):
        yield "output_text", response.output_text
    for name in ("prompt_candidates", "output_candidates"):
        if response.HasField(name):
            yield name, _selected(getattr(response, name))
    kind = message.decoding.WhichOneof("structured_output")
    if kind == "choice":
        yield kind, message.decoding.choice.choices
    elif kind is not None and (kind != "json_object" or message.decoding.json_object):
        yield kind, getattr(message.decoding, kind)
    if message.kv.HasField("kv_transfer_params"):
        yield "kv_transfer_params", _plain_struct(message.kv.kv_transfer_params)


def _selected(candidates: schema.CandidateTokens) -> object:
    match candidates.WhichOneof("select"):
        case "top_n":
            return candidates.top_n
        case "token_ids":
            return candidates.token_ids.ids or None
        case "all" if candidates.all:
            return "all"
    return None


def _plain_struct(struct: Any) -> dict[str, object]:
    return {key: _plain(value) for key, value in struct.fields.items()}


def _plain(value: Any) -> object:
    """A Struct's value in Python; whole numbers come back as int."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        is_whole = math.isfinite(number) and number == int(number)
        return int(number) if is_whole and abs(number) <= _MAX_EXACT else number
    return None if kind in (None, "null_value") else getattr(value, kind)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one request wants to hear: an engine always fills token ids.

    Attributes:
        prompt_token_ids, output_token_ids: whether to send them.
    """

    prompt_token_ids: bool
    output_token_ids: bool

    @classmethod
    def to(cls, message: schema.GenerateRequest) -> Reply:
        """What `message` wants."""
        return cls(
            prompt_token_ids=message.response.prompt_token_ids,
            output_token_ids=message.response.output_token_ids,
        )

    def messages(self, chunk: GenerateResponse) -> Iterator[schema.GenerateResponse]:
        """The chunk's news, one message each: `outputs` holds one sequence."""
        if chunk.prompt_info is not None:
            yield schema.GenerateResponse(prompt_info=self._prompt(chunk.prompt_info))
        for output in chunk.outputs:
            yield schema.GenerateResponse(outputs=self._output(output))

    def whole(self, answer: GenerateResponse) -> schema.GenerateResponse:
        """An answer of one sequence in one message."""
        made = schema.GenerateResponse()
        for message in self.messages(answer):
            made.MergeFrom(message)
        return made

    def _prompt(self, info: PromptInfo) -> schema.PromptInfo:
        return schema.PromptInfo(
            num_prompt_tokens=info.num_prompt_tokens,
            token_ids=info.token_ids if self.prompt_token_ids else (),
            logprobs=info.logprobs,
            ranks=info.ranks,
            candidate_tokens=map(_candidates, info.candidate_tokens),
        )

    def _output(self, output: SequenceOutput) -> schema.SequenceOutput:
        finish = output.finish_info
        return schema.SequenceOutput(
            index=output.index,
            text=output.text,
            num_tokens=output.num_tokens,
            token_ids=output.token_ids if self.output_token_ids else (),
            logprobs=output.logprobs,
            ranks=output.ranks,
            candidate_tokens=map(_candidates, output.candidate_tokens),
            finish_info=None if finish is None else _finish(finish),
        )


def _candidates(tokens: Sequence[CandidateToken]) -> schema.CandidateTokenInfo:
    token_info = schema.CandidateTokenInfo.TokenInfo
    return schema.CandidateTokenInfo(
        tokens=[token_info(id=t.id, logprob=t.logprob, rank=t.rank) for t in tokens]
    )


def trailing_metadata(info: PromptInfo) -> tuple[tuple[str, str], ...]:
    """What the messages have no field for, as metadata behind them."""
    if info.is_imported is None:
        return ()
    return ((_KV_TRANSFER_KEY, "imported" if info.is_imported else "recomputed"),)


def _finish(info: FinishInfo) -> schema.FinishInfo:
    made = schema.FinishInfo(
        num_output_tokens=info.num_output_tokens,
        finish_reason=schema.FinishInfo.FinishReason.ValueType(info.finish_reason),
    )
    for name in ("stop_token_id", "eos_token_id", "stop_string"):
        if (value := getattr(info, name)) is not None:
            setattr(made, name, value)
    params = getattr(info, "kv_transfer_params", None)
    if params is not None:
        made.kv_transfer_params.update(params)
    return made


def absorb(message: schema.GenerateResponse, later: schema.GenerateResponse) -> bool:
    """Put the news of `later` into `message`, of which it is the continuation.

    Returns:
        False when they cannot be one message: then nothing was changed.
    """
    if message.HasField("prompt_info") or not message.HasField("outputs"):
        return False
    first, second = message.outputs, later.outputs
    num_tokens = first.num_tokens + second.num_tokens
    if first.index != second.index or num_tokens > _MAX_MERGED_TOKENS:
        return False
    if message.ByteSize() + later.ByteSize() > _MAX_MERGED_BYTES:
        return False
    text = first.text + second.text
    first.MergeFrom(second)
    first.text, first.num_tokens = text, num_tokens
    return True
