"""What is suspicious in a bundle's metadata: sound files that will disappoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from litert_lm.bundle.metadata import Affixes, ModelConfig, resolve_token
from litert_lm.config import TextCodec
from litert_lm.errors import LiteRtLmError

if TYPE_CHECKING:
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
    from litert_lm._proto.token_pb2 import TokenUnion

__all__ = ["TURN_ENDS", "Finding", "TemplateRenderer", "lint"]

TURN_ENDS = ("<|im_end|>", "<end_of_turn>", "<turn|>", "<|eot_id|>", "<|end|>")
"""What ends a turn in the chat formats of the known model families."""

_CONTROL_SPELLING = re.compile(r"<[^<>\s]+>")
_THINK = "<think>"
_NEEDS_TEMPLATE = ("lfm2", "minicpm5")
_PROBE = ({"role": "user", "content": "Hello"},)


class TemplateRenderer(Protocol):
    """Renders a chat template; chat templates are rendered in a higher layer."""

    def __call__(self, template: str, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt with the opening of the answer; LiteRtLmError when it fails."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A suspicion: a stable short code, and a sentence for people."""

    code: str
    message: str


def lint(
    metadata: LlmMetadata,
    config: ModelConfig,
    codec: TextCodec,
    render: TemplateRenderer | None = None,
) -> tuple[Finding, ...]:
    """Everything suspicious, worst first; empty when all is well.

    Args:
        metadata: as stored in the bundle.
        config: `metadata` as `resolve` understood it.
        codec: the tokenizer that it was resolved with.
        render: tries the chat template; without it the template is only looked at.
    """
    checks = (
        _stops(config, codec),
        _start(metadata, config, codec),
        _spellings(metadata, codec),
        _template(config, codec, render),
        _channels(config),
        _family(metadata, config),
        _numbers(config),
    )
    return tuple(finding for check in checks for finding in check)


def _stops(config: ModelConfig, codec: TextCodec) -> Iterator[Finding]:
    if not config.stop_sequences:
        yield Finding(
            "no_stop_tokens",
            "There are no stop tokens: only a length limit ends an answer.",
        )
    for stop in config.stop_sequences:
        if stop == (config.bos_id,):
            yield Finding(
                "start_is_stop",
                f"The start token {config.bos_text!r} (id {config.bos_id}) is also a "
                "stop token: the model may end at once or repeat the prompt.",
            )
        text = codec.decode(stop)
        if text and not text.strip():
            yield Finding(
                "whitespace_stop",
                f"The stop token {list(stop)} is {text!r}: answers end at the first "
                "line break.",
            )


def _start(
    metadata: LlmMetadata, config: ModelConfig, codec: TextCodec
) -> Iterator[Finding]:
    ids = resolve_token(metadata.start_token, codec)
    if metadata.HasField("start_token") and not ids:
        yield Finding("empty_start_token", "The start token is set, but empty.")
    if len(ids) > 1:
        yield Finding(
            "several_start_tokens",
            f"The start token stands for {len(ids)} ids; only the first, {ids[0]}, "
            "is used.",
        )
    if config.bos_text and config.user.prefix.startswith(config.bos_text):
        yield Finding(
            "doubled_start_token",
            f"The user's prefix begins with the start token {config.bos_text!r}, "
            "which is put there anyway.",
        )


def _spellings(metadata: LlmMetadata, codec: TextCodec) -> Iterator[Finding]:
    """Tokens given as text that is probably not meant as text."""
    named: list[tuple[str, TokenUnion]] = [
        ("start token", metadata.start_token),
        ("pad token", metadata.pad_token),
        *(("stop token", stop) for stop in metadata.stop_tokens),
    ]
    for name, token in named:
        text = token.token_str
        if text.isdecimal():
            yield Finding(
                "numeric_token_text",
                f"The {name} is the text {text!r}; a number was probably meant.",
            )
        if _CONTROL_SPELLING.fullmatch(text) and codec.token_to_id(text) is None:
            yield Finding(
                "unknown_control_token",
                f"The {name} {text!r} is no entry of the vocabulary; it is matched "
                "letter by letter.",
            )


def _template(
    config: ModelConfig, codec: TextCodec, render: TemplateRenderer | None
) -> Iterator[Finding]:
    template = config.jinja_template
    if template is None:
        yield from _affixes(config)
        return
    begin = template.lstrip()
    if render is not None:
        try:
            begin = render(template, _PROBE)
        except LiteRtLmError as error:
            yield Finding("broken_template", f"The chat template fails: {error}")
    if config.bos_text and begin.startswith(config.bos_text):
        yield Finding(
            "doubled_start_token",
            f"The chat template begins with the start token {config.bos_text!r}, "
            "which is put there anyway.",
        )
    for text in TURN_ENDS:
        token_id = codec.token_to_id(text) if text in template else None
        if token_id is not None and (token_id,) not in config.stop_sequences:
            yield Finding(
                "turn_end_is_no_stop",
                f"The chat template ends turns with {text!r} (id {token_id}), which is "
                "no stop token: answers may run on.",
            )


def _affixes(config: ModelConfig) -> Iterator[Finding]:
    if config.model_type in _NEEDS_TEMPLATE:
        yield Finding(
            "no_template",
            f"A {config.model_type} model needs a chat template; there is none.",
        )
    elif config.user == config.model == Affixes():
        yield Finding(
            "no_template",
            "There is neither a chat template nor a prefix or suffix for the roles: "
            "messages reach the model bare.",
        )


def _channels(config: ModelConfig) -> Iterator[Finding]:
    speaks_of_it = _THINK in (config.jinja_template or "")
    if config.channels:
        return
    if speaks_of_it or config.supports_thinking:
        reason = (
            f"The chat template speaks of {_THINK}" if speaks_of_it else "It thinks"
        )
        yield Finding(
            "no_channel",
            f"{reason}, but no channel is defined: the model's thoughts stay in the "
            "answer.",
        )


def _family(metadata: LlmMetadata, config: ModelConfig) -> Iterator[Finding]:
    stored = metadata.llm_model_type
    if stored.WhichOneof("model_type") is None:
        is_unknown = stored.ByteSize() > 0
        yield Finding(
            "unknown_model_type" if is_unknown else "no_model_type",
            ("The model type is newer than this release" if is_unknown else "No type")
            + f"; the model is treated as {config.model_type}.",
        )
    if (
        config.model_type == "function_gemma"
        and config.jinja_template
        and not stored.function_gemma.use_template_for_fc_format
    ):
        yield Finding(
            "function_gemma_format",
            "use_template_for_fc_format is off, but the chat template writes tool "
            "calls itself: prompts with tools cannot be rendered.",
        )


def _numbers(config: ModelConfig) -> Iterator[Finding]:
    if config.sampler is None:
        yield Finding(
            "no_sampler",
            "There are no sampler parameters: generation is greedy unless asked for.",
        )
    elif config.sampler.type is None:
        yield Finding("no_sampler_type", "The sampler has no type; TOP_P is assumed.")
    if config.max_num_tokens is None:
        yield Finding(
            "no_max_num_tokens",
            "max_num_tokens is 0: the context is as long as the model's cache.",
        )
