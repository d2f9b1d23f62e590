"""A conversation that is talked with on standard input and output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from litert_lm.cli import ui
from litert_lm.cli.interrupts import on_interrupt
from litert_lm.errors import InvalidArgumentError, LiteRtLmError, shown

if TYPE_CHECKING:
    from litert_lm.chat.messages import Message
    from litert_lm.conversation.conversation import Conversation
    from litert_lm.conversation.reply_stream import ReplyStream
    from litert_lm.engine import Engine

__all__ = ["HELP", "Talk"]

HELP = """\
/clear          forget what was said; the system message stays
/system TEXT    tell the model TEXT first; without TEXT show what it is told
/save PATH      write the conversation into a file
/load PATH      go on with a conversation from a file
/help           show this
/exit           leave, as Ctrl-D does
//TEXT          say /TEXT
On a terminal Ctrl-C ends the answer that is running."""


class Talk:
    """Takes lines: messages, which it has answered, and commands.

    Args:
        engine: the model.
        sampler_config, settings: arguments of its conversations.
        system: what the model is told first.
        has_stats: end each answer with a line of figures.
        is_typed: somebody types, and ends answers by Ctrl-C; else an empty line comes
            between two answers.

    Attributes:
        has_failed: some line led to an error.
        was_interrupted: the last line's answer was ended by Ctrl-C.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        sampler_config: Any,
        settings: dict[str, Any],
        system: str | None,
        has_stats: bool,
        is_typed: bool,
    ) -> None:
        self._engine = engine
        self._sampler_config = sampler_config
        self._settings = settings
        self._has_stats = has_stats
        self.is_typed = is_typed
        self._between = ""  # what comes before the next answer
        self.has_failed = False
        self.was_interrupted = False
        self._conversation = self._begin([], system)
        self._commands: dict[str, Callable[[str], None]] = {
            "clear": self._clear,
            "system": self._system,
            "save": self._save,
            "load": self._load,
            "help": self._help,
        }

    def take(self, line: str) -> bool:
        """Do what a line says; errors are shown. False when it says to leave."""
        self.was_interrupted = False
        if not line.strip():
            return True
        if not line.startswith("/") or line.startswith("//"):
            self._answer(line.removeprefix("/"))
            return True
        name, _, argument = line[1:].strip().partition(" ")
        if name == "exit":
            return False
        try:
            self._command(name)(argument.strip())
        except LiteRtLmError as error:
            self._fail(error)
        return True

    def close(self) -> None:
        """Free the conversation."""
        self._conversation.close()

    def _command(self, name: str) -> Callable[[str], None]:
        if name not in self._commands:
            raise InvalidArgumentError(
                f"There is no command {shown('/' + name)}; /help lists them, and "
                "//TEXT says /TEXT."
            )
        return self._commands[name]

    def _fail(self, error: LiteRtLmError) -> None:
        self.has_failed = True
        ui.error(str(error))

    def _answer(self, text: str) -> None:
        said = ""
        with on_interrupt(self._interrupt) if self.is_typed else nullcontext():
            try:
                stream = self._conversation.send_message_async(text)
            except LiteRtLmError as error:
                self._fail(error)
                return
            for delta in self._deltas(stream):
                said += self._show(delta, is_first=not said)
        if stream.message is not None and not said.endswith("\n"):
            ui.stream("\n" if said else f"{self._between}\n")
        self._between = self._between or ("" if self.is_typed else "\n")
        self._note_end(stream)

    def _interrupt(self) -> None:
        self.was_interrupted = True
        self._conversation.cancel_process()

    def _deltas(self, stream: ReplyStream) -> Iterator[Message]:
        """The deltas, up to an error of the model, which is shown."""
        with ui.progress(in_logs=False) as progress:
            self._conversation.prefill_progress = lambda done, total: progress(
                "Reading", done / max(total, 1)
            )
            try:
                for delta in stream:
                    progress.close()
                    yield delta
            except LiteRtLmError as error:
                self._fail(error)

    def _show(self, delta: Message, is_first: bool) -> str:
        """Print a delta; gives what it adds to the answer."""
        thoughts = "".join(delta.channels.values())
        if thoughts and ui.wants_extras():
            ui.aside(thoughts)
        text = str(delta)
        if text:
            ui.stream(self._between + text if is_first else text)
        return text

    def _note_end(self, stream: ReplyStream) -> None:
        info = stream.info
        if info is None:
            return
        if self.was_interrupted:
            end = "stopped"
        elif info.finish_reason.name == "LENGTH":
            end = "cut off by the limit"
        else:
            end = ""
        if self._has_stats:
            times = self._conversation.get_benchmark_info()
            ui.note(
                f"{info.num_prefill_tokens} of {info.num_context_tokens} prompt tokens"
                f" read, {info.num_output_tokens} new tokens,"
                f" {times.last_decode_tokens_per_second:.1f} tokens/s"
                + (end and f", {end}")
            )
        elif end and ui.wants_extras():
            ui.note(f"({end})")

    def _begin(self, history: list[Any], system: str | None) -> Conversation:
        return self._engine.create_conversation(
            messages=history,
            system_message=system,
            sampler_config=self._sampler_config,
            **self._settings,
        )

    def _go_on_with(self, conversation: Conversation) -> None:
        self._conversation.close()
        self._conversation = conversation

    def _split(self) -> tuple[list[Any], list[Any]]:
        """The system message, if there is one, and what was said."""
        messages = list(self._conversation.messages)
        count = 1 if messages and messages[0].get("role") == "system" else 0
        return messages[:count], messages[count:]

    def _clear(self, argument: str) -> None:
        first, _ = self._split()
        self._go_on_with(self._begin(first, None))

    def _system(self, text: str) -> None:
        first, said = self._split()
        if text:
            self._go_on_with(self._begin(said, text))
            return
        from litert_lm.chat.messages import Message

        told = [str(Message.from_json(message)) for message in first]
        ui.note("".join(told) or "There is no system message; /system TEXT sets one.")

    def _save(self, path: str) -> None:
        self._conversation.save(_path("save", path))
        ui.note(f"Saved {self._size()}.")

    def _load(self, path: str) -> None:
        loaded = self._engine.load_conversation(
            _path("load", path), sampler_config=self._sampler_config
        )
        self._go_on_with(loaded)
        ui.note(f"Loaded {self._size()}.")

    def _size(self) -> str:
        number = len(self._conversation.messages)
        messages = "1 message" if number == 1 else f"{number} messages"
        return f"{messages}, {self._conversation.token_count} tokens"

    def _help(self, argument: str) -> None:
        for line in HELP.splitlines():
            ui.note(line)


def _path(command: str, path: str) -> str:
    if not path:
        raise InvalidArgumentError(f"Name a file: /{command} PATH")
    return os.path.expanduser(path)
