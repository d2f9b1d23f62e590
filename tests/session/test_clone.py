"""Sessions that are cloned, and sessions that go back."""

from __future__ import annotations

import pytest

from litert_lm import SamplerConfig
from litert_lm.errors import InvalidArgumentError, SessionStateError
from tests.fixtures.hybrid import HybridOptions, reference_ids
from tests.fixtures.hybrid_bundle import LAYOUTS

FIRST, LATER = [1, 20, 33, 7, 40, 11, 58, 9, 25], [12, 30, 3, 50, 17]


def said(session, prompt, count=20, **options):
    response = session.generate(
        prompt, max_new_tokens=count, ignore_eos=True, **options
    )
    return list(response.outputs[0].token_ids)


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_a_clone_goes_on_as_the_session_would(layout, open_engine, make_hybrid_bundle):
    session = open_engine(make_hybrid_bundle(**LAYOUTS[layout])).create_session()
    answer = said(session, FIRST)
    clone = session.clone()
    perfect = reference_ids(
        HybridOptions(**LAYOUTS[layout]), [*FIRST, *answer, *LATER], 20
    )
    assert said(clone, LATER) == said(session, LATER) == perfect


def test_what_a_clone_says_does_not_reach_the_session(llama):
    session = llama.create_session()
    said(session, FIRST)
    before, untouched = session.token_ids, session.clone()
    said(session.clone(), LATER)
    assert session.token_ids == before
    assert said(session, [5]) == said(untouched, [5])


def test_a_clone_of_an_empty_session(llama):
    assert said(llama.create_session().clone(), FIRST) == said(
        llama.create_session(), FIRST
    )


def test_a_seeded_clone_draws_what_the_session_draws(llama):
    config = SamplerConfig(temperature=1.0, seed=3)
    session = llama.create_session(sampler_config=config)
    said(session, FIRST)
    clone = session.clone()
    assert said(session, LATER) == said(clone, LATER)


def test_unseeded_clones_differ(llama):
    config = SamplerConfig(temperature=1.5)
    session = llama.create_session(sampler_config=config)
    said(session, FIRST)
    clones = [session.clone() for _ in range(3)]
    assert len({tuple(said(clone, LATER)) for clone in clones}) > 1


def test_a_closed_session_has_no_clone(llama):
    session = llama.create_session()
    session.close()
    with pytest.raises(SessionStateError, match="closed"):
        session.clone()


def test_a_clone_outlives_its_session(llama):
    session = llama.create_session()
    answer = said(session, FIRST)
    clone = session.clone()
    session.close()
    assert clone.token_ids == (*FIRST, *answer)
    assert len(said(clone, LATER)) == 20


def test_going_back_gives_the_same_answer_again(llama):
    session = llama.create_session()
    first = said(session, FIRST)
    second = said(session, LATER)
    session.rewind(len(FIRST) + len(first))
    assert session.token_ids == (*FIRST, *first)
    assert said(session, LATER) == second


@pytest.mark.parametrize("layout", ["recurrent", "split, rings"])
def test_states_that_cannot_go_back_are_built_again(
    layout, open_engine, make_hybrid_bundle
):
    session = open_engine(make_hybrid_bundle(**LAYOUTS[layout])).create_session()
    answer = said(session, FIRST)
    session.rewind(len(FIRST) + 4)
    perfect = reference_ids(
        HybridOptions(**LAYOUTS[layout]), [*FIRST, *answer[:4], *LATER], 20
    )
    assert said(session, LATER) == perfect


def test_texts_go_on_as_at_first_after_going_back(echoing):
    session = echoing().create_session()
    session.run_prefill(["hi"])
    prompt = session.token_ids
    answer = session.run_decode().texts
    session.rewind(len(prompt))
    assert session.run_decode().texts == answer
    session.rewind(0)
    session.run_prefill(["hi"])
    assert session.token_ids == prompt


def test_bos_comes_once_after_going_back_into_the_first_prompt(
    open_engine, make_conformance_bundle
):
    engine = open_engine(make_conformance_bundle())
    session = engine.create_session(apply_prompt_template=False)
    session.generate("hello", max_new_tokens=1)
    session.rewind(3)
    info = session.generate("abc", max_new_tokens=1).prompt_info
    assert info.token_ids == tuple(engine.tokenize("abc"))
    session.rewind(0)
    info = session.generate("abc", max_new_tokens=1).prompt_info
    assert info.token_ids == (engine.bos_token_id, *engine.tokenize("abc"))


def test_a_context_that_was_lost_begins_anew(open_engine, make_conformance_bundle):
    """As Ctrl-C leaves it between the entries and the rest of a session."""
    engine = open_engine(make_conformance_bundle())
    session = engine.create_session(apply_prompt_template=False)
    session.generate("hello", max_new_tokens=1)
    session._sequence.rewind(0)
    info = session.generate("abc", max_new_tokens=1).prompt_info
    assert info.token_ids[0] == engine.bos_token_id


@pytest.mark.parametrize("count", [-1, 10_000, 1.5, True, None, "1"])
def test_wrong_numbers_of_tokens_to_keep(llama, count):
    session = llama.create_session()
    said(session, FIRST)
    before = session.token_ids
    with pytest.raises(InvalidArgumentError, match="num_tokens"):
        session.rewind(count)
    assert session.token_ids == before
