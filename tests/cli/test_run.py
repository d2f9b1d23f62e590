"""litert-lm run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

END = "<eot>"
Command = Callable[..., Any]
Speaker = Callable[..., Path]


def test_the_answer_is_all_of_stdout(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END), ">")
    assert (done.code, done.out, done.err) == (0, "xyz\n", "")


def test_it_goes_on_to_the_stop_token(command: Command, speaker: Speaker) -> None:
    text = "a" * 40
    assert command("run", speaker(text, END), ">").out == text + "\n"


def test_stats_are_one_line_on_stderr(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END), ">", "--stats")
    assert done.out == "xyz\n"
    assert done.err.startswith("2 prompt tokens, 4 new tokens, ")
    assert done.err.count("\n") == 1


def test_stats_tell_that_the_answer_was_cut(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END), ">", "--stats", "--max-new-tokens", 2)
    assert done.err.endswith("cut off by the limit\n")


def test_json_holds_the_answer_and_its_end(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END), ">", "--json")
    answer = json.loads(done.out)
    assert (answer["text"], answer["finish_reason"]) == ("xyz", "STOP")
    assert (answer["num_prompt_tokens"], answer["num_output_tokens"]) == (2, 4)


def test_json_leaves_stats_on_stderr(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END), ">", "--json", "--stats")
    assert json.loads(done.out)["text"] == "xyz"
    assert done.err.startswith("2 prompt tokens, 4 new tokens, ")


@pytest.mark.parametrize(
    ("options", "text"),
    [(["--max-new-tokens", 2], "xy"), (["--stop", "z", "--stop", "q"], "xy")],
)
def test_limits(
    command: Command, speaker: Speaker, options: list[Any], text: str
) -> None:
    assert command("run", speaker("xyz", END), ">", *options).out == text + "\n"


def test_a_limit_of_no_tokens_is_a_wrong_argument(
    command: Command, speaker: Speaker
) -> None:
    done = command("run", speaker("xyz", END), ">", "--max-new-tokens", 0)
    assert (done.code, done.out) == (2, "")
    assert "max_new_tokens must be at least 1" in done.err


def test_sampling_options_reach_the_model(
    command: Command, make_echo_bundle: Callable[..., Path], quick_first_load: None
) -> None:
    even = make_echo_bundle(logits={"x": 1.0, "y": 1.0})
    options = ["--temperature", 1, "--top-k", 2, "--top-p", 1, "--max-new-tokens", 30]
    texts = {command("run", even, "a", *options, "--seed", seed).out for seed in (1, 2)}
    assert len(texts) == 2
    assert all(set(text.strip()) == {"x", "y"} for text in texts)
    assert command("run", even, "a", *options, "--seed", 1).out in texts


def test_affixes_are_put_around_the_prompt(
    command: Command, make_echo_bundle: Callable[..., Path], quick_first_load: None
) -> None:
    echo = make_echo_bundle()
    assert command("run", echo, "a").out == "[bos][U][:][a][;][M][>]\n"
    assert command("run", echo, "a", "--no-template").out == "[bos][a]\n"


def test_the_chat_template_is_applied(
    command: Command, make_echo_bundle: Callable[..., Path], quick_first_load: None
) -> None:
    template = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"
    echo = make_echo_bundle({"jinja_prompt_template": template})
    assert command("run", echo, "a").out == "[bos][u][s][e][r][:][a]\n"
    assert command("run", echo, "a", "--no-template").out == "[bos][a]\n"


def test_stdin_comes_before_the_prompt(
    command: Command,
    make_echo_bundle: Callable[..., Path],
    pipe: Callable[[bytes], None],
    quick_first_load: None,
) -> None:
    pipe(b"text\n")
    done = command("run", make_echo_bundle({"prompt_templates": None}), "b")
    assert done.out == "[bos][t][e][x][t][0x0a][0x0a][b]\n"


def test_stdin_alone_is_the_prompt(
    command: Command, speaker: Speaker, pipe: Callable[[bytes], None]
) -> None:
    pipe(b">\n")
    assert command("run", speaker("xyz", END)).out == "xyz\n"


def test_no_prompt_is_wrong_usage(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: There is no prompt.")


def test_stdin_must_be_text(
    command: Command, speaker: Speaker, pipe: Callable[[bytes], None]
) -> None:
    pipe(b"ok \xff")
    done = command("run", speaker("xyz", END))
    assert (done.code, done.err) == (
        2,
        "error: Standard input is not UTF-8 text (byte 3).\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["no-such-model", ">"], 3, "There is no model called 'no-such-model'"),
        (["./none.litertlm", ">"], 3, "There is no file or folder './none.litertlm'"),
        (["setup.cfg", ">"], 4, "setup.cfg is neither"),
        (["hf:x", ">"], 2, "'hf:x' is not of the form"),
        (["https://127.0.0.1:9/m", ">"], 5, "Cannot fetch"),
    ],
)
def test_errors_are_one_line_and_a_code(
    command: Command,
    arguments: list[str],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    done = command("run", *arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.splitlines()[-1].startswith(f"error: {message}")


def test_a_wrong_option_value(command: Command, speaker: Speaker) -> None:
    done = command("run", speaker("xyz", END), ">", "--top-k", "-1")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: top_k must be at least 0, got -1.\n"


SLOW = """
import sys, time
from litert_lm import session
from litert_lm.cli.main import main
whole = session.Session.generate_stream
def slow(self, *args, **options):
    for chunk in whole(self, *args, **options):
        yield chunk
        time.sleep(0.2)
session.Session.generate_stream = slow
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_ends_the_answer(speaker: Speaker) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, "run", str(speaker("a" * 40, END)), ">"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    assert process.stdout.read(2) == b"aa"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == b""
    assert len(out) < 38
