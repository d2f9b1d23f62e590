"""What else runs does not change an answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from litert_lm.convert import convert
from tests.convert.toys import Toy, write_folder

RING = {"layers": ("local", "global"), "ring": 8}
RECURRENT = {"layers": ("linear", "global")}
LENGTHS = (1, 2, 9, 20, 33, 40, 57, 70)


@pytest.fixture(
    params=["llama", "ring", "recurrent", "echo", "int8", "f32", "official"]
)
def engine(request: Any, open_engine: Callable[..., Any], tmp_path: Path) -> Any:
    name = request.param
    if name == "llama":
        return open_engine(request.getfixturevalue("toy_llama_bundle"))
    if name == "official":
        shared = request.getfixturevalue("shared_dir")
        return open_engine(shared / "bundles" / "smollm2-135m-int8.litertlm")
    if name == "echo":
        make = request.getfixturevalue("make_echo_bundle")
        return open_engine(make(mask=None, kv_length=2048, prefill=(8, 32)))
    if name in ("int8", "f32"):
        source = write_folder(tmp_path / "toy", Toy())
        convert(source, tmp_path / "toy.litertlm", weights=name)
        return open_engine(tmp_path / "toy.litertlm")
    make = request.getfixturevalue("make_hybrid_bundle")
    return open_engine(make(**(RING if name == "ring" else RECURRENT)))


def answer(
    engine: Any, number: int, *, bypass_prefix_cache: bool = False
) -> tuple[int, ...]:
    """A seeded answer to a prompt of its own length."""
    chance = random.Random(number)
    size = engine.executor.vocab_size
    prompt = [chance.randrange(3, size) for _ in range(LENGTHS[number % 8])]
    with engine.create_session() as session:
        outputs = session.generate(
            prompt,
            max_new_tokens=8,
            ignore_eos=True,
            temperature=1.0,
            seed=number + 1,
            bypass_prefix_cache=bypass_prefix_cache,
        ).outputs
    found: tuple[int, ...] = outputs[0].token_ids
    return found


def disturb(engine: Any, number: int) -> None:
    """Answers that are cancelled after a few tokens."""
    for count in range(3):
        session = engine.create_session()
        stream = session.generate_stream([5 + number] * (30 * count + 1), seed=1)
        for _ in zip(range(count + 2), stream, strict=False):
            pass
        stream.close()
        session.close()


def test_answers_are_the_same_alone_and_among_others(engine: Any) -> None:
    expected = [answer(engine, n, bypass_prefix_cache=True) for n in range(8)]
    with ThreadPoolExecutor(11) as pool:
        others = [pool.submit(disturb, engine, number) for number in range(3)]
        cold = list(pool.map(lambda number: answer(engine, number), range(8)))
        warm = list(pool.map(lambda number: answer(engine, number), range(8)))
        for other in others:
            other.result()
    assert cold == expected
    assert warm == expected
