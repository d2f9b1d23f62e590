"""Compiles grammars with llguidance, and says why it refuses one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from litert_lm.errors import ExecutionError
from litert_lm.sampling.constraint_grammar import refuse
from litert_lm.sampling.constraint_spec import ConstraintSpec

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["compile_grammar", "reason_of"]

_T = TypeVar("_T")

_MIN_STACK = 16 << 20  # bytes
_STACK_PER_CHARACTER = 1 << 10
"""llguidance recurses into rules that use rules; a level takes some 8 characters."""

_MAX_REASON = 300  # characters


def compile_grammar(
    spec: ConstraintSpec, tokenizer: LLTokenizer, grammar: str
) -> LLMatcher:
    """The matcher of `grammar`, which says what `spec` says.

    Raises:
        InvalidArgumentError: llguidance does not take it.
        ExecutionError: llguidance failed on it.
    """
    from llguidance import LLMatcher, LLParserLimits

    def make() -> LLMatcher:
        limits = LLParserLimits(verbose_errors=False)
        return LLMatcher(tokenizer, grammar, log_level=0, limits=limits)

    matcher = _with_stack(make, _MIN_STACK + _STACK_PER_CHARACTER * len(grammar))
    if matcher.is_error():
        refuse(spec, reason_of(matcher.get_error()))
    return matcher


_stack_lock = threading.Lock()


def _with_stack(make: Callable[[], _T], num_bytes: int) -> _T:
    """What `make` returns in a thread with a stack of `num_bytes`."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(make())
        except BaseException as error:
            errors.append(error)

    with _stack_lock:
        before = threading.stack_size(num_bytes)
        try:
            thread = threading.Thread(target=work, name="compile constraint")
            thread.start()
        except RuntimeError as error:
            raise ExecutionError(
                f"No thread with a stack of {num_bytes >> 20} MB could be started to "
                "compile the constraint; free memory or give a shorter one."
            ) from error
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise ExecutionError(
            f"llguidance failed on the constraint: {reason_of(str(errors[0]))}. "
            "Simplify it."
        ) from errors[0]
    return results[0]


def reason_of(message: str) -> str:
    """llguidance's message on one line, without the echo of the grammar."""
    text = re.split("<non-verbose|<backtrace|<state", message)[0]
    lines = [line.strip() for line in text.splitlines()]
    echo = next((i for i, line in enumerate(lines) if line[:1].isdigit() and i), None)
    text = " ".join(line for line in lines[:echo] if line.strip("^ "))
    text = text[:_MAX_REASON].strip(" .;:") or "llguidance gives no reason"
    return text.replace("panic:", "llguidance gave up,", 1)
