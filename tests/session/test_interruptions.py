"""Whatever ends a call in its middle leaves the session as it was before."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litert_lm import FinishReason
from litert_lm.errors import CancelledError, SessionStateError
from tests.interruption import is_interrupted

FIRST, SECOND = [3, 8, 13, 18, 6, 11], [4, 9, 14, 19, 7, 12, 17, 5, 10, 15, 3, 8]


@pytest.fixture(params=["llama", "hybrid"])
def new_session(
    request: pytest.FixtureRequest,
    open_engine: Callable[..., Any],
    toy_llama_bundle: Path,
    make_hybrid_bundle: Callable[..., Path],
) -> Callable[[], Any]:
    """new_session(): one with an answered prompt, of a model that can rewind or not."""
    is_llama = request.param == "llama"
    engine = open_engine(toy_llama_bundle if is_llama else make_hybrid_bundle())

    def make() -> Any:
        session = engine.create_session()
        _answer(session, FIRST)
        return session

    return make


def _answer(session: Any, ids: list[int]) -> tuple[int, ...]:
    options = {"temperature": 0.0, "ignore_eos": True, "max_new_tokens": 5}
    token_ids: tuple[int, ...] = session.generate(ids, **options).outputs[0].token_ids
    return token_ids


def _raiser(error: type[BaseException]) -> Callable[..., Any]:
    def fail(*args: object) -> Any:
        raise error("in the middle")

    return fail


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_progress_that_fails(
    new_session: Callable[[], Any], error: type[BaseException]
) -> None:
    expected, session = _answer(new_session(), SECOND), new_session()
    before, session.prefill_progress = session.token_ids, _raiser(error)
    with pytest.raises(error):
        session.generate(SECOND)
    session.prefill_progress = None
    assert session.token_ids == before
    assert _answer(session, SECOND) == expected


def test_ctrl_c_inside_the_model(
    new_session: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, session = _answer(new_session(), SECOND), new_session()
    with monkeypatch.context() as patch:
        asked = lambda: signal.raise_signal(signal.SIGINT)  # noqa: E731
        patch.setattr(session, "_cancellation", lambda: asked)
        with pytest.raises(KeyboardInterrupt):
            session.generate(SECOND)
    assert _answer(session, SECOND) == expected


def test_ctrl_c_between_two_steps(
    new_session: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, session = new_session(), new_session()
    expected = _answer(other, SECOND) + _answer(other, [4])
    assert _answer(session, SECOND) == expected[:5]
    with monkeypatch.context() as patch:
        run = _raiser(KeyboardInterrupt)
        patch.setattr("litert_lm.executor.steps.step_runner.StepRunner.run", run)
        with pytest.raises(KeyboardInterrupt):
            session.generate([4])
    assert _answer(session, [4]) == expected[5:]


def test_a_stream_cancelled_before_its_first_chunk(
    new_session: Callable[[], Any],
) -> None:
    session = new_session()
    chunks = session.generate_stream(SECOND)
    session.cancel_process()
    assert [chunk.finish_reason for chunk in chunks][-1] is FinishReason.ABORTED
    assert len(_answer(session, SECOND)) == 5


def test_scoring_that_is_cancelled(new_session: Callable[[], Any]) -> None:
    session = new_session()
    before = session.token_ids
    session._tokenizer = _Cancelling(session)
    with pytest.raises(CancelledError):
        session.run_text_scoring(["x"])
    assert session.token_ids == before


class _Cancelling:
    """A tokenizer during whose work another thread cancels."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def encode(self, text: str) -> list[int]:
        self._session.cancel_process()
        return [3, 4]


def test_a_stream_is_read_by_one_thread(new_session: Callable[[], Any]) -> None:
    session, refused = new_session(), []
    chunks = session.generate_stream(SECOND)

    def read_too(done: int, total: int) -> None:
        with pytest.raises(SessionStateError, match="Another thread"):
            next(chunks)
        refused.append(done)

    session.prefill_progress = read_too
    assert len(list(chunks)) > 1
    assert refused


def test_closing_a_stream_that_another_thread_reads(
    new_session: Callable[[], Any],
) -> None:
    session = new_session()
    chunks = session.generate_stream(SECOND)
    session.prefill_progress = lambda done, total: chunks.close()
    assert [chunk.finish_reason for chunk in chunks][-1] is FinishReason.ABORTED


def _is_line(number: int) -> Callable[[str, str], bool]:
    """That line of those that run in generate/."""
    left = [number]

    def is_here(file: str, text: str) -> bool:
        # No signal comes between the end of a block and the release of its lock.
        if f"{os.sep}generate{os.sep}" in file and not text.startswith("with "):
            left[0] -= 1
        return left[0] < 0

    return is_here


@pytest.mark.parametrize("num_tokens", [0, 3])
def test_ctrl_c_at_every_line_of_going_back(
    new_session: Callable[[], Any], num_tokens: int
) -> None:
    known, line, has_come = {}, 0, True
    while has_come:
        session = new_session()
        go_back = functools.partial(session.rewind, num_tokens)
        has_come = is_interrupted(go_back, _is_line(line))
        ids, line = session.token_ids, line + 1
        if ids not in known:
            fresh = new_session()
            fresh.rewind(0)
            known[ids] = _answer(fresh, [*ids, *SECOND])
        assert _answer(session, SECOND) == known[ids]
    assert line > 5
