"""Cancelling, closing, threads, and what a session is like afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

import pytest

from litert_lm.errors import SessionStateError
from litert_lm.generate.response import FinishReason

ENDLESS = {"max_new_tokens": 100, "ignore_eos": True}


def test_closing_a_stream_leaves_the_session_usable(llama):
    session = llama.create_session()
    stream = session.generate_stream([5, 6], **ENDLESS)
    for _ in range(4):
        next(stream)
    stream.close()
    said = session.token_ids[2:]
    assert len(said) == 3
    follow = session.generate([7], max_new_tokens=3).outputs[0].token_ids
    fresh = llama.create_session()
    expected = fresh.generate([5, 6, *said, 7], max_new_tokens=3).outputs[0].token_ids
    assert follow == expected


def test_breaking_out_of_a_stream_leaves_the_session_usable(echoing):
    session = echoing(kv_length=128).create_session()
    for chunk in session.generate_stream("a"):
        if chunk.text == "[U]":
            break
    assert session.generate("b", max_new_tokens=50).text.endswith("[U][:][b][;][M][>]")


def test_breaking_out_of_run_decode_async_leaves_the_session_usable(echoing):
    session = echoing(kv_length=128).create_session()
    session.run_prefill(["a"])
    for piece in session.run_decode_async():
        if piece.texts == ["[U]"]:
            break
    session.run_prefill(["b"])
    assert session.run_decode().texts[0].endswith("[bos][U][U][:][b][;][M][>]")


def test_cancelling_ends_an_answer_and_the_session_goes_on(llama):
    session = llama.create_session()
    chunks = []
    for chunk in session.generate_stream([5, 6], **ENDLESS):
        chunks.append(chunk)
        if len(chunks) == 5:
            session.cancel_process()
    assert chunks[-1].finish_reason is FinishReason.ABORTED
    assert sum(output.num_tokens for c in chunks for output in c.outputs) == 4
    assert session.generate([7], max_new_tokens=3).outputs[0].num_tokens == 3


def test_cancelling_from_another_thread(llama):
    session = llama.create_session()
    started = threading.Event()

    def cancel():
        started.wait(10)
        session.cancel_process()

    thread = threading.Thread(target=cancel)
    thread.start()
    reasons = []
    for chunk in session.generate_stream([5, 6], **ENDLESS):
        started.set()
        thread.join()
        reasons.append(chunk.finish_reason)
    assert reasons[-1] is FinishReason.ABORTED


def test_cancelling_an_idle_session_does_nothing(llama):
    session = llama.create_session()
    session.cancel_process()
    assert session.generate([5], max_new_tokens=3).outputs[0].num_tokens == 3


def test_a_busy_session_refuses_a_second_call(llama):
    session = llama.create_session()
    stream = session.generate_stream([5, 6], **ENDLESS)
    next(stream)
    with pytest.raises(SessionStateError, match="busy"):
        session.generate([7])
    with pytest.raises(SessionStateError, match="busy"):
        session.run_prefill(["a"])
    stream.close()
    assert session.generate([7], max_new_tokens=2).outputs[0].num_tokens == 2


def test_two_threads_in_one_session_get_one_answer_and_one_error(llama):
    session = llama.create_session()
    barrier, results = threading.Barrier(2), []

    def generate():
        barrier.wait()
        try:
            results.append(session.generate([5, 6], **ENDLESS).outputs[0].num_tokens)
        except SessionStateError as error:
            results.append(str(error))

    threads = [threading.Thread(target=generate) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [result for result in results if isinstance(result, str)]
    assert all("busy" in text for text in texts)
    assert len(texts) < 2


def test_sessions_in_threads_answer_as_they_would_alone(llama):
    prompts = [[5, 6], [7, 8], [9]]
    alone = [
        llama.create_session().generate(prompt, **ENDLESS).outputs[0].token_ids
        for prompt in prompts
    ]
    together = {}

    def generate(index):
        session = llama.create_session()
        answer = session.generate(prompts[index], **ENDLESS)
        together[index] = answer.outputs[0].token_ids

    threads = [threading.Thread(target=generate, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[index] for index in range(3)] == alone


def test_interleaved_streams_are_independent(llama):
    prompts = [[5, 6], [7, 8]]
    options = {"max_new_tokens": 20}
    alone = [
        llama.create_session().generate(prompt, **options).text for prompt in prompts
    ]
    streams = [llama.create_session().generate_stream(p, **options) for p in prompts]
    texts = ["", ""]
    for pair in zip(*streams, strict=False):
        for index, chunk in enumerate(pair):
            texts[index] += chunk.text
    assert texts == alone


def test_recurrent_state_does_not_leak_between_sessions(echoing):
    engine = echoing(readout="previous", recurrent=True)
    with engine.create_session() as first:
        first.generate("abc", max_new_tokens=5)
    stream = engine.create_session().generate_stream("a")
    other = engine.create_session().generate("b").text
    assert other == "[none][bos][U][:][b][;][M]"
    text = "".join(chunk.text for chunk in stream)
    assert text == "[none][bos][U][:][a][;][M]"


def test_a_recurrent_session_goes_on_after_a_closed_stream(echoing):
    session = echoing(readout="previous", recurrent=True).create_session()
    stream = session.generate_stream("ab")
    for _ in range(3):
        next(stream)
    stream.close()
    text = session.generate("c", max_new_tokens=40).text
    assert text.startswith("[none][bos][U][:][a][b][;][M][>][none]")


def test_a_dropped_session_frees_its_memory_at_once(llama):
    """Without the garbage collector, which comes seldom to what has lived for long."""
    gc.disable()
    try:
        session = llama.create_session()
        session.generate([5, 6] * 10, max_new_tokens=3)
        gone = weakref.ref(session)
        del session
        assert gone() is None
    finally:
        gc.enable()


def test_a_closed_session_says_so(llama):
    session = llama.create_session()
    session.close()
    session.close()
    with pytest.raises(SessionStateError, match="session is closed"):
        session.generate([5])


def test_a_closed_session_holds_no_context(llama):
    session = llama.create_session()
    session.generate([5, 6], max_new_tokens=3)
    session.close()
    assert session.token_ids == ()


def test_a_session_closed_under_its_stream_holds_no_context_after_it(llama):
    session = llama.create_session()
    stream = session.generate_stream([5, 6], **ENDLESS)
    next(stream)
    session.close()
    assert session.token_ids == (5, 6)
    assert [chunk.finish_reason for chunk in stream] == [FinishReason.ABORTED]
    assert session.token_ids == ()


def test_a_session_of_a_closed_engine_says_so(open_engine, toy_llama_bundle):
    engine = open_engine(toy_llama_bundle)
    session = engine.create_session()
    stream = session.generate_stream([5, 6], **ENDLESS)
    next(stream)
    engine.close()
    with pytest.raises(SessionStateError, match="engine is closed"):
        list(stream)
    with pytest.raises(SessionStateError, match="engine is closed"):
        session.generate([5])
    with pytest.raises(SessionStateError, match="engine is closed"):
        engine.create_session()
    session.close()
    engine.close()


def test_an_engine_closed_in_the_middle_of_another_threads_answer(
    open_engine, toy_llama_bundle
):
    engine = open_engine(toy_llama_bundle)
    running, errors = threading.Event(), []

    def generate():
        try:
            while True:
                session = engine.create_session()
                for _ in session.generate_stream([5, 6], **ENDLESS):
                    running.set()
        except SessionStateError as error:
            errors.append(str(error))

    thread = threading.Thread(target=generate)
    thread.start()
    running.wait(10)
    engine.close()
    thread.join(10)
    assert not thread.is_alive()
    assert "closed" in errors[0]


def test_an_engine_that_is_never_closed_does_not_disturb_the_exit(
    toy_llama_bundle, cache_dir
):
    script = (
        "import sys, litert_lm\n"
        "path, cache = sys.argv[1:]\n"
        "cpu = litert_lm.Backend.CPU(thread_count=1)\n"
        "engine = litert_lm.Engine(path, cpu, cache_dir=cache)\n"
        "stream = engine.create_session().generate_stream([5, 6])\n"
        "next(stream), next(stream)\n"
        "print('done')\n"
    )
    command = [sys.executable, "-c", script, str(toy_llama_bundle), str(cache_dir)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout) == (0, "done\n")
    assert "Traceback" not in child.stderr


def test_times_of_the_last_prefill_and_decode(llama):
    session = llama.create_session()
    session.generate([5] * 20, max_new_tokens=10, ignore_eos=True)
    info = session.get_benchmark_info()
    assert info.last_prefill_token_count == 20
    assert info.last_decode_token_count == 10
    assert info.last_prefill_tokens_per_second > 0
    assert info.last_decode_tokens_per_second > 0
    assert info.init_time_in_second > 0
    assert 0 < info.time_to_first_token_in_second < 10
