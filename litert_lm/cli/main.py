"""The command line's entry: reads the arguments, runs one verb, maps errors."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from litert_lm import __version__
from litert_lm.cli import (
    bench,
    chat,
    convert,
    list_models,
    pull,
    rm,
    run,
    serve,
    show,
    ui,
)
from litert_lm.errors import (
    ConversionError,
    DownloadError,
    InvalidArgumentError,
    LiteRtLmError,
    MissingExtraError,
    ModelFileError,
    ModelNotFoundError,
    UnsupportedModelError,
)

__all__ = ["build_parser", "main"]

_VERBS = (run, chat, serve, pull, list_models, show, rm, convert, bench)

#: The first class that fits gives the exit code.
_EXIT_CODES: tuple[tuple[type[LiteRtLmError], int], ...] = (
    (ModelNotFoundError, 3),
    (ModelFileError, 4),
    (UnsupportedModelError, 4),
    (ConversionError, 4),
    (DownloadError, 5),
    (MissingExtraError, 1),
    (InvalidArgumentError, 2),
    (LiteRtLmError, 1),
)
_INTERRUPTED = 128 + signal.SIGINT
_READER_GONE = 141  # what a shell reports for a program that SIGPIPE ended

_EPILOG = """\
MODEL is the name of a stored model or recipe, a path, https://ADDRESS,
hf:ORG/REPO[/FILE] or pypi:PACKAGE[==VERSION].

Models are kept below $LITERT_LM_HOME, by default $XDG_DATA_HOME/litert_lm.

exit codes:
  0  done                         4  model file damaged or not supported
  1  failed while running         5  download failed
  2  wrong usage or argument    130  stopped by Ctrl-C
  3  model not found            141  the reader of the output went away
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all verbs; imports nothing of the runtime."""
    parser = argparse.ArgumentParser(
        prog="litert-lm",
        description="Run .litertlm language models.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in _VERBS:
        verb.add_parser(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: the arguments without the program's name; None takes them from sys.argv.
    """
    ui.prepare_streams()
    args = build_parser().parse_args(argv)
    try:
        with _second_interrupt_kills():
            code: int = args.run(args)
            ui.flush()
        return code
    except LiteRtLmError as error:
        if os.environ.get("LITERT_LM_DEBUG"):
            raise
        ui.error(str(error))
        return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
    except KeyboardInterrupt:
        ui.note("")
        return _INTERRUPTED
    except BrokenPipeError:
        ui.silence_stdout()
        return _READER_GONE


@contextmanager
def _second_interrupt_kills() -> Iterator[None]:
    """Turn the first Ctrl-C into KeyboardInterrupt and let the next end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
