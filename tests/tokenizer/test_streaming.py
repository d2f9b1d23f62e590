"""Text of generated tokens, piece by piece."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from litert_lm.tokenizer import StreamingDetokenizer, load_tokenizer
from tests.tokenizer.builders import KINDS, tokenizer_data

TOKENIZERS = {kind: load_tokenizer(*tokenizer_data(kind)) for kind in KINDS}
BYTES = ["byte-level", "llama", "gemma", "sp-gemma", "sp-llama", "sp-suffix"]


def stream(tokenizer, ids, skip_special_tokens=False):
    detokenizer = StreamingDetokenizer(tokenizer, skip_special_tokens)
    texts = [detokenizer.add(token_id) for token_id in ids]
    return [*texts, detokenizer.finish()]


def byte_ids(kind, data):
    """Ids of single bytes in a tokenizer that has them."""
    if kind == "byte-level":
        from litert_lm.tokenizer.decoders import byte_alphabet

        spelled = {byte: char for char, byte in byte_alphabet().items()}
    else:
        spelled = {byte: f"<0x{byte:02X}>" for byte in range(256)}
    return [TOKENIZERS[kind].token_to_id(spelled[byte]) for byte in data]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(KINDS), st.text(), st.booleans())
def test_the_pieces_of_any_text_join_to_the_whole(kind, text, skip):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    whole = tokenizer.decode(ids, skip_special_tokens=skip)
    assert "".join(stream(tokenizer, ids, skip)) == whole


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(KINDS), st.data(), st.booleans())
def test_the_pieces_of_any_ids_join_to_the_whole(kind, data, skip):
    tokenizer = TOKENIZERS[kind]
    one = st.integers(0, tokenizer.vocab_size - 1)
    ids = data.draw(st.lists(one, max_size=40))
    whole = tokenizer.decode(ids, skip_special_tokens=skip)
    assert "".join(stream(tokenizer, ids, skip)) == whole


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(BYTES), st.text(min_size=1))
@example("sp-llama", "é")
def test_no_replacement_character_while_a_character_is_coming(kind, text):
    text = text.replace("\ufffd", "?")
    ids = byte_ids(kind, text.encode())
    texts = stream(TOKENIZERS[kind], ids)
    assert "\ufffd" not in "".join(texts)
    assert [piece for piece in texts if piece] == list(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(BYTES), st.binary())
def test_bytes_read_as_python_reads_them(kind, data):
    texts = stream(TOKENIZERS[kind], byte_ids(kind, data))
    assert "".join(texts) == data.decode("utf-8", "replace")


@pytest.mark.parametrize("kind", BYTES)
def test_a_byte_that_cannot_complete_shows_with_the_next_token(kind):
    assert stream(TOKENIZERS[kind], byte_ids(kind, b"\xf0\x9fa")) == [
        "",
        "",
        "\ufffda",
        "",
    ]


@pytest.mark.parametrize("kind", BYTES)
def test_an_unfinished_character_at_the_end_is_one_replacement(kind):
    texts = stream(TOKENIZERS[kind], byte_ids(kind, b"a\xf0\x9f\x98"))
    assert texts == ["a", "", "", "", "\ufffd"]


@pytest.mark.parametrize("kind", ["sp-llama", "llama", "metaspace"])
def test_spaces_between_words_stay_and_the_dummy_space_goes(kind):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode("the fox the fox")
    assert "".join(stream(tokenizer, ids)) == "the fox the fox"


def test_a_control_token_first_does_not_bring_the_dummy_space_back():
    tokenizer = TOKENIZERS["sp-llama"]
    ids = [tokenizer.token_to_id("<s>"), *tokenizer.encode("fox")]
    assert "".join(stream(tokenizer, ids)) == "<s>fox"
    assert "".join(stream(tokenizer, ids, skip_special_tokens=True)) == "fox"


def test_an_emoji_streams_from_a_byte_level_file_without_a_decoder():
    kind, data = tokenizer_data("byte-level")
    spec = {**json.loads(data), "decoder": None}
    tokenizer = load_tokenizer(kind, json.dumps(spec).encode())
    ids = byte_ids("byte-level", "😀".encode())
    assert stream(tokenizer, ids) == ["", "", "", "😀", ""]


def test_ids_without_a_token_add_nothing(tokenizer):
    ids = tokenizer.encode("abc")
    padded = [i for one in ids for i in (one, tokenizer.vocab_size + 7)]
    assert "".join(stream(tokenizer, padded)) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["word-piece", "ctc", "word-end"])
def test_a_long_stream_decodes_only_a_short_window(kind, monkeypatch):
    tokenizer = TOKENIZERS[kind]
    longest = 0

    def decode(ids, **options):
        nonlocal longest
        longest = max(longest, len(ids))
        return type(tokenizer).decode(tokenizer, ids, **options)

    monkeypatch.setattr(tokenizer, "decode", decode)
    ids = [i % tokenizer.vocab_size for i in range(0, 3000, 7)] + [0] * 300
    stream(tokenizer, ids)
    assert longest < 40
