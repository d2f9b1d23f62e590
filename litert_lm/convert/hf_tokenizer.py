"""The text side of a Hugging Face folder: tokenizer, special ids, chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from litert_lm.convert.checkpoint import TokenizerParts
from litert_lm.convert.json_file import read_bytes
from litert_lm.errors import ConversionError, ModelFileError

__all__ = ["chat_template", "read_tokenizer"]

Settings = Mapping[str, Any]

# Classes that rebuild the post-processor from add_bos_token, whatever the file says.
_LLAMA_CLASSES = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizerFast")


def chat_template(folder: Path, settings: Settings) -> str | None:
    """The Jinja source: chat_template.jinja, else tokenizer_config.json's default."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return read_bytes(file).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(f"'{file}' is not UTF-8.") from error
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {
            entry.get("name"): entry.get("template")
            for entry in template
            if isinstance(entry, dict)
        }
        template = named.get("default")
    if not isinstance(template, str):
        return None
    if any("\ud800" <= letter <= "\udfff" for letter in template):
        raise ModelFileError(
            f"The chat template in '{folder / 'tokenizer_config.json'}' has half a "
            "character; correct it."
        )
    return template


def read_tokenizer(
    folder: Path, settings: Settings, config: Settings, generation: Settings
) -> TokenizerParts:
    """The tokenizer of `folder`: tokenizer.json if there is one, else tokenizer.model.

    Args:
        settings: contents of tokenizer_config.json.
        config: contents of config.json.
        generation: contents of generation_config.json.
    """
    if (folder / "tokenizer.json").is_file():
        parts = _from_tokenizer_json(folder, settings)
    elif (folder / "tokenizer.model").is_file():
        parts = _from_sentencepiece(folder, settings)
    else:
        raise ConversionError(
            f"'{folder}' has neither tokenizer.json nor tokenizer.model."
        )
    kind, data, pieces, bos_id = parts
    named = [settings.get("eos_token"), settings.get("pad_token")]
    eos, pad = (pieces.get(_content(token) or "") for token in named)
    stops = [
        *_ids(generation.get("eos_token_id")),
        *_ids(config.get("eos_token_id")),
        *([] if eos is None else [eos]),
    ]
    pads = [*_ids(generation.get("pad_token_id")), *_ids(config.get("pad_token_id"))]
    return TokenizerParts(
        kind=kind,
        data=data,
        pieces=pieces,
        bos_id=bos_id,
        stop_ids=tuple(dict.fromkeys(stops)),
        pad_id=pads[0] if pads else pad,
    )


def _ids(value: object) -> Iterator[int]:
    """The ids of an int or of a list of ints; nothing else."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
            yield item


def _content(token: object) -> str | None:
    """The spelling of a token that is a string or an AddedToken object."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) else None


def _from_tokenizer_json(
    folder: Path, settings: Settings
) -> tuple[Any, bytes, dict[str, int], int | None]:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    data = read_bytes(path)
    with _native_errors(path):
        tokenizer = Tokenizer.from_buffer(data)
        pieces = tokenizer.get_vocab(with_added_tokens=True)
        bos_id = _prepended_id(tokenizer)
    if settings.get("tokenizer_class") in _LLAMA_CLASSES:
        bos_id = _configured_bos(settings, pieces)
    return "huggingface", data, pieces, bos_id


@contextmanager
def _native_errors(path: Path) -> Iterator[None]:
    """Turn whatever a native tokenizer raises into ModelFileError."""
    try:
        yield
    except BaseException as error:
        # tokenizers raises bare Exception; a panic in Rust is no Exception at all.
        is_panic = type(error).__name__ == "PanicException"
        if not isinstance(error, Exception) and not is_panic:
            raise
        raise ModelFileError(
            f"'{path}' is not a tokenizer: {error!s:.300}. Fetch it again."
        ) from error


def _prepended_id(tokenizer: Any) -> int | None:
    """The id that the post-processor puts before a text, None if it puts none."""
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    full = tokenizer.encode("a", add_special_tokens=True).ids
    is_longer = len(full) > len(plain)
    return int(full[0]) if is_longer and full[1 : 1 + len(plain)] == plain else None


def _configured_bos(settings: Settings, pieces: Mapping[str, int]) -> int | None:
    if settings.get("add_bos_token", True) is False:
        return None
    return pieces.get(_content(settings.get("bos_token", "<s>")) or "")


def _from_sentencepiece(
    folder: Path, settings: Settings
) -> tuple[Any, bytes, dict[str, int], int | None]:
    from sentencepiece import SentencePieceProcessor

    path = folder / "tokenizer.model"
    data = read_bytes(path)
    model = SentencePieceProcessor()
    with _native_errors(path):
        model.LoadFromSerializedProto(data)
        pieces = {model.id_to_piece(i): i for i in range(model.vocab_size())}
    _refuse_added_tokens(folder, settings, pieces)
    return "sentencepiece", data, pieces, _configured_bos(settings, pieces)


def _refuse_added_tokens(
    folder: Path, settings: Settings, pieces: Mapping[str, int]
) -> None:
    """Tokens beside the SentencePiece model would be lost."""
    added = settings.get("added_tokens_decoder")
    for token in added.values() if isinstance(added, dict) else ():
        content = _content(token)
        if content is not None and content not in pieces:
            raise ConversionError(
                f"'{folder}' adds the token {content!r} to its tokenizer.model; save "
                "the tokenizer as tokenizer.json, which holds such tokens."
            )
