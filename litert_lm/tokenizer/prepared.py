"""A Hugging Face tokenizer written so that it loads in half the time."""

from __future__ import annotations

import json
from typing import Any

from litert_lm.errors import ModelFileError
from litert_lm.tokenizer.base import Tokenizer
from litert_lm.tokenizer.huggingface import HuggingFaceTokenizer

__all__ = ["load_prepared", "prepare"]


def prepare(tokenizer: Tokenizer) -> bytes | None:
    """`tokenizer` for `load_prepared`; None where that would not load it faster.

    The highest id comes first, since counting ids takes as long as it does; merges are
    written as one string each, which the library reads faster than pairs.
    """
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        return None
    text = tokenizer.to_json()
    content = json.loads(text)
    model = content.get("model", {})
    merges = model.get("merges")
    if merges and not any(" " in part for merge in merges for part in merge):
        model["merges"] = [" ".join(merge) for merge in merges]
    data = _dump(tokenizer.vocab_size, content)
    is_same = load_prepared(data).to_json() == text
    return data if is_same else _dump(tokenizer.vocab_size, json.loads(text))


def _dump(vocab_size: int, content: dict[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"{vocab_size}\n{text}".encode()


def load_prepared(data: bytes | memoryview) -> HuggingFaceTokenizer:
    """The tokenizer that `prepare` wrote.

    Raises:
        ModelFileError: `data` is something else.
    """
    head, separator, text = bytes(data).partition(b"\n")
    if not separator or not head.isdigit():
        raise ModelFileError("The prepared tokenizer is damaged; delete it.")
    return HuggingFaceTokenizer(text, vocab_size=int(head))
