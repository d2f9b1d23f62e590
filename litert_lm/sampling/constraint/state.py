"""The state of one output that must fit a grammar: what may come next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ExecutionError, InvalidArgumentError, shown
from litert_lm.sampling.constraint.grammar import refuse
from litert_lm.sampling.constraint.native import reason_of
from litert_lm.sampling.constraint.spec import ConstraintSpec
from litert_lm.sampling.constraint.tokens import TokenBytes, TokenTables
from litert_lm.sampling.selection import Logits

if TYPE_CHECKING:
    from llguidance import LLMatcher

__all__ = ["Constraint"]

_NO_TOKEN = "NoExtensionBias"
"""How llguidance says that no token fits."""


class _Step(NamedTuple):
    """What one accepted id was.

    Attributes:
        amid: number of tokens for the matcher amid a text.
        at_start: number of tokens for the matcher at the start.
        is_text: whether text precedes what follows.
    """

    amid: int
    at_start: int
    is_text: bool


class Constraint:
    """The state of one constrained output.

    Not for several threads at once; `fork` gives independent ones.

    Attributes:
        spec: what the output must look like.
    """

    def __init__(
        self,
        spec: ConstraintSpec,
        tables: TokenTables,
        amid: LLMatcher,
        at_start: LLMatcher | None,
        steps: Sequence[_Step] = (),
    ) -> None:
        self.spec = spec
        self._tables = tables
        self._amid = amid
        self._at_start = at_start
        self._steps = list(steps)
        self._num_text_steps = sum(step.is_text for step in steps)
        vocab_size = len(tables.amid.tokens.tokens)
        self._mask = np.zeros((vocab_size + 31) // 32, np.int32)

    @property
    def is_accepting(self) -> bool:
        """Whether the output may end here."""
        return bool(self._amid.is_accepting())

    def apply(self, logits: Logits) -> None:
        """Set the logits of all tokens that may not come next to -inf, in place.

        All become -inf where nothing can follow and the output may not end.

        Args:
            logits: f32 [vocab_size].

        Raises:
            ExecutionError: the constraint became too complex at this token.
        """
        if logits.shape != (len(self._tables.amid.tokens.tokens),):
            raise InvalidArgumentError(
                f"Logits of shape {logits.shape} do not fit a constraint over "
                f"{len(self._tables.amid.tokens.tokens)} tokens."
            )
        allowed = self._allowed_bits()
        np.copyto(logits, -np.inf, where=~allowed)

    def check_possible(self) -> None:
        """Raise InvalidArgumentError where no token can come next."""
        try:
            is_possible = self._allowed_bits().any()
        except ExecutionError:
            refuse(self.spec, reason_of(self._matcher.get_error()))
        if not is_possible:
            refuse(self.spec, "no text fits it that this model's tokens can write")

    def accept(self, token_id: int) -> None:
        """Take note that `token_id` was generated.

        Raises:
            ExecutionError: the token cannot come next; nothing has changed.
        """
        step = self._consume(token_id)
        if step is None:
            self._check(self._amid)
            raise ExecutionError(
                f"Token {token_id} cannot come next in output that is constrained by "
                f"{self.spec.kind} {shown(self.spec.value)}: {self._trouble()}. Choose "
                "tokens from the logits that the constraint has left."
            )
        self._steps.append(step)
        self._num_text_steps += step.is_text

    def rollback(self, num_tokens: int) -> None:
        """Forget the last `num_tokens` accepted tokens.

        Raises:
            InvalidArgumentError: fewer were accepted.
            ExecutionError: the grammar counts tokens, which cannot be undone.
        """
        if not 0 <= num_tokens <= len(self._steps):
            raise InvalidArgumentError(
                f"Cannot take back {shown(num_tokens)} tokens of "
                f"{len(self._steps)} accepted ones."
            )
        split = len(self._steps) - num_tokens
        undone, self._steps = self._steps[split:], self._steps[:split]
        self._num_text_steps -= sum(step.is_text for step in undone)
        self._undo(self._amid, sum(step.amid for step in undone))
        if self._at_start is not None:
            self._undo(self._at_start, sum(step.at_start for step in undone))

    def forced_ids(self) -> list[int]:
        """Tokens that must come next, as the tokenizer writes them; often none.

        They are not accepted yet. Other tokens may spell the same text; `apply` leaves
        those too.
        """
        if self._amid.is_stopped():
            return []
        matcher, tokens = self._matcher, self._tokens
        ids = list(matcher.compute_ff_tokens())
        self._check(matcher)
        if not ids or ids[0] in tokens.special_ids:
            return ids[:1]
        text = matcher.compute_ff_bytes().decode(errors="ignore")
        pairs = zip(ids, tokens.own_ids(text) or (), strict=False)
        own = [first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        # Tokens after the first one write something else than at the start.
        return own[:1] if self._is_at_start else own

    def fork(self) -> Constraint:
        """An independent constraint in the same state."""
        at_start = self._at_start and self._at_start.deep_copy()
        return Constraint(
            self.spec,
            self._tables,
            self._amid.deep_copy(),
            at_start,
            self._steps,
        )

    @property
    def _is_at_start(self) -> bool:
        return self._at_start is not None and not self._num_text_steps

    @property
    def _matcher(self) -> LLMatcher:
        if self._at_start is not None and self._is_at_start:
            return self._at_start
        return self._amid

    @property
    def _tokens(self) -> TokenBytes:
        table = self._tables.at_start if self._is_at_start else self._tables.amid
        return (table or self._tables.amid).tokens

    def _allowed_bits(self) -> npt.NDArray[np.bool_]:
        """Whether each token may come next, bool [vocab_size]."""
        matcher = self._matcher
        bits = self._matching_bits(matcher)
        silent = self._tokens.silent_ids
        if silent and not self._is_complete(matcher):
            # A matcher that finds no token is of no use any more.
            amid = self._amid.deep_copy()
            bits[list(silent)] = self._matching_bits(amid).any()
        return bits

    def _matching_bits(self, matcher: LLMatcher) -> npt.NDArray[np.bool_]:
        forced = [] if matcher.is_stopped() else matcher.compute_ff_tokens()
        if forced:
            return self._spelling_bits(matcher, forced[0])
        if not matcher.is_stopped():
            matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if matcher.is_stopped():
            return self._end_bits(matcher)
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        return bits[: len(self._tokens.tokens)].view(np.bool_)

    def _is_complete(self, matcher: LLMatcher) -> bool:
        """Whether only the end can follow."""
        return matcher.is_stopped() and not matcher.is_error()

    def _end_bits(self, matcher: LLMatcher) -> npt.NDArray[np.bool_]:
        """Bits where the grammar goes no further: the stop tokens or nothing."""
        bits = np.zeros(len(self._tables.amid.tokens.tokens), np.bool_)
        if self._is_complete(matcher):
            bits[list(self._tables.eos_ids)] = True
        elif not matcher.get_error().startswith(_NO_TOKEN):
            self._check(matcher)
        return bits

    def _spelling_bits(self, matcher: LLMatcher, forced: int) -> npt.NDArray[np.bool_]:
        """Bits of all tokens that begin the text that must come next."""
        bits = np.zeros(len(self._tables.amid.tokens.tokens), np.bool_)
        bits[forced] = True
        bits[self._tokens.prefixes(matcher.compute_ff_bytes())] = True
        return bits

    def _consume(self, token_id: int) -> _Step | None:
        """Feed one id to the matchers; None when it cannot come next."""
        num_tokens = len(self._tables.amid.tokens.tokens)
        if not 0 <= token_id < num_tokens:
            return None
        if token_id in self._tables.eos_ids and self.is_accepting:
            return _Step(0, 0, False)
        if not self._is_at_start:
            return _Step(1, 0, True) if self._feed(self._amid, [token_id]) else None
        return self._consume_at_start(token_id)

    def _consume_at_start(self, token_id: int) -> _Step | None:
        if token_id in self._tokens.special_ids:
            is_fed = self._feed(self._amid, [token_id])
            is_fed = is_fed and self._feed(self._at_start, [token_id])
            return _Step(1, 1, False) if is_fed else None
        if token_id in self._tokens.silent_ids:
            return _Step(0, 0, True)
        data = self._tokens.tokens[token_id]
        ids = self._tables.amid.tokens.split(data) if data else None
        return _Step(len(ids), 0, True) if ids and self._feed(self._amid, ids) else None

    def _feed(self, matcher: LLMatcher | None, ids: list[int]) -> bool:
        """Let `matcher` consume all of `ids`, or none."""
        if matcher is None or matcher.is_stopped():
            return False
        num_fed = matcher.try_consume_tokens(ids)
        if num_fed < len(ids) and num_fed:
            self._undo(matcher, num_fed)
        return num_fed == len(ids)

    def _undo(self, matcher: LLMatcher, num_tokens: int) -> None:
        if num_tokens and not matcher.rollback(num_tokens):
            raise ExecutionError(
                f"The {self.spec.kind} constraint cannot go back {num_tokens} tokens: "
                f"{self._trouble()}. Leave max_tokens and stop out of its grammar."
            )

    def _check(self, matcher: LLMatcher) -> None:
        if matcher.is_error():
            raise ExecutionError(
                f"The {self.spec.kind} constraint failed after {len(self._steps)} "
                f"tokens: {reason_of(matcher.get_error())}. Simplify it."
            )

    def _trouble(self) -> str:
        error = self._amid.get_error()
        if error:
            return reason_of(error)
        is_complete = self._amid.is_stopped()
        return "the output is complete" if is_complete else "it does not fit"
