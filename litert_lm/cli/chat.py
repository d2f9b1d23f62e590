"""`litert-lm chat`: a conversation in a terminal, or a message per line of a pipe."""

from __future__ import annotations

import argparse
from typing import Any

from litert_lm.cli import ui
from litert_lm.cli.interrupts import on_interrupt, raise_interrupt
from litert_lm.cli.lines import is_typed, piped_lines, typed_line
from litert_lm.cli.options import add_sampling_options, add_threads_option
from litert_lm.cli.talk import HELP, Talk
from litert_lm.errors import InvalidArgumentError

__all__ = ["add_parser", "run"]

_MARK = "> "
_LEAVING = "Ctrl-C again or Ctrl-D leaves, /help lists the commands."


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "chat",
        help="hold a conversation",
        description="Hold a conversation. From a pipe each line is a message, and an"
        " empty line comes between two answers.",
        epilog=f"commands:\n{HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told first")
    add_sampling_options(parser)
    parser.add_argument(
        "--context-overflow",
        choices=("error", "drop_oldest"),
        default="error",
        help="refuse a message that does not fit, or forget the oldest ones for it"
        " (default: error)",
    )
    add_threads_option(parser)
    parser.add_argument(
        "--stats",
        action="store_true",
        help="end each answer with a line of figures on stderr",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load the model, and answer until there is nothing more to answer."""
    from litert_lm.config import Backend
    from litert_lm.engine import Engine
    from litert_lm.hub.resolve import resolve_model

    with ui.progress() as progress:
        path = resolve_model(args.model, progress=progress)
    with ui.progress(in_logs=False) as progress:
        progress("Loading the model", 0.0)
        backend = Backend.CPU(thread_count=args.threads)
        engine = Engine(str(path), backend=backend, progress=progress)
    with engine:
        talk = _talk(engine, args)
        return _typed(talk) if talk.is_typed else _piped(talk)


def _talk(engine: Any, args: argparse.Namespace) -> Talk:
    from litert_lm.config import SamplerConfig

    return Talk(
        engine,
        sampler_config=SamplerConfig(
            top_k=args.top_k,
            top_p=args.top_p,
            temperature=args.temperature,
            seed=args.seed,
        ),
        settings={
            "max_output_tokens": args.max_new_tokens,
            "context_overflow": args.context_overflow,
        },
        system=args.system,
        has_stats=args.stats,
        is_typed=is_typed(),
    )


def _typed(talk: Talk) -> int:
    """Until somebody leaves. Two Ctrl-C without a line between them leave as well."""
    with on_interrupt(raise_interrupt):
        while True:
            try:
                if not _take_typed(talk):
                    return 0
            except KeyboardInterrupt:
                if talk.was_interrupted:
                    raise
                talk.was_interrupted = True
                ui.note(f"\n{_LEAVING}")


def _take_typed(talk: Talk) -> bool:
    try:
        line = typed_line(_MARK)
    except InvalidArgumentError as error:
        ui.error(str(error))
        return True
    if line is None:
        ui.note("")
        return False
    return talk.take(line)


def _piped(talk: Talk) -> int:
    """All lines; the exit code tells whether one of them failed."""
    for line in piped_lines():
        if not talk.take(line):
            break
    return 1 if talk.has_failed else 0
