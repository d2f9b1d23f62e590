"""What a file must be to become a tokenizer."""

import contextlib
import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from litert_lm.errors import InvalidArgumentError, ModelFileError
from litert_lm.tokenizer import load_tokenizer
from tests.tokenizer.builders import tokenizer_data


def spec_with(kind="byte-level", **changes):
    spec = json.loads(tokenizer_data(kind)[1])
    return json.dumps({**spec, **changes}).encode()


@pytest.mark.parametrize("kind", ["sentencepiece", "huggingface"])
@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"{}", b"\xff\xfe", b"[" * 9999])
def test_a_file_of_another_kind_is_a_model_file_error(kind, data):
    with pytest.raises(ModelFileError, match=r"fetch or convert"):
        load_tokenizer(kind, data)


def test_a_memoryview_loads_like_bytes(kind):
    kind, data = tokenizer_data(kind)
    assert load_tokenizer(kind, memoryview(data)).vocab_size > 1


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["sp-llama", "byte-level", "word-piece"]), st.data())
def test_a_damaged_file_loads_or_is_a_model_file_error(kind, data):
    kind, content = tokenizer_data(kind)
    at = data.draw(st.integers(0, len(content) - 1))
    damage = data.draw(st.binary(max_size=8))
    with contextlib.suppress(ModelFileError):
        load_tokenizer(kind, content[:at] + damage + content[at + len(damage) :])


def test_a_spelling_that_is_no_utf8_is_a_model_file_error():
    kind, content = tokenizer_data("sp-gemma")
    spoiled = content.replace("日".encode(), b"\xe6\x97a")
    tokenizer = load_tokenizer(kind, spoiled)
    with pytest.raises(ModelFileError, match="spell token"):
        tokenizer.decode(range(tokenizer.vocab_size))


def test_bytes_that_are_no_utf8_are_a_model_file_error():
    content = tokenizer_data("gemma")[1].replace(b'"type"', b'"ty\x81e"', 1)
    with pytest.raises(ModelFileError, match="utf-8"):
        load_tokenizer("huggingface", content)


def test_a_vocabulary_without_tokens_is_a_model_file_error():
    empty = tokenizers.Tokenizer(tokenizers.models.BPE()).to_str().encode()
    with pytest.raises(ModelFileError, match="empty vocabulary"):
        load_tokenizer("huggingface", empty)


def test_an_unknown_kind_is_an_invalid_argument():
    with pytest.raises(InvalidArgumentError, match="'bert'"):
        load_tokenizer("bert", b"")


def test_a_panic_in_the_native_library_is_a_model_file_error(monkeypatch):
    panic = type("PanicException", (BaseException,), {})

    def explode(data):
        raise panic("index out of bounds")

    monkeypatch.setattr(tokenizers.Tokenizer, "from_str", explode, raising=True)
    with pytest.raises(ModelFileError, match="index out of bounds"):
        load_tokenizer("huggingface", b"{}")


def test_an_interrupt_is_not_taken_for_a_bad_file(monkeypatch):
    def interrupt(data):
        raise KeyboardInterrupt

    monkeypatch.setattr(tokenizers.Tokenizer, "from_str", interrupt, raising=True)
    with pytest.raises(KeyboardInterrupt):
        load_tokenizer("huggingface", b"{}")


def test_vocab_size_counts_up_to_an_added_token_beyond_a_gap():
    token = {"id": 5000, "content": "<gap>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokenizer = load_tokenizer(
        "huggingface", spec_with(added_tokens=[{**token, **flags}])
    )
    gap_id = tokenizer.token_to_id("<gap>")
    assert tokenizer.vocab_size == gap_id + 1
    assert tokenizer.encode("<gap>") == [gap_id]


def test_padding_truncation_and_templates_of_the_file_add_nothing():
    padding = {
        "strategy": {"Fixed": 16},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|end|>",
    }
    truncation = {
        "direction": "Right",
        "max_length": 2,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    template = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|end|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {
            "<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}
        },
    }
    noisy = load_tokenizer(
        "huggingface",
        spec_with(padding=padding, truncation=truncation, post_processor=template),
    )
    plain = load_tokenizer(*tokenizer_data("byte-level"))
    assert noisy.encode("The quick brown fox") == plain.encode("The quick brown fox")


def test_loading_can_run_on_a_thread(kind):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        tokenizer = pool.submit(load_tokenizer, *tokenizer_data(kind)).result()
    assert tokenizer.token_to_id("no such piece") is None
