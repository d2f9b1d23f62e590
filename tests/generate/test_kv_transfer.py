"""Export and import of a prompt's KV state, and prompts asked again."""

from __future__ import annotations

import threading

import pytest

from litert_lm.errors import InvalidArgumentError, SavedStateError
from litert_lm.generate.kv_transfer import KVTransfers
from tests.fixtures.hybrid_bundle import LAYOUTS

PROMPT = [1, 20, 33, 7, 40, 11, 58, 9, 25]
EXPORT = {"do_remote_decode": True}


def asked(engine, prompt=PROMPT, **options):
    options = {"max_new_tokens": 12, "ignore_eos": True, **options}
    return engine.generate(prompt, output_logprobs=True, **options)


def said(response):
    return response.outputs[0].token_ids, response.outputs[0].logprobs


def exported(engine, prompt=PROMPT, **options):
    response = asked(
        engine, prompt, max_new_tokens=1, kv_transfer_params=EXPORT, **options
    )
    return response.outputs[0].finish_info.kv_transfer_params


@pytest.fixture
def engine(open_engine, toy_llama_bundle):
    return open_engine(toy_llama_bundle, prefix_cache_bytes=0)


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_an_import_goes_on_as_without_a_stop(layout, open_engine, make_hybrid_bundle):
    engine = open_engine(make_hybrid_bundle(**LAYOUTS[layout]), prefix_cache_bytes=0)
    expected = said(asked(engine))
    params = exported(engine)
    for _ in range(2):
        response = asked(engine, kv_transfer_params=params)
        assert said(response) == expected
        assert response.prompt_info.num_cached_tokens == len(PROMPT) - 1


def test_numbers_that_the_wire_made_floats(engine):
    params = exported(engine)
    params = {**params, "num_tokens": float(params["num_tokens"])}
    response = asked(engine, kv_transfer_params=params)
    assert response.prompt_info.num_cached_tokens == len(PROMPT) - 1


def test_only_an_end_by_length_exports(engine):
    first = asked(engine, max_new_tokens=1).outputs[0].token_ids[0]
    info = (
        asked(engine, stop_token_ids=[first], kv_transfer_params=EXPORT)
        .outputs[0]
        .finish_info
    )
    assert info.kv_transfer_params is None
    assert asked(engine).outputs[0].finish_info.kv_transfer_params is None


def test_sessions_export_and_import_their_whole_context(engine):
    sessions = [engine.create_session() for _ in range(2)]
    for session in sessions:
        asked(session)
    later = [12, 30, 3]
    params = exported(sessions[0].clone(), later)
    expected = said(asked(sessions[0], later))
    response = asked(sessions[1], later, kv_transfer_params=params)
    assert said(response) == expected
    assert response.prompt_info.num_cached_tokens == len(later) - 1
    assert sessions[0].token_ids == sessions[1].token_ids


def test_a_prompt_of_one_token_is_put_once(engine):
    sessions = [engine.create_session() for _ in range(3)]
    for session in sessions:
        asked(session)
    params = exported(sessions[0], [12])
    expected = said(asked(sessions[1], [12]))
    response = asked(sessions[2], [12], kv_transfer_params=params)
    assert said(response) == expected
    assert response.prompt_info.is_imported
    assert sessions[1].token_ids == sessions[2].token_ids


@pytest.mark.parametrize("handle", ["gone", "", "/etc/passwd", "file:///etc/passwd"])
def test_an_unknown_handle_is_computed_again(engine, handle):
    params = {**exported(engine), "kv_handle": handle}
    response = asked(engine, kv_transfer_params=params)
    assert said(response) == said(asked(engine))
    assert response.prompt_info.num_cached_tokens == 0
    assert response.prompt_info.is_imported is False


def test_the_state_of_another_prompt(engine):
    params = exported(engine)
    with pytest.raises(InvalidArgumentError, match="another prompt of 9 tokens"):
        asked(engine, [*PROMPT[:-1], 26], kv_transfer_params=params)
    with pytest.raises(InvalidArgumentError, match=r"num_tokens is 9.* has 10"):
        asked(engine, [*PROMPT, 26], kv_transfer_params=params)


def test_the_state_of_another_model(engine, open_engine, make_llama_bundle):
    other = open_engine(make_llama_bundle(max_num_tokens=100))
    with pytest.raises(SavedStateError, match="another model"):
        asked(other, kv_transfer_params=exported(engine))


@pytest.mark.parametrize(
    "change",
    [
        {"kv_handle": None},
        {"kv_handle": 3},
        {"num_tokens": "9"},
        {"num_tokens": 9.5},
        {"num_tokens": float("nan")},
        {"num_tokens": True},
        {"model_fingerprint": None},
        {"do_remote_prefill": "yes"},
        {"do_remote_decode": 1},
        {"do_remote_decode": True},
    ],
)
def test_wrong_dictionaries(engine, change):
    params = {**exported(engine), **change}
    with pytest.raises(InvalidArgumentError, match="kv_transfer_params"):
        asked(engine, kv_transfer_params=params)


@pytest.mark.parametrize("params", [{}, {"do_remote_prefill": False}, {"other": [1]}])
def test_dictionaries_that_ask_for_nothing(engine, params):
    assert said(asked(engine, kv_transfer_params=params)) == said(asked(engine))


def test_several_answers_export_one_state(engine):
    response = asked(
        engine,
        num_sequences=3,
        temperature=1.0,
        seed=1,
        max_new_tokens=2,
        kv_transfer_params=EXPORT,
    )
    params = [output.finish_info.kv_transfer_params for output in response.outputs]
    assert params[0] == params[1] == params[2]
    assert said(asked(engine, kv_transfer_params=params[0])) == said(asked(engine))


def test_old_states_make_room(engine):
    params = [exported(engine, [*PROMPT, number]) for number in range(3, 6)]
    known = [
        asked(engine, [*PROMPT, number], kv_transfer_params=each)
        for number, each in zip(range(3, 6), params, strict=True)
    ]
    assert [each.prompt_info.num_cached_tokens for each in known] == [0, 0, 9]


def test_states_are_counted(engine):
    sequence_state = object.__new__(type("State", (), {"nbytes": 1, "token_ids": ()}))
    transfers = KVTransfers("model", 1 << 20)
    handles = [transfers.export(sequence_state)["kv_handle"] for _ in range(80)]
    assert len(set(handles)) == 80
    assert len(transfers._states) == 64


def test_prompt_scores_are_computed_and_not_imported(engine):
    params = exported(engine)
    response = asked(engine, kv_transfer_params=params, prompt_logprobs=True)
    assert len(response.prompt_info.logprobs) == len(PROMPT)
    assert response.outputs[0].token_ids == said(asked(engine))[0]


def test_salts_and_bypasses_change_no_answer(open_engine, toy_llama_bundle):
    engine = open_engine(toy_llama_bundle)
    prompt = PROMPT * 4
    ways = [{}, {}, {"bypass_prefix_cache": True}, {"cache_salt": "x"}]
    ways += [{"cache_salt": "y"}, {"cache_salt": "y"}]
    responses = [asked(engine, prompt, **way) for way in ways]
    assert len({said(response) for response in responses}) == 1
    known = [response.prompt_info.num_cached_tokens for response in responses]
    assert known == [0, 35, 0, 0, 0, 35]


def test_threads_import_one_state_at_once(engine):
    params, expected, answers = exported(engine), said(asked(engine)), []

    def ask():
        answers.append(said(asked(engine, kv_transfer_params=params)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 4
