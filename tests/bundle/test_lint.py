"""The lint says what will disappoint, and nothing about sound metadata."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
from litert_lm.bundle.lint import lint
from litert_lm.bundle.metadata import resolve
from litert_lm.errors import InvalidArgumentError
from tests.bundle.codec import PieceCodec

CODEC = PieceCodec("<s>", "</s>", "\n", "1", "<|im_end|>", "<", "x", ">", "a")
SOUND = (
    'stop_tokens { token_str: "</s>" } sampler_params { type: TOP_P k: 40 p: 0.9 }'
    'max_num_tokens: 64 llm_model_type { generic_model {} } jinja_prompt_template: "a"'
)


def codes(text, render=None):
    metadata = text_format.Parse(text, LlmMetadata())
    findings = lint(metadata, resolve(metadata, CODEC), CODEC, render)
    assert all(finding.message for finding in findings)
    return {finding.code for finding in findings}


def test_sound_metadata_passes():
    assert codes(SOUND + 'start_token { token_str: "<s>" }') == set()


@pytest.mark.parametrize(
    ("addition", "code"),
    [
        ('start_token { token_str: "</s>" }', "start_is_stop"),
        ('stop_tokens { token_str: "\\n" }', "whitespace_stop"),
        ("start_token {}", "empty_start_token"),
        ("start_token { token_ids { ids: [0, 1] } }", "several_start_tokens"),
        ('stop_tokens { token_str: "1" }', "numeric_token_text"),
        ('stop_tokens { token_str: "<x>" }', "unknown_control_token"),
    ],
)
def test_tokens(addition, code):
    assert code in codes(SOUND + addition)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "no_stop_tokens"),
        ("", "no_template"),
        ("llm_model_type { lfm2 {} }", "no_template"),
        ("", "no_model_type"),
        ("", "no_sampler"),
        ("sampler_params { k: 3 }", "no_sampler_type"),
        ("", "no_max_num_tokens"),
        ("supports_thinking: true", "no_channel"),
        ('jinja_prompt_template: "{{ a }}<think>"', "no_channel"),
        ('jinja_prompt_template: "{{ a }}<|im_end|>"', "turn_end_is_no_stop"),
        (
            'jinja_prompt_template: "a" llm_model_type { function_gemma {} }',
            "function_gemma_format",
        ),
        (
            'start_token { token_str: "<s>" } jinja_prompt_template: "<s>{{ a }}"',
            "doubled_start_token",
        ),
        (
            'start_token { token_str: "<s>" }'
            'prompt_templates { user { prefix: "<s>" } }',
            "doubled_start_token",
        ),
    ],
)
def test_statements(text, code):
    assert code in codes(text)


def test_template_is_tried():
    def fails(template, messages):
        raise InvalidArgumentError("unknown tag")

    assert "broken_template" in codes(SOUND, fails)
    rendered = codes(SOUND + 'start_token { token_str: "<s>" }', lambda *_: "<s>a")
    assert rendered == {"doubled_start_token"}


def test_a_family_of_a_later_schema_is_named_so():
    metadata = LlmMetadata.FromString(b"\x32\x03\xa2\x06\x00")
    findings = lint(metadata, resolve(metadata, CODEC), CODEC)
    assert "unknown_model_type" in {finding.code for finding in findings}
