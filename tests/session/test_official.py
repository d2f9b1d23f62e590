"""The same bundles and calls through this runtime as through the official one.

What the official runtime 0.18.1 answered lies in tests/data; scripts/record-official
records it again. Where this runtime means to differ, `differences` says how.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import litert_lm
from tests.fixtures.cases import CASES
from tests.fixtures.play import play
from tests.session.differences import DIFFERENT, ERROR, SAMPLED

RECORD = Path(__file__).resolve().parents[1] / "data" / "official-0.18.1.json"
RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))
BY_NAME = {case["name"]: case for case in CASES}
EQUAL = [name for name in BY_NAME if name not in DIFFERENT and name not in SAMPLED]


@pytest.fixture
def answers(make_echo_bundle, cache_dir, quick_first_load):
    """answers(name): what this runtime answers to a case."""

    def ask(name):
        case = BY_NAME[name]
        path = make_echo_bundle(case["metadata"], **case["options"])
        return play(litert_lm, path, case, cache_dir=str(cache_dir))

    return ask


def comparable(answers):
    """Answers without the words of errors, scores to float32's precision."""
    return [_comparable(answer) for answer in answers]


def _comparable(answer):
    if not isinstance(answer, dict):
        return answer
    if "error" in answer:
        return ERROR
    scores = [[round(score, 4) for score in each] for each in answer["token_scores"]]
    total = [round(score, 4) for score in answer["scores"]]
    return answer | {"scores": total, "token_scores": scores}


def test_every_case_is_recorded():
    assert list(RECORDED) == list(BY_NAME)
    assert {*DIFFERENT, *SAMPLED} <= set(BY_NAME)


@pytest.mark.parametrize("name", EQUAL)
def test_equal_to_the_official_runtime(answers, name):
    assert comparable(answers(name)) == comparable(RECORDED[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_deliberate_differences(answers, name):
    expected = comparable(DIFFERENT[name])
    assert expected != comparable(RECORDED[name]), "no difference any more"
    assert comparable(answers(name)) == expected


@pytest.mark.parametrize("name", SAMPLED)
def test_a_partly_filled_sampler_takes_the_rest_from_elsewhere(answers, name):
    *_, text = answers(name)
    assert len(text) == 12
    assert len(set(text)) > 1
