"""Structured output: which tokens may come next so that the output fits a grammar.

llguidance (extra `structured`) does the work behind this seam.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from litert_lm.errors import shown
from litert_lm.sampling.constraint.grammar import make_grammar, refuse
from litert_lm.sampling.constraint.native import compile_grammar
from litert_lm.sampling.constraint.spec import ConstraintSpec
from litert_lm.sampling.constraint.state import Constraint
from litert_lm.sampling.constraint.tokens import (
    ConstraintTokenizer,
    TokenTables,
    read_tables,
)

__all__ = ["Constraint", "ConstraintCompiler", "ConstraintSpec"]


class ConstraintCompiler:
    """Makes constraints for one model; its tokens are read at the first one.

    Args:
        tokenizer: what the model's ids mean.
        vocab_size: number of logits of the model.
        eos_ids: ids that end an output, the primary one first.
    """

    def __init__(
        self, tokenizer: ConstraintTokenizer, vocab_size: int, eos_ids: Sequence[int]
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._eos_ids = tuple(dict.fromkeys(eos_ids))
        self._lock = threading.Lock()
        self._tables: TokenTables | None = None

    def compile(self, spec: ConstraintSpec) -> Constraint:
        """The constraint for one output. Safe to call from several threads.

        Raises:
            InvalidArgumentError: `spec` is wrong, or no output fits it.
            MissingExtraError: llguidance is not installed.
            UnsupportedModelError: the tokenizer does not tell what its tokens write.
        """
        tables = self._read_tables()
        grammar = make_grammar(spec, is_forcing=tables.amid.tokens.writes_all)
        if spec.kind == "choice":
            _check_choices(spec, tables)
        amid = compile_grammar(spec, tables.amid.native, grammar)
        first = None
        if tables.at_start is not None:
            first = compile_grammar(spec, tables.at_start.native, grammar)
        constraint = Constraint(spec, tables, amid, first)
        constraint.check_possible()
        return constraint

    def _read_tables(self) -> TokenTables:
        with self._lock:
            if self._tables is None:
                self._tables = read_tables(
                    self._tokenizer, self._vocab_size, self._eos_ids
                )
            return self._tables


def _check_choices(spec: ConstraintSpec, tables: TokenTables) -> None:
    """Refuse a text that would lead where no token goes on."""
    for i, text in enumerate(spec.value):
        if not tables.can_write(text):
            refuse(spec, f"this model has no tokens for text {i}, {shown(text)}")
