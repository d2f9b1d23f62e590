"""Tokenizers written to load faster are the same tokenizers."""

from __future__ import annotations

import pytest

from litert_lm.errors import ModelFileError
from litert_lm.tokenizer import load_tokenizer
from litert_lm.tokenizer.prepared import load_prepared, prepare
from tests.tokenizer.builders import HUGGINGFACE, TEXT, tokenizer_data


@pytest.mark.parametrize("kind", HUGGINGFACE)
def test_ids_and_text_stay_the_same(kind):
    tokenizer = load_tokenizer(*tokenizer_data(kind))
    prepared = load_prepared(prepare(tokenizer))
    ids = tokenizer.encode(TEXT[:150])
    assert prepared.encode(TEXT[:150]) == ids
    assert prepared.decode(ids) == tokenizer.decode(ids)
    assert prepared.vocab_size == tokenizer.vocab_size
    assert prepared.special_ids == tokenizer.special_ids


def test_sentencepiece_is_left_alone():
    assert prepare(load_tokenizer(*tokenizer_data("sp-llama"))) is None


@pytest.mark.parametrize("data", [b"", b"12", b"x\n{}", b"12\n{"])
def test_other_bytes_are_refused(data):
    with pytest.raises(ModelFileError):
        load_prepared(data)
