"""When generation ends: stop sequences of token ids and stop strings of text."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from litert_lm.errors import InvalidArgumentError

__all__ = ["StopSequences", "StopStrings", "TextStep", "TokenStep"]


class TokenStep(NamedTuple):
    """What one more token means.

    Attributes:
        released: ids, oldest first, that are output now: no stop sequence holds them.
        match: the stop sequence that is complete, else None.
    """

    released: tuple[int, ...]
    match: tuple[int, ...] | None


class TextStep(NamedTuple):
    """What more text means.

    Attributes:
        text: what is output now.
        match: the stop string that ended generation, else None.
    """

    text: str
    match: str | None


@dataclass(eq=False, slots=True)
class _Node:
    """The tokens from the root to here are the start of some sequence.

    Attributes:
        depth: how many tokens these are.
        next: node of one token more, also where a shorter start goes on.
        fallback: node of the longest other start that these tokens end with.
        match: shortest sequence that these tokens end with.
    """

    depth: int
    next: dict[int, _Node] = field(default_factory=dict)
    fallback: _Node | None = None
    match: tuple[int, ...] | None = None


class StopSequences:
    """Finds stop sequences in generated ids, however they overlap (Aho-Corasick).

    Tokens that may be the start of a sequence are withheld until that is decided. The
    first sequence to be complete stops, the shortest when several are complete at
    once. Only pushed tokens count: never push the prompt.

    Args:
        sequences: of one or more ids each; none at all is allowed.

    Raises:
        InvalidArgumentError: a sequence is empty or holds something else than ids.
    """

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        self._root = _build_tree([_checked_sequence(ids) for ids in sequences])
        self._node = self._root
        self._withheld: list[int] = []

    def passes(self, token_id: int) -> bool:
        """Whether a token would only be output at once; it need not be pushed then."""
        return not self._withheld and token_id not in self._root.next

    def push(self, token_id: int, *, may_stop: bool = True) -> TokenStep:
        """Take the next generated token.

        Args:
            token_id: the token.
            may_stop: False passes over a sequence that is complete with this token,
                while the output is shorter than a minimum.

        Returns:
            The tokens to output. With a match these are the withheld ones before it,
            and its own tokens are in `match` only; the matcher starts afresh.
        """
        if self.passes(token_id):
            return TokenStep((token_id,), None)
        node = _follow(self._node, token_id)
        self._withheld.append(token_id)
        if node.match is not None and may_stop:
            released = tuple(self._withheld[: -len(node.match)])
            self._withheld, self._node = [], self._root
            return TokenStep(released, node.match)
        self._node = _undecided(node)
        return TokenStep(self._release(), None)

    def finish(self) -> tuple[int, ...]:
        """Give out what is withheld: generation ended in the middle of a sequence."""
        self._node = self._root
        return self._release()

    def _release(self) -> tuple[int, ...]:
        at = len(self._withheld) - self._node.depth
        released = tuple(self._withheld[:at])
        del self._withheld[:at]
        return released


class StopStrings:
    """Finds stop strings in generated text.

    Only what ends in new text can match. The first string to be complete stops, the
    first in the list when several are complete with one piece of text (as in vLLM).
    Text that may be the start of a string is withheld, no more than that.

    Args:
        strings: none at all is allowed.
        include: output the stop string too; then nothing is ever withheld.

    Raises:
        InvalidArgumentError: a string is empty or no str.
    """

    def __init__(self, strings: Iterable[str], include: bool = False) -> None:
        self._strings = _checked_strings(strings)
        self._include = include
        self._start = ""

    def push(self, text: str, *, may_stop: bool = True) -> TextStep:
        """Take the next piece of generated text.

        Args:
            text: the piece, '' is allowed.
            may_stop: False passes over strings that end in this piece, while the
                output is shorter than a minimum.

        Returns:
            The text to output: with a match up to it (`include`: with it); what
            follows the match is dropped and the matcher starts afresh.
        """
        num_seen = len(self._start)
        window = self._start + text
        match = self._find(window, num_seen) if may_stop and text else None
        first = num_seen if self._include else 0
        if match:
            at, found = match
            self._start = ""
            return TextStep(window[first : at + len(found) * self._include], found)
        self._start = self._longest_start(window)
        last = len(window) if self._include else len(window) - len(self._start)
        return TextStep(window[first:last], None)

    def finish(self) -> str:
        """Give out what is withheld: generation ended without a match."""
        withheld, self._start = self._start, ""
        return "" if self._include else withheld

    def _find(self, window: str, num_seen: int) -> tuple[int, str] | None:
        """Place and string of the match that ends beyond the first `num_seen`."""
        for string in self._strings:
            at = window.find(string, max(0, num_seen - len(string) + 1))
            if at >= 0:
                return at, string
        return None

    def _longest_start(self, window: str) -> str:
        """Longest end of `window` with which some stop string begins."""
        longest = 0
        for string in self._strings:
            at = window.find(string[0], max(0, len(window) - len(string) + 1))
            while at >= 0 and len(window) - at > longest:
                if string.startswith(window[at:]):
                    longest = len(window) - at
                at = window.find(string[0], at + 1)
        return window[len(window) - longest :]


def _build_tree(sequences: Sequence[tuple[int, ...]]) -> _Node:
    root = _Node(0)
    for sequence in sequences:
        node = root
        for token_id in sequence:
            node = node.next.setdefault(token_id, _Node(node.depth + 1))
        node.match = sequence
    _link(root)
    return root


def _link(root: _Node) -> None:
    """Set fallbacks, nearest nodes first, and the shortest match of each node."""
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for token_id, child in node.next.items():
            fallback = root
            if node.fallback is not None:
                fallback = _follow(node.fallback, token_id)
            child.fallback = fallback
            child.match = fallback.match or child.match
            queue.append(child)


def _follow(node: _Node, token_id: int) -> _Node:
    """Node of the longest start that the tokens of `node` and `token_id` end with."""
    at: _Node | None = node
    while at is not None:
        child = at.next.get(token_id)
        if child is not None:
            return child
        node, at = at, at.fallback
    return node


def _undecided(node: _Node) -> _Node:
    """Node of the longest start that is no whole sequence: the rest may be output."""
    while not node.next and node.fallback is not None:
        node = node.fallback
    return node


def _checked_sequence(ids: Sequence[int]) -> tuple[int, ...]:
    try:
        sequence = tuple(map(operator.index, ids))
    except TypeError as error:
        raise InvalidArgumentError(
            f"A stop sequence must be a list of token ids, got {ids!r:.80}."
        ) from error
    if not sequence:
        raise InvalidArgumentError(
            "A stop sequence without token ids would end every answer at once; leave "
            "it out."
        )
    return sequence


def _checked_strings(strings: Iterable[str]) -> tuple[str, ...]:
    if isinstance(strings, str):
        raise InvalidArgumentError(
            f"Stop strings must be a list of str, got the single str {strings!r:.80}."
        )
    checked = tuple(strings)
    for string in checked:
        if not isinstance(string, str):
            raise InvalidArgumentError(f"A stop string must be a str, got {string!r}.")
        if not string:
            raise InvalidArgumentError(
                "A stop string that is empty would end every answer at once; leave it "
                "out."
            )
    return checked
