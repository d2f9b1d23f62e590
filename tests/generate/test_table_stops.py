"""Rows of the conformance table about what ends an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from litert_lm.errors import InvalidArgumentError
from tests.fixtures.conformance import EOS
from tests.generate.rows import A, B, finish_of, ids_of


def test_v27_limits(engine: Any) -> None:
    seven = engine.generate("x", max_new_tokens=7, ignore_eos=True)
    assert (len(ids_of(seven)), finish_of(seven)) == (7, ("LENGTH", None))
    unset = engine.generate("x", ignore_eos=True)
    assert (len(ids_of(unset)), finish_of(unset)) == (20, ("LENGTH", None))


def test_v28_eos(engine: Any) -> None:
    only = {"allowed_token_ids": [EOS]}
    for options in ({}, {"max_new_tokens": 1}):
        response = engine.generate("x", **only, **options)
        assert (ids_of(response), response.text) == ([EOS], "")
        assert response.outputs[0].finish_info.eos_token_id == EOS
    ignored = engine.generate("x", ignore_eos=True, max_new_tokens=5, **only)
    assert (ids_of(ignored), ignored.text) == ([EOS] * 5, "")
    assert finish_of(ignored) == ("LENGTH", None)


def test_v29_stop_ids(engine: Any) -> None:
    options = {"allowed_token_ids": [A], "stop_token_ids": [A]}
    for include, text in ((False, ""), (True, "a")):
        response = engine.generate("x", include_stop_strings=include, **options)
        assert (ids_of(response), response.text) == ([A], text)
        assert response.outputs[0].finish_info.stop_token_id == A


def test_v30_stop_ids_are_masked_before_the_minimum(engine: Any) -> None:
    response = engine.generate(
        "x",
        allowed_token_ids=[A, B],
        logit_bias={A: 100.0},
        stop_token_ids=[A],
        min_new_tokens=4,
    )
    assert ids_of(response) == [B, B, B, B, A]
    assert finish_of(response) == ("STOP", A)


def test_v31_minimum_and_limit(engine: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"5.*4"):
        engine.generate_stream("x", min_new_tokens=5, max_new_tokens=4)
    options = {"min_new_tokens": 4, "max_new_tokens": 4}
    assert finish_of(engine.generate("x", **options)) == ("LENGTH", None)


def test_a_minimum_raises_the_default_and_must_fit(engine: Any) -> None:
    response = engine.generate("x", min_new_tokens=30, ignore_eos=True)
    assert len(ids_of(response)) == 30
    with pytest.raises(InvalidArgumentError, match=r"min_new_tokens is 10.* 5"):
        engine.generate_stream([5] * 123, min_new_tokens=10)


def test_v32_stop_strings_over_tokens(engine: Any) -> None:
    options = {"allowed_token_ids": [A], "stop_strings": ["aaa"]}
    for include, text in ((False, ""), (True, "aaa")):
        response = engine.generate("x", include_stop_strings=include, **options)
        assert (ids_of(response), response.text) == ([A] * 3, text)
        assert finish_of(response) == ("STOP", "aaa")


def test_v34_the_first_string_to_be_complete(engine: Any) -> None:
    response = engine.generate("x", allowed_token_ids=[A], stop_strings=["aaaa", "aa"])
    assert (len(ids_of(response)), finish_of(response)) == (2, ("STOP", "aa"))


def test_v36_what_was_held_back_comes_at_the_end(engine: Any) -> None:
    options = {"allowed_token_ids": [A], "stop_strings": ["aab"], "max_new_tokens": 6}
    chunks = list(engine.generate_stream("x", **options))
    assert [chunk.text for chunk in chunks[1:]] == ["", "", "a", "a", "a", "aaa"]
    assert finish_of(chunks[-1]) == ("LENGTH", None)


def test_stop_strings_wait_for_the_minimum(engine: Any) -> None:
    options = {"allowed_token_ids": [A], "stop_strings": ["aa"], "min_new_tokens": 3}
    response = engine.generate("x", **options)
    assert (ids_of(response), response.text) == ([A] * 4, "aa")


def test_a_string_beats_the_limit(engine: Any) -> None:
    options = {"allowed_token_ids": [A], "stop_strings": ["aa"], "max_new_tokens": 2}
    assert finish_of(engine.generate("x", **options)) == ("STOP", "aa")


def test_other_end_tokens_of_the_bundle_are_stop_ids(
    open_engine: Callable[..., Any], make_conformance_bundle: Callable[..., Any]
) -> None:
    ends = [{"token_ids": {"ids": [EOS]}}, {"token_ids": {"ids": [A]}}]
    engine = open_engine(make_conformance_bundle({"stop_tokens": ends}))
    info = engine.generate("x", allowed_token_ids=[A]).outputs[0].finish_info
    assert (info.stop_token_id, info.eos_token_id) == (A, None)


def test_an_id_that_is_eos_and_a_stop_is_eos(engine: Any) -> None:
    options = {"allowed_token_ids": [EOS], "stop_token_ids": [EOS]}
    info = engine.generate("x", **options).outputs[0].finish_info
    assert info.eos_token_id == EOS
    info = engine.generate("x", ignore_eos=True, **options).outputs[0].finish_info
    assert (info.eos_token_id, info.stop_token_id) == (None, EOS)


@pytest.mark.parametrize("count", [1025, 5000])
def test_too_many_stop_strings(engine: Any, count: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"stop_strings holds {count}"):
        engine.generate_stream("x", stop_strings=["x"] * count)
