"""Public names that stand for what is not there yet, logging and the benchmark."""

from __future__ import annotations

import logging

import pytest

import litert_lm
from litert_lm.errors import InvalidArgumentError, UnsupportedModelError


def test_embedding_models_are_refused_clearly(make_echo_bundle):
    with pytest.raises(UnsupportedModelError, match="not supported yet"):
        litert_lm.EmbeddingEngine(str(make_echo_bundle()))


@pytest.mark.parametrize("name", ["lora_config", "enable_speculative_decoding"])
def test_what_conversations_cannot_do_yet(open_engine, make_echo_bundle, name):
    engine = open_engine(make_echo_bundle())
    with pytest.raises(InvalidArgumentError, match="not supported yet"):
        engine.create_conversation(**{name: litert_lm.LoraConfig("a")})


def test_severities_set_the_level_of_the_logger():
    logger = logging.getLogger("litert_lm")
    before = logger.level
    try:
        litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
        assert not logger.isEnabledFor(logging.WARNING)
        litert_lm.set_min_log_severity(litert_lm.LogSeverity.SILENT)
        assert not logger.isEnabledFor(logging.CRITICAL)
    finally:
        logger.setLevel(before)
    with pytest.raises(InvalidArgumentError, match="LogSeverity"):
        litert_lm.set_min_log_severity("loud")


def test_the_benchmark_counts_its_tokens(make_echo_bundle, cache_dir, quick_first_load):
    info = litert_lm.Benchmark(
        str(make_echo_bundle()),
        litert_lm.Backend.CPU(thread_count=1),
        prefill_tokens=20,
        decode_tokens=10,
        cache_dir=str(cache_dir),
    ).run()
    assert info.last_prefill_token_count == 20
    assert info.last_decode_token_count == 10
    assert info.last_decode_tokens_per_second > 0


def test_objects_are_instances_of_the_abstract_classes(open_engine, make_echo_bundle):
    engine = open_engine(make_echo_bundle())
    assert isinstance(engine, litert_lm.AbstractEngine)
    assert isinstance(engine.create_session(), litert_lm.AbstractSession)
    assert isinstance(engine.create_conversation(), litert_lm.AbstractConversation)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: litert_lm.RepetitionPenaltyConfig(0.5), "repetition_penalty"),
        (lambda: litert_lm.RepetitionPenaltyConfig(window_size=-1), "window_size"),
        (lambda: litert_lm.NoRepeatNgramConfig(-1), "no_repeat_ngram_size"),
        (lambda: litert_lm.SuppressTokensConfig([-2]), "suppress_tokens"),
        (lambda: litert_lm.SuppressTokensConfig("ab"), "suppress_tokens"),
        (lambda: litert_lm.ThinkingConfig(1), "enable_thinking"),
        (lambda: litert_lm.ThinkingConfig(True, "x"), "thinking_token_budget"),
        (lambda: litert_lm.ConstrainedDecodingConfig(provider=9), "provider"),
        (lambda: litert_lm.ResponseFormat.json("{"), "schema"),
        (lambda: litert_lm.ResponseFormat.regex(3), "pattern"),
        (lambda: litert_lm.ResponseFormat.choice([]), "choices"),
    ],
)
def test_wrong_choices_name_what_is_wrong(make, name):
    with pytest.raises(InvalidArgumentError, match=name):
        make()
