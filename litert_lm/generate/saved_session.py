"""What of a session goes into a file: its sequence, its turns, its random numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from litert_lm.errors import InvalidArgumentError, SavedStateError, shown
from litert_lm.executor.executor import Executor
from litert_lm.generate.answers import Answers
from litert_lm.generate.prompt import Turn, Turns
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.session_file import load_session_file, save_session_file

__all__ = ["load_session", "save_session"]

_TURNS, _RANDOM = "turns", "random"


def save_session(
    path: object,
    sequence: TokenSequence,
    executor: Executor,
    model: str,
    turns: Turns,
    answers: Answers,
    texts: Mapping[str, str],
) -> None:
    """Write a session into a safetensors file; see `session_file` for what it holds.

    The file also has the texts ``turns``, JSON of pairs of a number of tokens and what
    began there, and, of sessions with a seed, ``random``, JSON of their random state;
    and whatever else is in `texts`.

    Raises:
        InvalidArgumentError: no path, or too long texts.
        StorageError: the file cannot be written.
    """
    marks = [[count, turn.name] for count, turn in turns.marks]
    texts = {**texts, _TURNS: json.dumps(marks)}
    random = answers.random_state()
    if random is not None:
        texts[_RANDOM] = json.dumps(random)
    save_session_file(_checked_path(path), sequence, executor, model, texts)


def load_session(
    path: object,
    sequence: TokenSequence,
    executor: Executor,
    model: str,
    answers: Answers,
) -> tuple[Turns, Mapping[str, str]]:
    """Have a sequence stand where a saved session stood; returns its turns and texts.

    A seeded random sequence goes on from its place where the seed is the same.

    Raises:
        InvalidArgumentError: no path.
        SavedStateError: see `load_session_file`.
        StorageError: the file cannot be read.
    """
    file = _checked_path(path)
    texts = load_session_file(file, sequence, executor, model)
    try:
        turns = _turns(texts, len(sequence.token_ids))
        if _RANDOM in texts:
            answers.restore_random(json.loads(texts[_RANDOM]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        sequence.close()
        raise SavedStateError(
            f"'{file}' is damaged: its turns or random state cannot be read. Save the "
            "session again."
        ) from error
    return turns, texts


def _turns(texts: Mapping[str, str], num_tokens: int) -> Turns:
    """The turns of a file; ValueError, TypeError or KeyError where they are none."""
    marks: Any = json.loads(texts[_TURNS])
    found = [(count, Turn[name]) for count, name in marks]
    counts = [count for count, _ in found]
    if not all(type(count) is int for count in counts) or not found:
        raise ValueError("marks are no pairs of a number and a name")
    if counts != sorted(counts) or counts[0] != 0 or counts[-1] > num_tokens:
        raise ValueError("marks are not in order")
    return Turns(found)


def _checked_path(path: object) -> Path:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or not _is_name(text):
        raise InvalidArgumentError(f"path must name a file, got {shown(path)}.")
    return Path(text)


def _is_name(text: str) -> bool:
    """Whether the system has names like this: lone surrogates are in none."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
