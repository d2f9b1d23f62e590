"""Text to ids and back, whatever the kind of tokenizer."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litert_lm.errors import InvalidArgumentError, ModelFileError
from litert_lm.tokenizer import load_tokenizer
from tests.tokenizer.builders import KINDS, LOSSY, TEXT, tokenizer_data

TOKENIZERS = {kind: load_tokenizer(*tokenizer_data(kind)) for kind in KINDS}
LOSSLESS = [kind for kind in KINDS if kind not in LOSSY]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LOSSLESS), st.text())
def test_text_survives_the_round_trip(kind, text):
    tokenizer = TOKENIZERS[kind]
    text = text.replace("▁", "_")
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_nul_is_a_character_like_any_other(kind):
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.decode(tokenizer.encode("a\0b")) == "a\0b"


def test_empty_text_has_no_tokens(tokenizer):
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("text", ["a\ud800b", None, b"bytes", 7])
def test_what_is_no_unicode_text_is_an_invalid_argument(tokenizer, text):
    with pytest.raises(InvalidArgumentError, match="Text to tokenize"):
        tokenizer.encode(text)


def test_an_id_beyond_the_vocabulary_is_named(tokenizer):
    for bad in (-1, tokenizer.vocab_size, 2**40):
        with pytest.raises(InvalidArgumentError, match=f"Token id {bad} is out"):
            tokenizer.decode([0, bad])


@pytest.mark.parametrize("ids", [["a"], [1.5], None, 3])
def test_ids_that_are_no_whole_numbers_are_an_invalid_argument(tokenizer, ids):
    with pytest.raises(InvalidArgumentError, match="whole numbers"):
        tokenizer.decode(ids)


def test_numpy_ids_decode(tokenizer):
    ids = tokenizer.encode("The quick brown fox")
    assert tokenizer.decode(np.array(ids, np.int32)) == tokenizer.decode(ids)


def test_pieces_and_ids_map_both_ways(tokenizer):
    for token_id in range(tokenizer.vocab_size):
        piece = tokenizer.id_to_token(token_id)
        assert tokenizer.token_to_id(piece) == token_id
    assert tokenizer.token_to_id("no such piece") is None
    assert tokenizer.id_to_token(-1) is None
    assert tokenizer.id_to_token(tokenizer.vocab_size) is None


@pytest.mark.parametrize(
    ("kind", "special"),
    [("byte-level", "<|end|>"), ("llama", "<s>"), ("sp-gemma", "<turn>")],
)
def test_special_tokens_are_shown_unless_skipped(kind, special):
    tokenizer = TOKENIZERS[kind]
    special_id = tokenizer.token_to_id(special)
    ids = [*tokenizer.encode("fox"), special_id]
    assert special_id in tokenizer.special_ids
    assert tokenizer.decode(ids) == f"fox{special}"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "fox"


def test_special_spellings_become_ids_in_a_tokenizer_json():
    tokenizer = TOKENIZERS["byte-level"]
    assert tokenizer.encode("<|end|>") == [tokenizer.token_to_id("<|end|>")]


def test_sentencepiece_control_spellings_stay_text_user_defined_do_not():
    tokenizer = TOKENIZERS["sp-gemma"]
    assert tokenizer.token_to_id("<turn>") not in tokenizer.encode("<turn>")
    assert tokenizer.encode("<user>") == [tokenizer.token_to_id("<user>")]
    assert tokenizer.token_to_id("<user>") not in tokenizer.special_ids


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([k for k in KINDS if k.startswith("sp-")]), st.data())
def test_sentencepiece_decodes_as_the_library_does(kind, data):
    tokenizer = TOKENIZERS[kind]
    native = tokenizer._model
    # Broken bytes differ on purpose: one U+FFFD a character instead of one a byte.
    known = [i for i in range(tokenizer.vocab_size) if not native.is_byte(i)]
    ids = data.draw(st.lists(st.sampled_from(known), max_size=8))
    assert tokenizer.decode(ids, skip_special_tokens=True) == native.decode(ids)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["byte-level", "llama", "gemma", "metaspace"]), st.data())
def test_tokenizer_json_decodes_as_the_library_does(kind, data):
    tokenizer = TOKENIZERS[kind]
    byte_ids = {tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}
    known = sorted({*range(tokenizer.vocab_size)} - byte_ids)
    ids = data.draw(st.lists(st.sampled_from(known), max_size=8))
    skip = data.draw(st.booleans())
    expected = tokenizer._model.decode(ids, skip_special_tokens=skip)
    assert tokenizer.decode(ids, skip_special_tokens=skip) == expected


def test_a_byte_level_file_without_a_decoder_still_gives_text():
    kind, data = tokenizer_data("byte-level")
    spec = {**json.loads(data), "decoder": None}
    ids = TOKENIZERS["byte-level"].encode("Hello! 😀 é")
    for changes in ({}, {"pre_tokenizer": None}):
        content = json.dumps({**spec, **changes}).encode()
        assert load_tokenizer(kind, content).decode(ids) == "Hello! 😀 é"


def test_an_added_token_of_a_byte_level_file_is_literal_text():
    kind, data = tokenizer_data("byte-level")
    spec = json.loads(data)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    token = {"id": 381, "content": "é!", "normalized": True, **flags}
    spec["added_tokens"].append(token)
    tokenizer = load_tokenizer(kind, json.dumps(spec).encode())
    assert tokenizer.decode(tokenizer.encode("café!")) == "café!"


def test_a_vocabulary_without_unknown_token_that_cannot_encode_says_so():
    spec = json.loads(tokenizer_data("ctc")[1])
    spec["model"]["unk_token"] = "<missing>"
    tokenizer = load_tokenizer("huggingface", json.dumps(spec).encode())
    with pytest.raises(ModelFileError, match="could not encode"):
        tokenizer.encode("zebra")


def test_the_training_text_is_short_in_tokens(tokenizer):
    if len(tokenizer.id_to_token(tokenizer.vocab_size - 1)) > 1:
        assert len(tokenizer.encode(TEXT)) < len(TEXT.encode())
