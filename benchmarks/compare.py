"""Speed, load time and memory beside the official runtime, on the same file.

Each round has fresh processes, and a pair of measurements is made one right after the
other, so that what else a machine does slows both; what counts is the median of the
pairs' ratios. Weight caches are warm, imports not counted.

    python benchmarks/compare.py MODEL.litertlm [--own CONVERTED.litertlm]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from peers import OFFICIAL, OURS, Environment

from litert_lm.bench.machine import Machine

_PREFILL = "prefill_tokens_per_s"
_DECODE = "decode_tokens_per_s"
_LOAD = "load_s"
_MEMORY = "peak_rss_bytes"

#: Scenario -> what it measures.
_SCENARIOS = {"speed": (_DECODE, _PREFILL), "load": (_LOAD,), "memory": (_MEMORY,)}

#: Measure -> words, unit, factor into the unit.
_WORDS = {
    _DECODE: ("decode at a short context", "tokens/s", 1.0),
    _PREFILL: ("prefill", "tokens/s", 1.0),
    _LOAD: ("load to first token", "ms", 1e3),
    _MEMORY: ("peak memory", "MB", 1e-6),
}

_LOG: dict[str, Any] = {"file": sys.stderr, "flush": True}


@dataclass(frozen=True)
class Contender:
    """Our runtime over a file, and what it is to reach beside the official one.

    Attributes:
        name: in the table.
        model: path of the file.
        options: of our CPU backend.
        bars: (measure, threads) -> least ratio, or most for load and memory; threads
            0 stands for any number.
        scenarios: what is run.
    """

    name: str
    model: str
    options: dict[str, Any]
    bars: dict[tuple[str, int], float]
    scenarios: Sequence[str] = tuple(_SCENARIOS)


@dataclass(frozen=True)
class Line:
    """One line of the table: a measure in all pairs, by both peers."""

    contender: str
    measure: str
    threads: int
    official: list[float]
    ours: list[float]
    bar: float | None

    @property
    def ratios(self) -> list[float]:
        """Ours to official, pair by pair."""
        return [
            ours / official
            for ours, official in zip(self.ours, self.official, strict=True)
        ]

    @property
    def is_met(self) -> bool | None:
        """Whether the median ratio reaches the bar; None without a bar."""
        if self.bar is None:
            return None
        ratio = median(self.ratios)
        small_is_good = self.measure in (_LOAD, _MEMORY)
        return ratio <= self.bar if small_is_good else ratio >= self.bar


def main() -> None:
    """Measure and print."""
    args = _arguments()
    environments = [Environment(peer, args.folder) for peer in (OFFICIAL, OURS)]
    lines: list[Line] = []
    for contender in _contenders(args):
        for threads in args.threads:
            for line in _measure(environments, contender, threads, args):
                print(f"{_WORDS[line.measure][0]}: {median(line.ratios):.2f}", **_LOG)
                lines.append(line)
    if args.output == "json":
        print(json.dumps(_as_json(lines), indent=2))
    else:
        print("\n".join(_markdown(lines)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a file that both peers run")
    parser.add_argument("--own", type=Path, help="the same weights as we convert them")
    parser.add_argument(
        "--threads", type=_counts, default=(1, 2), help="comma list (default: 1,2)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds, in fresh processes (default: 5)"
    )
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument(
        "--short-prompt-tokens",
        type=int,
        default=64,
        help="context that decoding begins with (default: 64)",
    )
    parser.add_argument(
        "--repetitions",
        type=int,
        default=3,
        help="pairs of speeds in one round (default: 3)",
    )
    parser.add_argument(
        "--scenarios",
        type=lambda text: tuple(text.split(",")),
        default=tuple(_SCENARIOS),
        help=f"comma list (default: {','.join(_SCENARIOS)})",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=_default_folder(),
        help="where environments and caches are kept (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", choices=("md", "json"), default="md")
    return parser.parse_args()


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "litert_lm_benchmarks"


def _contenders(args: argparse.Namespace) -> Iterator[Contender]:
    yield Contender(
        "same file",
        str(args.model.resolve()),
        {},
        {(_DECODE, 0): 1.5, (_PREFILL, 0): 1.5, (_LOAD, 0): 0.8, (_MEMORY, 0): 0.8},
    )
    if args.own is None:
        return
    yield Contender(
        "own conversion",
        str(args.own.resolve()),
        {},
        {(_DECODE, 1): 1.8, (_DECODE, 2): 2.0, (_PREFILL, 0): 1.8},
    )
    yield Contender(
        "own conversion, huge pages",
        str(args.own.resolve()),
        {"huge_pages": True},
        {(_DECODE, 0): 2.2},
        ("speed", "memory"),
    )


def _measure(
    environments: Sequence[Environment],
    contender: Contender,
    threads: int,
    args: argparse.Namespace,
) -> Iterator[Line]:
    """Lines of a contender with one number of threads."""
    for scenario in contender.scenarios:
        if scenario not in args.scenarios:
            continue
        jobs = _jobs(environments, contender, threads, scenario, args)
        do = _take_turns if scenario == "speed" else _one_by_one
        answers: list[list[dict[str, float]]] = [[] for _ in jobs]
        for number in range(args.rounds + 1):
            _note(contender, threads, scenario, number, args.rounds)
            for column, found in zip(answers, do(jobs, args.repetitions), strict=True):
                # The first round fills the caches.
                column.extend(found if number else ())
        for measure in _SCENARIOS[scenario]:
            official, ours = (
                [answer[measure] for answer in column if measure in answer]
                for column in answers
            )
            bar = contender.bars.get((measure, threads))
            bar = contender.bars.get((measure, 0)) if bar is None else bar
            yield Line(contender.name, measure, threads, official, ours, bar)


_Jobs = Sequence[tuple[Environment, dict[str, Any]]]


def _one_by_one(jobs: _Jobs, repetitions: int) -> list[list[dict[str, float]]]:
    """The only answer of each worker; the next one begins when one has ended.

    `repetitions` is for workers that can be asked again.
    """
    found = []
    for environment, job in jobs:
        with environment.worker(job) as worker:
            found.append([worker.answer()])
    return found


def _take_turns(jobs: _Jobs, repetitions: int) -> list[list[dict[str, float]]]:
    """Answers of workers that live at the same time and measure in turns."""
    found: list[list[dict[str, float]]] = [[] for _ in jobs]
    with ExitStack() as stack:
        workers = []
        for environment, job in jobs:
            workers.append(stack.enter_context(environment.worker(job)))
            workers[-1].answer()  # it is warm
        for _ in range(repetitions):
            for question in ("prefill", "decode"):
                for worker, column in zip(workers, found, strict=True):
                    column.append(worker.ask(question))
    return found


def _jobs(
    environments: Sequence[Environment],
    contender: Contender,
    threads: int,
    scenario: str,
    args: argparse.Namespace,
) -> _Jobs:
    """What the official runtime does, and what ours."""
    official, ours = environments
    jobs = [
        (official, _job(args, scenario, str(args.model.resolve()), threads, {})),
        (ours, _job(args, scenario, contender.model, threads, contender.options)),
    ]
    if scenario == "speed":
        for environment, job in jobs:
            job["engine_options"] = dict(environment.peer.speed_options)
    return jobs


def _job(
    args: argparse.Namespace,
    scenario: str,
    model: str,
    threads: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    return {
        "scenario": scenario,
        "model": model,
        "threads": threads,
        "options": options,
        "engine_options": {},
        "prompt_tokens": args.prompt_tokens,
        "new_tokens": args.new_tokens,
        "short_prompt_tokens": args.short_prompt_tokens,
    }


def _note(
    contender: Contender, threads: int, scenario: str, number: int, rounds: int
) -> None:
    what = f"round {number} of {rounds}" if number else "warm-up"
    print(f"{contender.name}, {threads} threads, {scenario}: {what}", **_LOG)


def _markdown(lines: Sequence[Line]) -> Iterator[str]:
    yield Machine.this().line()
    yield f"official: {OFFICIAL.requirements[0]}; medians of {len(lines[0].ours)} pairs"
    yield ""
    yield "| | threads | unit | official | ours | ratio | least..most | bar | met |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | --- | ---: | --- |"
    for line in lines:
        words, unit, factor = _WORDS[line.measure]
        ratios = line.ratios
        met = {None: "", True: "yes", False: "no"}[line.is_met]
        yield (
            f"| {line.contender}: {words} | {line.threads} | {unit}"
            f" | {median(line.official) * factor:.1f}"
            f" | {median(line.ours) * factor:.1f}"
            f" | {median(ratios):.2f} | {min(ratios):.2f}..{max(ratios):.2f}"
            f" | {'' if line.bar is None else line.bar} | {met} |"
        )


def _as_json(lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "machine": asdict(Machine.this()),
        "official": OFFICIAL.requirements[0],
        "lines": [
            asdict(line)
            | {
                "ratios": line.ratios,
                "ratio_median": median(line.ratios),
                "is_met": line.is_met,
            }
            for line in lines
        ],
    }


if __name__ == "__main__":
    main()
