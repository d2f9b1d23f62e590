"""The same conversations through this runtime as through the official one.

What the official runtime 0.18.1 answered lies in tests/data; scripts/record-official
records it again. Where conversations here mean to differ, `differences` says how.
"""

from __future__ import annotations

import json

import pytest

import litert_lm
from tests.conversation.differences import DIFFERENT, ERROR, RECORDED, SAME
from tests.fixtures.chat_cases import CHAT_CASES
from tests.fixtures.play_chat import play_chat

BY_NAME = {case["name"]: case for case in CHAT_CASES}
EQUAL = [name for name in BY_NAME if name not in DIFFERENT]


@pytest.fixture
def answers(make_echo_bundle, cache_dir, quick_first_load):
    """answers(name): what this runtime answers to a case, as JSON keeps it."""

    def ask(name):
        case = BY_NAME[name]
        path = make_echo_bundle(case["metadata"], **case["options"])
        given = play_chat(litert_lm, path, case, cache_dir=str(cache_dir))
        return comparable(json.loads(json.dumps(given)))

    return ask


def comparable(answers):
    """Answers without the words of errors."""
    return [
        ERROR if isinstance(each, dict) and "error" in each else each
        for each in answers
    ]


def test_every_case_is_recorded():
    assert list(RECORDED) == list(BY_NAME)
    assert set(DIFFERENT) <= set(BY_NAME)


@pytest.mark.parametrize("name", EQUAL)
def test_equal_to_the_official_runtime(answers, name):
    assert answers(name) == comparable(RECORDED[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_deliberate_differences(answers, name):
    official = comparable(RECORDED[name])
    expected = [
        official[place] if each == SAME else each
        for place, each in enumerate(DIFFERENT[name])
    ]
    assert expected != official, "no difference any more"
    assert answers(name) == expected
