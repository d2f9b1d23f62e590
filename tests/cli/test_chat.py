"""litert-lm chat: lines of a pipe, and a person at a terminal."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conversation.conftest import TEMPLATE, replies

pty = pytest.importorskip("pty", reason="this system has no terminals")
Command = Callable[..., Any]
ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture
def model(make_echo_bundle: Callable[..., Path], quick_first_load: None) -> Path:
    """Says "hello" to "1", "you" to "2", and "aaa..." to "3"."""
    options = replies(["hello"], ["you"], ["a" * 60])
    return make_echo_bundle({"jinja_prompt_template": TEMPLATE}, **options)


@pytest.fixture
def chat(command: Command, model: Path, pipe: Callable[[bytes], None]) -> Command:
    """chat(lines, *options): what comes of lines in a pipe."""

    def run(lines: str | bytes, *options: object) -> Any:
        pipe(lines if isinstance(lines, bytes) else lines.encode())
        return command("chat", model, *options)

    return run


def test_each_line_is_answered(chat: Command) -> None:
    done = chat("1\n\n2\n")
    assert (done.code, done.out, done.err) == (0, "hello\n\nyou\n", "")


def test_nothing_is_answered_with_nothing(chat: Command) -> None:
    assert chat("") == chat("\n")


def test_the_second_turn_reads_only_its_own_tokens(chat: Command) -> None:
    first, second = chat("1\n2\n", "--stats").err.splitlines()
    num_first = len("<user>1\n<assistant>") + 2  # <bos> and <eot>
    num_second = len("\n<user>2\n<assistant>") + 1
    assert first.startswith(f"{num_first} of {num_first} prompt tokens read, 6 new")
    num_all = num_first + 6 + num_second
    assert second.startswith(f"{num_second} of {num_all} prompt tokens read, 4 new")
    assert " tokens/s" in second


def test_clear_forgets_all_but_the_system_message(chat: Command) -> None:
    done = chat("1\n/clear\n/system\n2\n", "--system", "S", "--stats")
    assert done.err.splitlines()[1] == "S"
    num_tokens = len("<system>S\n<user>2\n<assistant>") + 3
    assert done.err.splitlines()[2].startswith(f"{num_tokens} of {num_tokens} ")


def test_a_system_message_is_put_first(chat: Command) -> None:
    done = chat("/system\n1\n/system S\n/system\n2\n", "--stats")
    assert done.err.splitlines()[0].startswith("There is no system message")
    assert done.err.splitlines()[2] == "S"
    said = "<system>S\n<user>1\n<assistant>hello\n<user>2\n<assistant>"
    assert f" of {len(said) + 5} prompt tokens" in done.err.splitlines()[3]


def test_a_conversation_is_saved_and_loaded(chat: Command, tmp_path: Path) -> None:
    path = tmp_path / "a b"
    assert chat(f"1\n/save {path}\n").err == "Saved 2 messages, 27 tokens.\n"
    done = chat(f"/load {path}\n2\n", "--stats")
    assert (done.code, done.out) == (0, "you\n")
    assert done.err.startswith("Loaded 2 messages, 27 tokens.\n21 of 48 prompt tokens")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/sing", "There is no command '/sing'; /help lists them"),
        ("/save", "Name a file: /save PATH"),
        ("/load", "Name a file: /load PATH"),
        ("/load /no/such/file", "Cannot read '/no/such/file'"),
        ("/save /no/such/folder/a", "/no/such/folder/a cannot be written"),
        ("x" * 300, "The message does not fit by "),
    ],
)
def test_an_error_is_shown_and_the_conversation_goes_on(
    chat: Command, line: str, message: str
) -> None:
    done = chat(f"1\n{line}\n2\n")
    assert (done.code, done.out) == (1, "hello\n\nyou\n")
    assert done.err.startswith(f"error: {message}")


def test_old_turns_make_room_where_they_may(chat: Command) -> None:
    done = chat("1\n" * 12, "--context-overflow", "drop_oldest")
    assert (done.code, done.out) == (0, "\n".join(["hello\n"] * 12))


def test_a_slash_can_be_said(command: Command, chat: Command) -> None:
    assert chat("//1\n", "--stats").err.startswith("22 of 22 ")


def test_exit_leaves_the_rest_unread(chat: Command) -> None:
    assert chat("1\n/exit\n2\n").out == "hello\n"


def test_help_lists_the_commands(chat: Command) -> None:
    done = chat("/help\n")
    for name in ("clear", "system", "save", "load", "help", "exit"):
        assert f"/{name} " in done.err
    assert done.out == ""


def test_sampling_options_are_those_of_the_conversation(chat: Command) -> None:
    done = chat("1\n", "--max-new-tokens", 2, "--stats")
    assert done.out == "he\n"
    assert done.err.endswith("cut off by the limit\n")
    assert chat("1\n", "--top-k", 0).code == 2


@pytest.mark.parametrize("data", [b"1\n\xff\n2\n", b"x" * (17 << 20)])
def test_lines_that_are_no_messages(chat: Command, data: bytes) -> None:
    done = chat(data)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("error: Line ")


def test_thoughts_are_no_part_of_the_answer(
    command: Command,
    make_echo_bundle: Callable[..., Path],
    pipe: Callable[[bytes], None],
    quick_first_load: None,
) -> None:
    channel = {"channel_name": "thought", "start": "<think>", "end": "</think>"}
    metadata = {"jinja_prompt_template": TEMPLATE, "channels": [channel]}
    options = replies(["<think>", "hm", "</think>", "hello"])
    pipe(b"1\n")
    done = command("chat", make_echo_bundle(metadata, **options))
    assert (done.out, done.err) == ("hello\n", "")


SLOW = """
import sys, time
from litert_lm import session
from litert_lm.cli.main import main
whole = session.Session.prepared_stream
class Slow:
    def __init__(self, chunks):
        self.chunks, self.close = chunks, chunks.close
    def __iter__(self):
        return self
    def __next__(self):
        time.sleep(0.05)
        return next(self.chunks)
session.Session.prepared_stream = lambda *given: Slow(whole(*given))
sys.exit(main(sys.argv[1:]))
"""


class Terminal:
    """A chat that somebody has on a terminal; stdout goes into a pipe or there too."""

    def __init__(self, model: Path, *options: str, has_pipe: bool) -> None:
        self.screen, inside = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SLOW, "chat", str(model), *options],
            stdin=inside,
            stdout=subprocess.PIPE if has_pipe else inside,
            stderr=inside,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(inside)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read the screen until `text` comes; forgets what was up to there."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            ready, _, _ = select.select([self.screen], [], [], end - time.monotonic())
            assert ready, self.shown
            self.shown += os.read(self.screen, 4096).decode()
        self.shown = self.shown.partition(text)[2]

    def say(self, text: str) -> None:
        self.wait_for("> ")
        os.write(self.screen, text.encode())

    def interrupt(self) -> None:
        time.sleep(0.2)  # what prints the mark has to begin to wait for keys
        self.process.send_signal(signal.SIGINT)

    def code(self) -> int:
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.screen)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def terminal(model: Path) -> Iterator[Callable[..., Terminal]]:
    """terminal(*options, has_pipe=False): a chat with the model."""
    opened: list[Terminal] = []

    def make(*options: str, has_pipe: bool = False) -> Terminal:
        opened.append(Terminal(model, *options, has_pipe=has_pipe))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_ctrl_c_ends_the_answer_only(terminal: Callable[..., Terminal]) -> None:
    screen = terminal()
    screen.say("3\n")
    screen.wait_for("aaa")
    screen.interrupt()
    screen.wait_for("(stopped)")
    screen.say("2\n")
    screen.wait_for("you")
    screen.say("/exit\n")
    assert screen.code() == 0


def test_ctrl_c_twice_at_the_mark_leaves(terminal: Callable[..., Terminal]) -> None:
    screen = terminal()
    screen.wait_for("> ")
    screen.interrupt()
    screen.wait_for("Ctrl-C again")
    screen.wait_for("> ")
    screen.interrupt()
    assert screen.code() == 130


def test_ctrl_c_after_a_stopped_answer_leaves(
    terminal: Callable[..., Terminal],
) -> None:
    screen = terminal()
    screen.say("3\n")
    screen.wait_for("aaa")
    screen.interrupt()
    screen.wait_for("> ")
    screen.interrupt()
    assert screen.code() == 130


def test_ctrl_d_leaves(terminal: Callable[..., Terminal]) -> None:
    screen = terminal()
    screen.say("\x04")
    assert screen.code() == 0


def test_stdout_holds_answers_alone(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("--stats", has_pipe=True)
    screen.say("1\n")
    screen.wait_for("tokens/s")
    screen.say("/help\n")
    screen.say("2\n")
    screen.say("/exit\n")
    assert screen.code() == 0
    assert screen.process.stdout is not None
    assert screen.process.stdout.read() == b"hello\nyou\n"


def test_ctrl_c_ends_a_pipe(model: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, "chat", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"3\n2\n")
    process.stdin.flush()
    assert process.stdout.read(2) == b"aa"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"")
    assert b"you" not in out


def test_five_turns_with_a_real_model(
    command: Command, default_model: Path, pipe: Callable[[bytes], None]
) -> None:
    """Each turn keeps what was there: earlier prompts and answers, all of it."""
    questions = ["My name is Ada.", "Who are you?", "Name a colour.", "Why?", "Bye!"]
    pipe("\n".join(questions).encode())
    options = ["--temperature", 0, "--max-new-tokens", 16, "--stats"]
    done = command("chat", default_model, *options)
    assert (done.code, len(done.err.splitlines())) == (0, 5)
    counts = [
        list(map(int, re.findall(r"\d+", line)))[:3]
        for line in done.err.split("\n")[:5]
    ]
    num_kept = 0
    for num_read, num_prompt, num_new in counts:
        assert num_prompt == num_kept + num_read
        num_kept = num_prompt + num_new
    assert all(num_read < 24 for num_read, _, _ in counts[1:])
