"""Rows of the conformance table about several answers, and concurrent requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from litert_lm.errors import InvalidArgumentError, QueueFullError
from tests.generate.rows import ids_of

SEVERAL = {"num_sequences": 3, "temperature": 1.0, "seed": 7, "ignore_eos": True}


def test_v20_several_answers(engine: Any) -> None:
    chunks = list(engine.generate_stream("hello", **SEVERAL))
    outputs = [output for chunk in chunks for output in chunk.outputs]
    assert [output.index for output in outputs[:6]] == [0, 1, 2, 0, 1, 2]
    for index in range(3):
        own = [output for output in outputs if output.index == index]
        assert [bool(output.finish_info) for output in own].count(True) == 1
        assert own[-1].finish_info.num_output_tokens == len(own) == 20
    assert [chunk.prompt_info is not None for chunk in chunks].count(True) == 1


def test_v20_answer_i_is_the_single_one_of_seed_plus_i(engine: Any) -> None:
    response = engine.generate("hello", **SEVERAL)
    assert len({output.token_ids for output in response.outputs}) == 3
    for index, output in enumerate(response.outputs):
        options = SEVERAL | {"num_sequences": 1, "seed": 7 + index}
        assert ids_of(engine.generate("hello", **options)) == list(output.token_ids)


@pytest.mark.parametrize("seed", [-2, (1 << 63) - 1, -(1 << 63)])
def test_seeds_at_the_ends_of_int64(engine: Any, seed: int) -> None:
    options = SEVERAL | {"seed": seed}
    assert engine.generate("hello", **options) == engine.generate("hello", **options)


def test_answers_without_a_seed_differ(engine: Any) -> None:
    options = SEVERAL | {"seed": None}
    outputs = engine.generate("hello", **options).outputs
    assert len({output.token_ids for output in outputs}) == 3


def test_a_session_stands_at_the_prompts_end_after_several(engine: Any) -> None:
    session = engine.create_session(apply_prompt_template=False)
    response = session.generate("hello", **SEVERAL)
    assert session.token_ids == response.prompt_info.token_ids
    one = session.generate([5], max_new_tokens=3)
    assert ids_of(one) == ids_of(
        engine.generate([*response.prompt_info.token_ids, 5], max_new_tokens=3)
    )


def test_the_seed_of_a_session_gives_several_answers_again(engine: Any) -> None:
    from litert_lm import SamplerConfig

    config = SamplerConfig(temperature=1.0, seed=3)
    first, again = (
        engine.create_session(sampler_config=config).generate(
            "a", num_sequences=3, ignore_eos=True
        )
        for _ in range(2)
    )
    assert first == again
    assert len({output.token_ids for output in first.outputs}) == 3


def test_cancelling_ends_all_answers(engine: Any) -> None:
    session = engine.create_session()
    reasons = []
    for count, chunk in enumerate(session.generate_stream("hello", **SEVERAL)):
        if count == 4:
            session.cancel_process()
        reasons += [
            o.finish_info.finish_reason.name for o in chunk.outputs if o.finish_info
        ]
    assert reasons == ["ABORTED"] * 3


def test_a_prompt_cancelled_ends_every_answer(engine: Any) -> None:
    session = engine.create_session()
    session.prefill_progress = lambda done, total: session.cancel_process()
    response = session.generate([*range(3, 60)], **SEVERAL)
    assert [output.index for output in response.outputs] == [0, 1, 2]
    assert session.token_ids == ()


def test_v04_requests_of_one_name_do_not_mix(engine: Any) -> None:
    options = {"request_id": "same", "max_new_tokens": 30, "ignore_eos": True}
    prompts = [[1, 5, each] for each in range(3, 11)]
    alone = [engine.generate(prompt, **options) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        together = list(
            pool.map(lambda each: engine.generate(each, **options), prompts)
        )
    assert together == alone


def test_results_do_not_depend_on_what_else_runs(engine: Any) -> None:
    options = {"max_new_tokens": 30, "temperature": 1.3, "ignore_eos": True}

    def answer(seed: int) -> list[int]:
        return ids_of(engine.generate("hello", seed=seed, **options))

    alone = [answer(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(answer, range(8))) == alone


def test_v54_a_full_queue_refuses(
    open_engine: Callable[..., Any], make_conformance_bundle: Callable[..., Any]
) -> None:
    engine = open_engine(make_conformance_bundle(), max_running=1, max_waiting=0)
    stream = engine.generate_stream("hello", ignore_eos=True)
    next(stream)
    with pytest.raises(QueueFullError):
        engine.generate("a")
    stream.close()
    assert engine.generate("a").outputs[0].num_tokens


def test_v51_closing_a_stream_frees_its_place(
    open_engine: Callable[..., Any], make_conformance_bundle: Callable[..., Any]
) -> None:
    engine = open_engine(make_conformance_bundle(), max_running=1)
    running = engine.generate_stream("hello", ignore_eos=True, max_new_tokens=100)
    next(running)
    waiting = engine.generate_stream("hello")
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(waiting))
    thread.start()
    running.close()
    thread.join(20)
    assert answers[-1].outputs[0].finish_info is not None


def test_a_waiting_request_can_be_closed(
    open_engine: Callable[..., Any], make_conformance_bundle: Callable[..., Any]
) -> None:
    engine = open_engine(make_conformance_bundle(), max_running=1)
    running = engine.generate_stream("hello", ignore_eos=True)
    next(running)
    waiting = engine.generate_stream("hello")
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(waiting))
    thread.start()
    while not engine.scheduler.num_waiting:
        time.sleep(0.001)
    waiting.close()
    thread.join(20)
    assert [chunk.finish_reason.name for chunk in answers] == ["ABORTED"]
    running.close()


def test_more_answers_than_allowed_at_once(engine: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="num_sequences is 129; at most 128"):
        engine.generate_stream("a", num_sequences=129, temperature=1.0)
