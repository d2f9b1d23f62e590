"""Regular expressions as Lark grammars."""

from __future__ import annotations

import json

from litert_lm.sampling.constraint.ebnf_reader import GrammarError

__all__ = ["regex_to_lark"]


def regex_to_lark(pattern: str) -> str:
    """The Lark grammar of the texts that match `pattern` as a whole.

    Raises:
        GrammarError: what llguidance would not see; the rest it finds as it compiles.
    """
    from llguidance import LLMatcher

    if "\0" in pattern:
        where = pattern.index("\0")
        raise GrammarError(f"it holds a NUL character at position {where}")
    num_backslashes = len(pattern) - len(pattern.rstrip("\\"))
    if num_backslashes % 2:
        # llguidance would leave it out.
        raise GrammarError("it ends in a backslash that has nothing to escape")
    grammar = json.loads(LLMatcher.grammar_from_regex(pattern))["grammars"][0]
    return str(grammar["lark_grammar"])
