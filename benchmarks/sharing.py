#!/usr/bin/env python3
"""What a known prompt saves, and what several answers to one prompt cost.

Each row pairs two ways to the same tokens on one engine, in turns:

- the first token of a prompt never seen before, and of the same prompt asked again;
- four single requests with seeds 0 to 3, and one request with num_sequences=4.

    benchmarks/sharing.py MODEL --prompt-tokens 1000 --rounds 5
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

sys.path.insert(0, str(ROOT))

from litert_lm import Backend, Engine  # noqa: E402

NUM_ANSWERS = 4
DRAWN = {"temperature": 1.0, "ignore_eos": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--prompt-tokens", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    backend = Backend.CPU(thread_count=arguments.threads)
    with Engine(arguments.model, backend) as engine:
        engine.generate(make_prompt(engine, arguments.prompt_tokens), max_new_tokens=2)
        print("| what | first | second | second / first |")
        print("| --- | --- | --- | --- |")
        pairs = [prefix_pair(engine, arguments) for _ in range(arguments.rounds)]
        step = statistics.median(step_seconds(engine, arguments) for _ in range(3))
        row("first token: new prompt, known prompt", pairs)
        row("the same without one decode step", [(a, b - step) for a, b in pairs])
        pairs = [answers_pair(engine, arguments) for _ in range(arguments.rounds)]
        row(f"{NUM_ANSWERS} single requests, num_sequences={NUM_ANSWERS}", pairs)


def make_prompt(engine: Engine, num_tokens: int) -> list[int]:
    """Ids of a prompt that no cache knows."""
    size = engine.tokenizer.vocab_size
    return [random.randrange(size // 2, size) for _ in range(num_tokens)]


def prefix_pair(engine: Engine, arguments: argparse.Namespace) -> tuple[float, float]:
    """Seconds to the first token of a prompt, and once more."""
    prompt = make_prompt(engine, arguments.prompt_tokens)

    def ask() -> None:
        engine.generate(prompt, max_new_tokens=1, temperature=0.0)

    return seconds(ask), seconds(ask)


def step_seconds(engine: Engine, arguments: argparse.Namespace) -> float:
    """Seconds of one decode step behind such a prompt."""
    prompt = make_prompt(engine, arguments.prompt_tokens)
    engine.generate(prompt, max_new_tokens=1)
    marks = [time.perf_counter()]
    options = {"max_new_tokens": 12, "temperature": 0.0, "ignore_eos": True}
    for _ in engine.generate_stream(prompt, **options):
        marks.append(time.perf_counter())
    gaps = [after - before for before, after in pairwise(marks)]
    return statistics.median(gaps[3:])


def answers_pair(engine: Engine, arguments: argparse.Namespace) -> tuple[float, float]:
    """Seconds of four answers one by one, and of the same four at once."""
    prompt = make_prompt(engine, arguments.prompt_tokens)
    options = {"max_new_tokens": arguments.new_tokens, **DRAWN}

    def one_by_one() -> None:
        for seed in range(NUM_ANSWERS):
            engine.generate(prompt, seed=seed, bypass_prefix_cache=True, **options)

    def at_once() -> None:
        engine.generate(
            prompt,
            seed=0,
            num_sequences=NUM_ANSWERS,
            bypass_prefix_cache=True,
            **options,
        )

    return seconds(one_by_one), seconds(at_once)


def seconds(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def row(what: str, pairs: list[tuple[float, float]]) -> None:
    """Medians in ms, and the median of the paired ratios."""
    first, second = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
    ratio = statistics.median(after / before for before, after in pairs)
    print(f"| {what} | {first:.1f} ms | {second:.1f} ms | {ratio:.3f} |")


if __name__ == "__main__":
    main()
