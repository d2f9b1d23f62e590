"""Compiles grammars with llguidance, and says why it refuses one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from litert_lm.errors import ExecutionError
from litert_lm.sampling.constraint.ebnf import is_ebnf
from litert_lm.sampling.constraint.grammar import refuse
from litert_lm.sampling.constraint.spec import ConstraintSpec

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["compile_grammar", "reason_of"]

_T = TypeVar("_T")

_MIN_STACK_MB = 16
_MAX_STACK_MB = 512
_STACK_PER_CHARACTER = 2 << 10
"""llguidance recurses into rules that use rules, some kilobytes for each."""

_PLACE = re.compile(r"^(?:at )?\d+\(\d+\): ")
"""Line and column of Lark, which only who wrote it can make use of."""

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

    wanted = _MIN_STACK_MB + (_STACK_PER_CHARACTER * len(grammar) >> 20)
    matcher = _with_stack(make, min(wanted, _MAX_STACK_MB) << 20)
    if matcher.is_error():
        reason = reason_of(matcher.get_error())
        is_lark = spec.kind == "grammar" and not is_ebnf(str(spec.value))
        refuse(spec, reason if is_lark else _PLACE.sub("", reason))
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
