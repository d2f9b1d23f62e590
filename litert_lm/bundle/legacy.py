"""METADATA of .task files: LlmMetadata, or MediaPipe's older LlmParameters.

Both are protobuf messages without a mark. Where a number means one thing in one and
something else in the other, the wire types differ, so each is parsed and the one whose
telling fields are set is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litert_lm.errors import ModelFileError

if TYPE_CHECKING:
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
    from litert_lm._proto.llm_parameters_pb2 import LlmParameters

__all__ = ["parse_task_metadata", "spells_bytes"]


def parse_task_metadata(data: bytes, what: str) -> LlmMetadata:
    """LlmMetadata from either message; ModelFileError for anything else.

    Args:
        data: the METADATA member.
        what: names it in error messages.
    """
    parameters = _legacy(data)
    if parameters is not None:
        return _translate(parameters)
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata

    metadata: LlmMetadata | None = _parse(LlmMetadata, data)
    if metadata is None:
        raise ModelFileError(
            f"{what} is neither LlmMetadata nor LlmParameters; get the file again."
        )
    return metadata


def spells_bytes(data: bytes) -> bool:
    """Whether the tokenizer spells each byte as one character, as GPT-2's does."""
    parameters = _legacy(data)
    if parameters is None:
        return False
    wanted = parameters.INPUT_OUTPUT_NORMALIZATION_BYTES_TO_UNICODE
    return wanted in parameters.input_output_normalizations


def _legacy(data: bytes) -> LlmParameters | None:
    """`data` as LlmParameters, None where it is not that message."""
    from litert_lm._proto.llm_parameters_pb2 import LlmParameters

    message = _parse(LlmParameters, data)
    if message is None:
        return None
    # In LlmMetadata the fields 2 and 4 are messages and 5 is a number.
    tells = message.stop_tokens or message.vocab_size or message.start_token_id
    return message if tells else None


def _parse(message_type: Any, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return message_type.FromString(data)
    except DecodeError:
        return None


def _translate(old: LlmParameters) -> LlmMetadata:
    """The same statements as LlmMetadata.

    A session prefix, deprecated already in the old message, has no counterpart and is
    left out; the rest of the text around a prompt becomes the roles' affixes.
    """
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata

    new = LlmMetadata()
    start = old.WhichOneof("start_token_union")
    if start == "start_token":
        new.start_token.token_str = old.start_token
    elif start == "start_token_id":
        new.start_token.token_ids.ids.append(old.start_token_id)
    for text in old.stop_tokens:
        new.stop_tokens.add(token_str=text)
    for role in ("user", "model", "system"):
        affixes = _template(old, role)
        if affixes is not None:
            target = getattr(new.prompt_templates, role)
            target.prefix = affixes.prompt_prefix
            target.suffix = affixes.prompt_suffix
    return new


def _template(old: LlmParameters, role: str) -> Any:
    """The affixes of `role`; the single template of older files is the user's."""
    if old.HasField("prompt_templates"):
        field = f"{role}_template"
        templates = old.prompt_templates
        return getattr(templates, field) if templates.HasField(field) else None
    if role == "user" and old.HasField("prompt_template"):
        return old.prompt_template
    return None
