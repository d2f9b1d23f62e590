"""`litert-lm run`: one prompt, one answer, streamed."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from litert_lm.cli import ui
from litert_lm.cli.options import add_sampling_options, add_threads_option
from litert_lm.errors import InvalidArgumentError

if TYPE_CHECKING:
    from litert_lm.engine import Engine
    from litert_lm.generate.response import FinishReason, GenerateResponse
    from litert_lm.session import Session

__all__ = ["add_parser", "run"]

_MAX_STDIN_BYTES = 16 << 20


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "run",
        help="answer one prompt",
        description="Answer one prompt. Text from a pipe or file on standard input"
        " comes before PROMPT, with a blank line between them.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", help="what to answer")
    parser.add_argument(
        "--no-template",
        action="store_true",
        help="give the prompt to the model as it is, without chat template",
    )
    add_sampling_options(parser)
    parser.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="end the answer before this text; can be given several times",
    )
    add_threads_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="end with a line of figures on stderr even when that is no terminal",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load the model, print its answer."""
    from litert_lm.hub.resolve import resolve_model

    prompt = _prompt(args.prompt)
    with ui.progress() as progress:
        path = resolve_model(args.model, progress=progress)
    answer = _answer(args, str(path), prompt)
    if args.json:
        ui.out_json(answer.as_json(args.model), indent=None)
    if args.stats or (ui.wants_extras() and not args.json):
        ui.note(answer.stats())
    return 0


@dataclass
class _Answer:
    """What came of the prompt, and when."""

    start_s: float
    text: str = ""
    num_prompt_tokens: int = 0
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    loaded_s: float = 0.0
    first_s: float | None = None
    last_s: float = 0.0

    def add(self, chunk: GenerateResponse) -> None:
        """Take in the news of one chunk."""
        now_s = time.monotonic()
        if chunk.prompt_info is not None:
            self.num_prompt_tokens = chunk.prompt_info.num_prompt_tokens
        for output in chunk.outputs:
            if output.token_ids and self.first_s is None:
                self.first_s = now_s
            self.last_s = now_s
            self.text += output.text
            self.token_ids.extend(output.token_ids)
        self.finish_reason = chunk.finish_reason

    @property
    def tokens_per_second(self) -> float:
        """Decode speed: the first token's time is that of the prompt."""
        num_steps = len(self.token_ids) - 1
        if self.first_s is None or num_steps < 1 or self.last_s <= self.first_s:
            return 0.0
        return num_steps / (self.last_s - self.first_s)

    @property
    def first_token_s(self) -> float:
        """Seconds from the start of loading to the first token."""
        return (self.first_s or self.last_s) - self.start_s

    def stats(self) -> str:
        """The line of figures."""
        reason = self.finish_reason
        cut = ", cut off by the limit" if reason and reason.name == "LENGTH" else ""
        return (
            f"{self.num_prompt_tokens} prompt tokens, {len(self.token_ids)} new tokens,"
            f" {self.tokens_per_second:.1f} tokens/s, first token after"
            f" {self.first_token_s:.2f} s{cut}"
        )

    def as_json(self, model: str) -> dict[str, object]:
        """The answer and its figures."""
        reason = self.finish_reason
        return {
            "model": model,
            "text": self.text,
            "token_ids": self.token_ids,
            "finish_reason": reason.name if reason is not None else None,
            "num_prompt_tokens": self.num_prompt_tokens,
            "num_output_tokens": len(self.token_ids),
            "tokens_per_second": round(self.tokens_per_second, 2),
            "load_s": round(self.loaded_s - self.start_s, 3),
            "first_token_s": round(self.first_token_s, 3),
        }


def _answer(args: argparse.Namespace, path: str, prompt: str) -> _Answer:
    from litert_lm.config import Backend
    from litert_lm.engine import Engine

    answer = _Answer(time.monotonic())
    with ui.progress(in_logs=False) as progress:
        progress("Loading the model", 0.0)
        engine = Engine(
            path, backend=Backend.CPU(thread_count=args.threads), progress=progress
        )
    with engine:
        answer.loaded_s = time.monotonic()
        session, text = _session(engine, prompt, args.no_template)
        with session:
            _stream(session, text, _options(args, engine), answer, show=not args.json)
    return answer


def _session(engine: Engine, prompt: str, no_template: bool) -> tuple[Session, str]:
    """A session, and the prompt in the form that the session takes."""
    template = engine.config.jinja_template
    if no_template or template is None:
        return engine.create_session(apply_prompt_template=not no_template), prompt
    from litert_lm.chat.template import render

    text = render(template, [{"role": "user", "content": prompt}])
    return engine.create_session(apply_prompt_template=False), text


def _stream(
    session: Session, prompt: str, options: dict[str, Any], answer: _Answer, show: bool
) -> None:
    with ui.progress(in_logs=False) as progress:
        session.prefill_progress = lambda done, total: progress(
            "Reading the prompt", done / max(total, 1)
        )
        chunks = session.generate_stream(prompt, **options)
        answer.add(next(chunks))
    for chunk in chunks:
        answer.add(chunk)
        if show:
            ui.stream(chunk.text)
    if show and not answer.text.endswith("\n"):
        ui.stream("\n")


def _options(args: argparse.Namespace, engine: Engine) -> dict[str, Any]:
    """The options that were given, under the names of `generate_stream`."""
    limit = args.max_new_tokens
    return {
        "max_new_tokens": engine.executor.context_length if limit is None else limit,
        "temperature": args.temperature,
        "top_k": args.top_k,
        "top_p": args.top_p,
        "seed": args.seed,
        "stop_strings": args.stop,
    }


def _prompt(argument: str | None) -> str:
    """Standard input, unless it is a terminal, and the argument after it."""
    parts = [part for part in (_stdin(), argument) if part]
    if not parts:
        raise InvalidArgumentError(
            'There is no prompt. Give one: litert-lm run MODEL "PROMPT"'
        )
    return "\n\n".join(parts)


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
    if len(data) > _MAX_STDIN_BYTES:
        raise InvalidArgumentError(
            f"Standard input has more than {_MAX_STDIN_BYTES >> 20} MB, too much for"
            " a prompt."
        )
    try:
        return data.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"Standard input is not UTF-8 text (byte {error.start})."
        ) from error
