"""Metadata becomes ids by the official runtime's rules."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
from litert_lm.bundle.metadata import Affixes, Channel, SamplerDefaults, resolve
from litert_lm.bundle.tool_syntax import ToolSyntax
from litert_lm.errors import ModelFileError
from tests.bundle.codec import PieceCodec

CODEC = PieceCodec("<pad>", "<s>", "</s>", "a", "b", ".", "\n")


def config(text, codec=CODEC):
    return resolve(text_format.Parse(text, LlmMetadata()), codec)


def test_stop_tokens_become_sequences_without_repeats():
    resolved = config(
        'stop_tokens { token_str: ".</s>" } stop_tokens { token_str: "</s>" }'
        "stop_tokens { token_ids { ids: [3, 4] } } stop_tokens { token_ids { ids: 2 } }"
    )
    assert resolved.stop_sequences == ((5, 2), (2,), (3, 4))
    assert resolved.eos_id == 2


def test_start_token_gives_id_and_spelling():
    by_text = config('start_token { token_str: "<s>" }')
    by_id = config("start_token { token_ids { ids: [1, 3] } }")
    assert (by_text.bos_id, by_text.bos_text) == (1, "<s>")
    assert (by_id.bos_id, by_id.bos_text) == (1, "<s>")


def test_empty_metadata_promises_nothing():
    resolved = config("")
    assert resolved.bos_id is resolved.bos_text is resolved.eos_id is None
    assert resolved.stop_sequences == () and resolved.pad_id == 0
    assert (
        resolved.sampler is resolved.jinja_template is resolved.max_num_tokens is None
    )
    assert resolved.user == Affixes("", "") and resolved.model_type == "generic"


def test_everything_else_is_carried_over():
    resolved = config(
        'prompt_templates { user { prefix: "<u>" suffix: "</u>" } }'
        'channels { channel_name: "thought" start: "<t>" end: "</t>" }'
        'channels { channel_name: "note" start: "<n>" is_reasoning_channel: true }'
        'max_num_tokens: 64 jinja_prompt_template: "{{ x }}" llm_model_type {'
        'qwen3 {} } suppress_tokens { ids: [4, 3, 4] } pad_token { token_str: "a" }'
        'kv_cache_init_value: 7 supports_thinking: false min_runtime_version: "0.9"'
    )
    assert resolved.user == Affixes("<u>", "</u>")
    assert resolved.channels == (
        Channel("thought", "<t>", "</t>", True),
        Channel("note", "<n>", "", True),
    )
    assert (resolved.max_num_tokens, resolved.jinja_template) == (64, "{{ x }}")
    assert (resolved.pad_id, resolved.suppressed_ids) == (3, (4, 3))
    assert (resolved.kv_cache_init_value, resolved.model_type) == (7, "qwen3")
    assert resolved.supports_thinking is False
    assert resolved.supports_function_calling is None
    assert resolved.min_runtime_version == "0.9"


def test_sampler_values_that_the_file_omits_are_none():
    assert config("sampler_params { type: TOP_K k: 40 }").sampler == SamplerDefaults(
        type="TOP_K", top_k=40
    )
    assert config("sampler_params {}").sampler == SamplerDefaults()
    assert config(
        "sampler_params { p: 0.9 temperature: 0 }"
    ).sampler == SamplerDefaults(top_p=0.9, temperature=0.0)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("start_token { token_ids { ids: 7 } }", "start_token"),
        ("stop_tokens { token_ids { ids: -1 } }", "stop_tokens[0]"),
        ("stop_tokens { token_ids { ids: 1 } } stop_tokens {}", "stop_tokens[1]"),
        ('stop_tokens { token_str: "" }', "stop_tokens[0]"),
        ("suppress_tokens { ids: [1, 99] }", "suppress_tokens"),
        ('pad_token { token_str: "ab" }', "pad_token"),
        ("max_num_tokens: -1", "max_num_tokens"),
        ("sampler_params { p: 1.5 }", "sampler_params.p"),
        ("sampler_params { p: nan }", "sampler_params.p"),
        ("sampler_params { temperature: inf }", "sampler_params.temperature"),
        ("sampler_params { k: -2 }", "sampler_params.k"),
        ("sampler_params { type: 9 }", "sampler_params.type"),
        ('channels { channel_name: "x" }', "channels[0]"),
    ],
)
def test_wrong_values_name_their_field(text, field):
    with pytest.raises(ModelFileError, match=r"LlmMetadata: ") as caught:
        config(text)
    assert f" {field} " in str(caught.value)


@pytest.mark.parametrize(
    ("turn", "sound", "family"),
    [
        ("<start_of_turn>", 256000, "gemma3n"),
        ("<start_of_turn>", 3, "gemma3"),
        ("<|im_start|>", 3, "fast_vlm"),
        ("x", 256000, "generic"),
    ],
)
def test_family_is_inferred_from_token_105(turn, sound, family):
    class Codec(PieceCodec):
        vocab_size = 256001

        def encode(self, text):
            return [sound]

        def decode(self, token_ids):
            return turn if list(token_ids) == [105] else ""

    assert config("", Codec("a")).model_type == family


def test_a_family_of_a_later_schema_is_not_guessed():
    later = LlmMetadata.FromString(b"\x32\x03\xa2\x06\x00")  # llm_model_type { 100 {} }
    assert resolve(later, CODEC).model_type == "generic"


def test_real_metadata(shared_dir):
    from litert_lm.bundle import open_bundle
    from litert_lm.tokenizer import load_tokenizer

    with open_bundle(shared_dir / "bundles" / "smollm2-135m-int8.litertlm") as bundle:
        codec = load_tokenizer(*bundle.tokenizer_section())
        resolved = resolve(bundle.llm_metadata, codec)
    assert resolved.stop_sequences == ((2,),) and resolved.bos_id is None
    assert resolved.sampler == SamplerDefaults("TOP_P", 50, 0.9, 0.2, 0)
    assert (resolved.pad_id, resolved.max_num_tokens) == (2, 1280)


def test_how_tool_calls_are_written_comes_from_the_family():
    stored = "llm_model_type { qwen3 { code_fence_start: '[[' } }"
    assert config(stored).tool_syntax == ToolSyntax(code_fence_start="[[")
    assert config("").tool_syntax == ToolSyntax()
