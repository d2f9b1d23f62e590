"""What structured output costs per token at a large vocabulary.

    python benchmarks/constrained.py [--vocab-size 262144] [--tokens 200]

No model runs: the step is that of the constraint alone (mask, logits, accept) beside a
greedy choice from the same logits. The vocabulary is made up, with all single bytes, of
the size that Gemma models have.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from litert_lm.sampling.constraint.compiler import (
    Constraint,
    ConstraintCompiler,
    ConstraintSpec,
)
from litert_lm.tokenizer.pieces import Piece, PieceTable

NUM_SPECIAL = 4
SIGNS = "abcdefghijklmnopqrstuvwxyz" * 3 + 'ABCDE0123456789{}[]":,.-_éüß中文日本한국'
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "tags"],
}
CASES = {
    "json_object": ConstraintSpec("json_object"),
    "json schema": ConstraintSpec("json", json.dumps(PERSON)),
    "regex": ConstraintSpec("regex", r"(?s:.*)"),
    "choice": ConstraintSpec("choice", tuple(f"number {i}" for i in range(1000))),
    "grammar": ConstraintSpec(
        "grammar",
        'root ::= sum\nsum ::= term (("+" | "-") term)*\n'
        'term ::= "(" sum ")" | [0-9]+ ("." [0-9]+)?',
    ),
}


class Vocabulary:
    """A tokenizer of made-up words and all bytes."""

    special_ids = frozenset(range(NUM_SPECIAL))

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self._tokens = list(dict.fromkeys(self._words(vocab_size)))
        self._ids = {data: i for i, data in enumerate(self._tokens)}
        self.pieces = PieceTable(lambda i: Piece.plain(self._tokens[i]))

    def encode(self, text: str) -> list[int]:
        data, ids = text.encode(), []
        while data:
            sizes = range(min(24, len(data)), 0, -1)
            size = next(n for n in sizes if data[:n] in self._ids)
            ids.append(self._ids[data[:size]])
            data = data[size:]
        return ids

    def id_to_token(self, token_id: int) -> str:
        return f"<{token_id}>"

    @staticmethod
    def _words(vocab_size: int) -> Iterator[bytes]:
        yield from (b"<special %d>" % i for i in range(NUM_SPECIAL))
        yield from (bytes([byte]) for byte in range(256))
        draw = random.Random(0)
        words: set[str] = set()
        while len(words) < vocab_size - NUM_SPECIAL - 256:
            length = draw.randint(2, 9)
            word = "".join(draw.choice(SIGNS) for _ in range(length))
            words.add(draw.choice((" ", "")) + word)
        yield from (word.encode() for word in sorted(words))


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def steps(
    constraint: Constraint | None, vocab_size: int, num_tokens: int
) -> Iterator[float]:
    """Milliseconds of each step with (or without) a constraint."""
    draw = np.random.default_rng(0)
    while num_tokens > 0:
        output = constraint.fork() if constraint else None
        token_id = -1
        while num_tokens > 0 and (token_id < 0 or token_id >= NUM_SPECIAL):
            logits = draw.standard_normal(vocab_size, np.float32)
            start = time.perf_counter()
            if output:
                output.forced_ids()
                output.apply(logits)
            token_id = int(logits.argmax())
            if output:
                output.accept(token_id)
            yield 1e3 * (time.perf_counter() - start)
            num_tokens -= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab-size", type=int, default=262_144)
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    vocabulary = Vocabulary(options.vocab_size)
    vocab_size = vocabulary.vocab_size
    compiler = ConstraintCompiler(vocabulary, vocab_size, [1])
    first = milliseconds(lambda: compiler.compile(CASES["json_object"]))
    free = statistics.median(steps(None, vocab_size, options.tokens))
    print(f"vocabulary of {vocab_size}: read in {first:.0f} ms, once per engine")
    print(f"{'':12} {'compile':>9} {'median':>9} {'p95':>9} {'worst':>9}  ms per token")
    print(f"{'free':12} {'':9} {free:9.3f}")
    for name, spec in CASES.items():
        compiled = milliseconds(lambda spec=spec: compiler.compile(spec))
        costs = sorted(steps(compiler.compile(spec), vocab_size, options.tokens))
        median, p95 = costs[len(costs) // 2], costs[len(costs) * 95 // 100]
        print(f"{name:12} {compiled:9.3f} {median:9.3f} {p95:9.3f} {costs[-1]:9.3f}")


if __name__ == "__main__":
    main()
