"""`litert-lm bench`: how fast a model runs on this machine."""

from __future__ import annotations

import argparse
from typing import Any

from litert_lm.cli import ui

__all__ = ["add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "bench",
        help="measure speed, load time and memory",
        description="Measure a model: pp512 reads a prompt of 512 tokens, tg128"
        " generates 128, each behind what -d puts into the context. The first run of"
        " each test is not counted.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    for flag, name, default, text in (
        ("-p", "--prompt-tokens", "512", "tokens of a prompt; 0 leaves the test out"),
        ("-n", "--new-tokens", "128", "tokens to generate; 0 leaves the test out"),
        ("-d", "--depth", "0", "tokens in the context before a test"),
    ):
        parser.add_argument(
            flag,
            name,
            type=_counts,
            default=default,
            metavar="N[,N...]",
            help=f"{text} (default: {default})",
        )
    parser.add_argument(
        "-r",
        "--repetitions",
        type=int,
        default=5,
        metavar="N",
        help="runs of each test (default: 5)",
    )
    parser.add_argument(
        "-t", "--threads", type=int, metavar="N", help="CPU threads (default: fastest)"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("md", "json", "csv"),
        default="md",
        help="form of the result (default: md)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure one model, print the result."""
    from litert_lm.bench.runner import BenchOptions, run_bench
    from litert_lm.hub.resolve import resolve_model

    options = BenchOptions(
        prompt_lengths=tuple(filter(None, args.prompt_tokens)),
        decode_lengths=tuple(filter(None, args.new_tokens)),
        depths=args.depth,
        repetitions=args.repetitions,
        num_threads=args.threads,
    )
    with ui.progress() as progress:
        path = resolve_model(args.model, progress=progress)
        result = run_bench(path, options, progress)
    from litert_lm.bench import report

    if args.output == "json":
        ui.out_json(report.to_json(result))
    else:
        write = report.to_csv if args.output == "csv" else report.to_markdown
        for line in write(result).splitlines():
            ui.out(line)
    return 0


def _counts(text: str) -> tuple[int, ...]:
    """The numbers of a comma list."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number and no list like 128,512."
        ) from None
