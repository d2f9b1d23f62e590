"""Tokenizers of checkpoints: the same ids as the tokenizer they came from."""

from __future__ import annotations

import json

import pytest
import tokenizers
from sentencepiece import SentencePieceProcessor
from tokenizers import pre_tokenizers

from litert_lm.convert.conversion import open_source
from litert_lm.errors import ConversionError
from tests.convert.toys import (
    Toy,
    pieces,
    tokenizer_json,
    write_folder,
    write_gguf,
)
from tests.tokenizer.builders import train_sentencepiece

TEXTS = (
    "the the  the\n\n the",
    "There're 1234567 things, don't you?\r\n",
    "<|im_start|>user\nhé 日本語 😀<|im_end|>",
    "x = 12.5e3; \t\ty != z  ",
    "",
)
REGEXES = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|"
    r" ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def from_gguf(path, **keys):
    source = write_gguf(path / "toy.gguf", Toy(), **keys)
    return open_source(source).tokenizer


def from_folder(path, **files):
    return open_source(write_folder(path / "toy", Toy(), **files)).tokenizer


def bos_first(tokenizer_id):
    """A post-processor that puts a token before every text."""
    special = {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    entry = {"id": "<|im_start|>", "ids": [tokenizer_id], "tokens": ["<|im_start|>"]}
    return {
        "type": "TemplateProcessing",
        "single": [special, text],
        "pair": [special, text],
        "special_tokens": {"<|im_start|>": entry},
    }


def test_smollm_takes_digits_one_by_one(tmp_path):
    parts = from_gguf(tmp_path)
    tokenizer = tokenizers.Tokenizer.from_buffer(parts.data)
    assert "12" in pieces()
    assert tokenizer.encode("the 12").tokens == ["the", "Ġ", "1", "2"]


@pytest.mark.parametrize("pre", REGEXES)
def test_bpe_cuts_text_by_its_own_rule(pre, tmp_path):
    parts = from_gguf(tmp_path, tokenizer__ggml__pre=pre)
    tokenizer = tokenizers.Tokenizer.from_buffer(parts.data)
    split = pre_tokenizers.Split(tokenizers.Regex(REGEXES[pre]), "isolated")
    for text in TEXTS:
        expected = [part for part, _ in split.pre_tokenize_str(text)]
        cut = tokenizer.pre_tokenizer.pre_tokenize_str(text)
        assert [text[start:end] for _, (start, end) in cut] == expected


def test_bpe_decodes_what_it_encodes(tmp_path):
    tokenizer = tokenizers.Tokenizer.from_buffer(from_gguf(tmp_path).data)
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_are_found_in_text(tmp_path):
    tokenizer = tokenizers.Tokenizer.from_buffer(from_gguf(tmp_path).data)
    assert tokenizer.encode("<|im_start|><|im_end|>").ids == [1, 2]


@pytest.mark.parametrize("pre", ["default", "deepseek-llm", None, 3])
def test_an_unknown_rule_is_refused(pre, tmp_path):
    with pytest.raises(ConversionError, match="cuts text by the rule"):
        from_gguf(tmp_path, tokenizer__ggml__pre=pre)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"tokenizer__ggml__add_bos_token": False}, None),
        ({"tokenizer__ggml__add_bos_token": True}, 1),
        ({"tokenizer__ggml__add_bos_token": None}, None),
        (
            {
                "tokenizer__ggml__add_bos_token": None,
                "tokenizer__ggml__pre": "llama-bpe",
            },
            1,
        ),
    ],
)
def test_gguf_bos_comes_first_only_where_it_is_prepended(keys, expected, tmp_path):
    assert from_gguf(tmp_path, **keys).bos_id == expected


def sentencepiece_keys(model):
    def kind(i):
        checks = (model.is_unknown, model.is_control, model.is_unused, model.is_byte)
        numbers = (2, 3, 5, 6)
        found = [n for check, n in zip(checks, numbers, strict=True) if check(i)]
        is_user_defined = model.id_to_piece(i) == "<user>"
        return found[0] if found else 4 if is_user_defined else 1

    ids = range(model.vocab_size())
    return {
        "tokenizer__ggml__model": "llama",
        "tokenizer__ggml__pre": "default",
        "tokenizer__ggml__tokens": [model.id_to_piece(i) for i in ids],
        "tokenizer__ggml__scores": [model.get_score(i) for i in ids],
        "tokenizer__ggml__token_type": [kind(i) for i in ids],
        "tokenizer__ggml__merges": None,
        "tokenizer__ggml__add_bos_token": None,
    }


@pytest.fixture(scope="module")
def sentencepiece():
    model = SentencePieceProcessor()
    model.LoadFromSerializedProto(train_sentencepiece())
    return model


def test_sentencepiece_gives_the_ids_of_the_model_it_came_from(tmp_path, sentencepiece):
    parts = from_gguf(tmp_path, **sentencepiece_keys(sentencepiece))
    made = SentencePieceProcessor()
    made.LoadFromSerializedProto(parts.data)
    for text in (*TEXTS, "  The quick\tbrown fox", "<user> fox <turn>"):
        assert made.encode(text) == sentencepiece.encode(text)
        assert made.decode(made.encode(text)) == sentencepiece.decode(
            sentencepiece.encode(text)
        )
    assert (made.bos_id(), made.eos_id(), made.unk_id()) == (1, 2, 0)
    assert (parts.kind, parts.bos_id) == ("sentencepiece", 1)


def test_control_tokens_of_the_template_can_be_written(tmp_path, sentencepiece):
    keys = sentencepiece_keys(sentencepiece)
    keys["tokenizer__chat_template"] = "<turn>{{ messages }}{{ eos_token }}"
    made = SentencePieceProcessor()
    made.LoadFromSerializedProto(from_gguf(tmp_path, **keys).data)
    ids = made.encode("a<turn>b</s>")
    assert [made.id_to_piece(i) for i in ids] == ["▁a", "<turn>", "b", "</s>"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer__ggml__model": "bert"}, "'bert'"),
        ({"tokenizer__ggml__tokens": None}, "no tokenizer"),
        ({"tokenizer__ggml__tokens": ["a", "a"]}, "repeated"),
        ({"tokenizer__ggml__tokens": [1, 2]}, "list of str"),
        ({"tokenizer__ggml__token_type": [1, 2]}, "2 types"),
        ({"tokenizer__ggml__merges": ["t q"]}, "merge 't q'"),
        ({"tokenizer__ggml__merges": ["the"]}, "merge 'the'"),
        ({"tokenizer__ggml__model": "llama"}, "unknown one"),
    ],
)
def test_a_broken_gguf_tokenizer_is_refused(changes, message, tmp_path):
    with pytest.raises(ConversionError, match=message):
        from_gguf(tmp_path, **changes)


def test_tokenizer_json_comes_along_unchanged(tmp_path):
    parts = from_folder(tmp_path)
    assert parts.data.decode() == tokenizer_json()
    assert parts.bos_id is None


def test_bos_is_what_the_post_processor_prepends(tmp_path):
    text = tokenizer_json(post_processor=bos_first(1))
    assert from_folder(tmp_path, tokenizer__json=text).bos_id == 1


@pytest.mark.parametrize(("flag", "expected"), [(True, 1), (False, None), (None, 1)])
def test_llama_tokenizer_classes_follow_add_bos_token(flag, expected, tmp_path):
    settings = {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<|im_start|>"}
    if flag is not None:
        settings["add_bos_token"] = flag
    parts = from_folder(tmp_path, tokenizer_config__json=json.dumps(settings))
    assert parts.bos_id == expected


def test_tokenizer_model_is_taken_where_there_is_no_json(tmp_path):
    folder = write_folder(tmp_path / "toy", Toy(), tokenizer__json=None)
    data = train_sentencepiece()
    (folder / "tokenizer.model").write_bytes(data)
    parts = open_source(folder).tokenizer
    assert (parts.kind, parts.data, parts.bos_id) == ("sentencepiece", data, 1)


def test_tokens_beside_a_tokenizer_model_are_not_lost_silently(tmp_path):
    settings = {"added_tokens_decoder": {"420": {"content": "<|im_end|>"}}}
    folder = write_folder(
        tmp_path / "toy",
        Toy(),
        tokenizer__json=None,
        tokenizer_config__json=json.dumps(settings),
    )
    (folder / "tokenizer.model").write_bytes(train_sentencepiece())
    with pytest.raises(ConversionError, match=r"<\|im_end\|>"):
        open_source(folder)
