"""Sessions over models of layouts whose states cannot simply be cut short."""

from __future__ import annotations

import pytest

from tests.fixtures.hybrid import HybridOptions, reference_ids
from tests.fixtures.hybrid_bundle import LAYOUTS

CHOSEN = (
    "ring as long as the window",
    "ring that is written after attending",
    "split, rings",
    "embedders of single tokens, ring",
    "recurrent",
    "recurrent, ring, embedder of single tokens",
    "decoding a batch of two",
)
FIRST, SECOND = [1, 20, 33, 7, 40, 11, 58, 9, 25], [1, 8, 41]
LATER = [12, 30, 3, 50, 17]

pytestmark = pytest.mark.parametrize("layout", CHOSEN)


@pytest.fixture
def engine(layout, open_engine, make_hybrid_bundle):
    return open_engine(make_hybrid_bundle(**LAYOUTS[layout]))


@pytest.fixture
def greedy(layout):
    """greedy(ids, count): what a perfect run says after `ids`."""

    def say(ids, count):
        return reference_ids(HybridOptions(**LAYOUTS[layout]), ids, count)

    return say


def said(session, prompt, count):
    response = session.generate(prompt, max_new_tokens=count, ignore_eos=True)
    return list(response.outputs[0].token_ids)


def test_turns_follow_each_other(engine, greedy):
    session = engine.create_session()
    answer = said(session, FIRST, 20)
    assert answer == greedy(FIRST, 20)
    assert said(session, LATER, 20) == greedy([*FIRST, *answer, *LATER], 20)


def test_streams_of_several_sessions_take_turns(engine, greedy):
    sessions = [engine.create_session() for _ in range(2)]
    streams = [
        session.generate_stream(prompt, max_new_tokens=25, ignore_eos=True)
        for session, prompt in zip(sessions, (FIRST, SECOND), strict=True)
    ]
    for _ in zip(*streams, strict=True):
        pass
    for session, prompt in zip(sessions, (FIRST, SECOND), strict=True):
        assert list(session.token_ids) == [*prompt, *greedy(prompt, 25)]


def test_a_closed_stream_leaves_what_was_told(engine, greedy):
    session = engine.create_session()
    stream = session.generate_stream(FIRST, max_new_tokens=30, ignore_eos=True)
    for _ in range(14):
        next(stream)
    stream.close()
    told = list(session.token_ids)
    assert told == [*FIRST, *greedy(FIRST, 13)]
    assert said(session, LATER, 20) == greedy([*told, *LATER], 20)


def test_an_answer_after_a_refused_prompt(engine, greedy):
    session = engine.create_session()
    answer = said(session, FIRST, 5)
    with pytest.raises(ValueError, match="160"):
        session.generate([5] * 200)
    assert said(session, LATER, 20) == greedy([*FIRST, *answer, *LATER], 20)


def test_scoring_leaves_the_context_as_it_was(engine, greedy):
    session = engine.create_session()
    answer = said(session, FIRST, 12)
    scores = [session.run_text_scoring(["hello"]).scores for _ in range(2)]
    assert scores[0] == pytest.approx(scores[1])
    assert said(session, LATER, 20) == greedy([*FIRST, *answer, *LATER], 20)
