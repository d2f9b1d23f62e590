"""Several answers of one request share decode steps where the model has such a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litert_lm.convert import convert
from tests.convert.toys import Toy, write_folder

FREE = {"max_new_tokens": 20, "temperature": 1.5, "seed": 4, "ignore_eos": True}


@pytest.fixture
def converted(open_engine: Callable[..., Any], tmp_path: Path) -> Any:
    source = write_folder(tmp_path / "toy", Toy())
    convert(source, tmp_path / "toy.litertlm", weights="f32")
    engine = open_engine(tmp_path / "toy.litertlm")
    if not engine.executor.max_batch:
        pytest.skip("sums of several rows are rounded in another way here")
    return engine


@pytest.mark.parametrize("count", [2, 4, 6])
def test_answers_are_those_of_single_requests(converted: Any, count: int) -> None:
    outputs = converted.generate([5, 6, 7], num_sequences=count, **FREE).outputs
    for index, output in enumerate(outputs):
        single = converted.generate([5, 6, 7], **FREE | {"seed": 4 + index})
        assert single.outputs[0].token_ids == output.token_ids


def test_steps_are_shared(converted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    executor = converted.executor
    each = executor.decode_each
    monkeypatch.setattr(
        executor,
        "decode_each",
        lambda *given: sizes.append(len(given[0])) or each(*given),
    )
    converted.generate([5, 6, 7], num_sequences=3, **FREE)
    assert sizes == [3] * 20


def test_answers_with_forced_tokens_go_their_own_ways(converted: Any) -> None:
    pytest.importorskip("llguidance")
    options = FREE | {"choice": ["abcab", "abx", "b"], "ignore_eos": False}
    outputs = converted.generate([5, 6, 7], num_sequences=4, **options).outputs
    for index, output in enumerate(outputs):
        single = converted.generate([5, 6, 7], **options | {"seed": 4 + index})
        assert single.outputs[0].token_ids == output.token_ids
        assert output.text in options["choice"]
