"""Byte-level vocabularies that MediaPipe stored as SentencePiece models."""

from __future__ import annotations

import pytest

from litert_lm.tokenizer import StreamingDetokenizer, load_tokenizer
from litert_lm.tokenizer.decoders import byte_alphabet
from tests.tokenizer.builders import train_sentencepiece


@pytest.fixture(scope="module")
def tokenizer():
    data = train_sentencepiece(
        byte_fallback=False,
        add_dummy_prefix=False,
        required_chars="".join(byte_alphabet()),
    )
    return load_tokenizer("sentencepiece_bytes", data)


@pytest.mark.parametrize("text", ["hello world", "naïve 世界 🙂\n\t", "  two  spaces"])
def test_text_comes_back_from_its_ids(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text


def test_stream_gives_whole_characters(tokenizer):
    stream = StreamingDetokenizer(tokenizer)
    pieces = [stream.add(token_id) for token_id in tokenizer.encode("a世界🙂b")]
    assert "".join(pieces) + stream.finish() == "a世界🙂b"
    assert not any("\ufffd" in piece for piece in pieces)
