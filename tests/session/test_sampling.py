"""Whose sampling values count, seeds, and what the samplers draw."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from litert_lm.config import SamplerConfig
from litert_lm.errors import ExecutionError

LOGITS = {
    "a": math.log(0.4),
    "b": math.log(0.3),
    "c": math.log(0.2),
    "d": math.log(0.1),
}
FULL = {"type": "TOP_P", "k": 4, "p": 1.0, "temperature": 1.0, "seed": 7}


@pytest.fixture
def drawing(open_engine, make_echo_bundle):
    """drawing(sampler): an engine whose tokens a, b, c, d have 0.4, 0.3, 0.2, 0.1."""

    def make(sampler=None, **metadata):
        path = make_echo_bundle({"sampler_params": sampler, **metadata}, logits=LOGITS)
        return open_engine(path)

    return make


def decoded(engine, count=40, **config):
    """What run_decode says after one letter."""
    sampler = SamplerConfig(**config) if config else None
    session = engine.create_session(sampler_config=sampler, max_output_tokens=count)
    session.run_prefill(["x"])
    return session.run_decode().texts[0]


def generated(engine, count=40, **options):
    return engine.create_session().generate("x", max_new_tokens=count, **options).text


def test_greedy_without_any_sampler(drawing):
    engine = drawing()
    assert decoded(engine) == generated(engine) == "a" * 40


@pytest.mark.parametrize(
    "sampler",
    [
        {"type": "GREEDY"},
        {"type": "GREEDY", "temperature": 1.0, "k": 40},
        {"type": "TOP_K", "k": 1, "temperature": 1.0},
        FULL | {"temperature": 0.0},
        FULL | {"k": 1},
        FULL | {"p": 0.0},
    ],
    ids=str,
)
def test_bundles_that_mean_greedy(drawing, sampler):
    assert decoded(drawing(sampler)) == "a" * 40


@pytest.mark.parametrize(
    ("sampler", "letters"),
    [
        ({"type": "TOP_K", "k": 2, "temperature": 1.0}, "ab"),
        ({"type": "TOP_P", "k": 3, "p": 1.0, "temperature": 1.0}, "abc"),
        ({"type": "TOP_P", "k": 4, "p": 0.65, "temperature": 1.0}, "ab"),
        ({"type": "TOP_P", "k": 4, "p": 0.75, "temperature": 1.0}, "abc"),
        ({"k": 2, "p": 1.0, "temperature": 1.0}, "ab"),
    ],
    ids=str,
)
def test_every_sampler_type_draws_from_its_set(drawing, sampler, letters):
    assert set(decoded(drawing(sampler), 50)) == set(letters)


def test_bundle_then_session_then_call(drawing):
    engine = drawing(FULL)
    assert set(decoded(engine, 50)) == set("abcd")
    assert set(decoded(engine, 50, top_k=2)) == set("ab")
    session = engine.create_session(sampler_config=SamplerConfig(top_k=3))
    options = {"max_new_tokens": 50, "seed": 5}
    assert set(session.generate("x", **options).text) == set("abc")
    session = engine.create_session(sampler_config=SamplerConfig(top_k=3))
    assert set(session.generate("x", **options, top_k=2).text) == set("ab")


def test_a_config_with_gaps_takes_the_rest_from_the_bundle(drawing):
    assert set(decoded(drawing(FULL | {"k": 2}), 50, seed=3)) == set("ab")
    assert decoded(drawing(FULL), temperature=0.0) == "a" * 40


def test_a_call_may_turn_sampling_on_and_off(drawing):
    assert set(generated(drawing(), 50, temperature=1.0, seed=5)) == set("abcd")
    assert generated(drawing(FULL), temperature=0.0) == "a" * 40


@pytest.mark.parametrize(
    ("options", "letters"),
    [
        ({"top_k": 2}, "ab"),
        ({"top_p": 0.65}, "ab"),
        ({"top_p": 0.75}, "abc"),
        ({"min_p": 0.6}, "ab"),
        ({"min_p": 1.0}, "a"),
        ({"top_k": 3, "top_p": 0.7}, "ab"),
        ({"top_k": 10_000}, "abcd"),
    ],
    ids=str,
)
def test_cuts_of_a_call(drawing, options, letters):
    text = generated(drawing(), 50, temperature=1.0, seed=5, **options)
    assert set(text) == set(letters)


def test_frequencies_follow_the_probabilities(drawing):
    session = drawing().create_session()
    text = session.generate("x", max_new_tokens=50, temperature=1.0, seed=1).text
    counts = Counter(text)
    for seed in range(2, 12):
        session = drawing().create_session()
        options = {"max_new_tokens": 50, "temperature": 1.0, "seed": seed}
        counts.update(session.generate("x", **options).text)
    total = sum(counts.values())
    for letter, share in zip("abcd", (0.4, 0.3, 0.2, 0.1), strict=True):
        spread = math.sqrt(share * (1 - share) / total)
        assert abs(counts[letter] / total - share) < 5 * spread


def test_same_seed_same_text(drawing):
    engine = drawing()
    options = {"temperature": 1.0, "seed": 42}
    first, second = generated(engine, **options), generated(engine, **options)
    assert first == second != generated(engine, **(options | {"seed": 43}))


def test_zero_is_a_seed_and_no_seed_is_entropy(drawing):
    engine = drawing()
    assert generated(engine, temperature=1.0, seed=0) == generated(
        engine, temperature=1.0, seed=0
    )
    assert len({generated(engine, temperature=1.0) for _ in range(5)}) > 1
    assert len({generated(engine, temperature=1.0, seed=-1) for _ in range(5)}) > 1


def test_the_bundles_seed_repeats_run_decode_only(drawing):
    engine = drawing(FULL)
    assert decoded(engine) == decoded(engine)
    assert len({generated(engine) for _ in range(5)}) > 1


def test_a_sessions_random_sequence_goes_on_from_turn_to_turn(drawing):
    def turns():
        session = drawing(FULL).create_session(max_output_tokens=12)
        texts = []
        for _ in range(2):
            session.run_prefill(["x"])
            texts.append(session.run_decode().texts[0])
        return texts

    first, again = turns(), turns()
    assert first == again
    assert first[0] != first[1]


def test_another_session_in_between_changes_nothing(drawing):
    engine = drawing(FULL)
    alone = decoded(engine, 12)
    session = engine.create_session(max_output_tokens=12)
    session.run_prefill(["x"])
    pieces = []
    for piece in session.run_decode_async():
        pieces += piece.texts
        decoded(engine, 2)
    assert "".join(pieces) == alone


def test_suppressed_tokens_are_never_said(drawing):
    engine = drawing(suppress_tokens={"ids": [107, 108]})
    assert decoded(engine) == "c" * 40
    assert set(generated(engine, 50, temperature=1.0, seed=5)) == set("cd")


def test_logprobs_are_those_before_sampling(drawing):
    session = drawing().create_session()
    output = session.generate("x", top_k=1, output_logprobs=True).outputs[0]
    assert output.logprobs == pytest.approx([math.log(0.4)] * 20, abs=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}], ids=["greedy", "drawn"])
def test_logits_that_are_no_numbers_are_an_error(
    open_engine, make_echo_bundle, bad, options
):
    path = make_echo_bundle(logits={"a": bad, "b": 1.0})
    session = open_engine(path).create_session()
    with pytest.raises(ExecutionError, match="logits"):
        session.generate("x", **options)
