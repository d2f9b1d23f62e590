"""Where this runtime means to answer otherwise than the official one, and how.

None stands for calls without an answer, ERROR for a refusal.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DIFFERENT", "ERROR"]

ERROR = "error"
_U = "[bos][U][:]"
_END = "[;][M][>]"
_FIRST = f"{_U}[a][b][c][d][e][f]{_END}"
_SECOND = f"{_FIRST}{_FIRST}[eot][U][:][g][h]{_END}"
_THIRD = f"{_U}[i]{_END}"
_ALL_TURNS = [None, None, _FIRST, None, _SECOND, None, None, _THIRD]


def _score(total: float, *tokens: float, lengths: bool = False) -> dict[str, Any]:
    return {
        "scores": [total],
        "token_lengths": [len(tokens)] if lengths else [],
        "token_scores": [list(tokens)],
    }


# A BOS that text or affixes begin with is the context's BOS, not a second one.
_ONE_BOS: dict[str, list[Any]] = {
    "raw bos starts the text": [None, None, "[bos][a]"],
    "raw bos twice": [None, None, "[bos][bos][a]"],
    "raw bos alone": [None, None, "[bos]"],
    "bos starts the prefix": [
        None,
        None,
        f"{_U}[a]{_END}",
        None,
        f"{_U}[a]{_END}{_U}[a]{_END}[eot]{_U}[b]{_END}",
    ],
}

# A call that cannot give an answer is refused; it gives no empty text.
_REFUSED: dict[str, list[Any]] = {
    "raw empty second turn": [None, None, "[bos][a]", ERROR, ERROR],
    "prompt too long": [None, ERROR, ERROR],
    "prompt of the whole cache": [None, ERROR, ERROR],
    "after the cache is full": [None, None, "x" * 25, ERROR, ERROR],
    "later turn of one token too many": [None, None, "xxx", ERROR, ERROR],
    "engine limit above the cache": [ERROR],
    "detokenize an id out of range": [ERROR],
    "length of zero": [ERROR, ERROR, ERROR],
    "score before a prefill": [None, ERROR],
}

# What was refused, or went wrong, officially.
_WORKS: dict[str, list[Any]] = {
    "prompt too long, then a short one": [None, ERROR, ERROR, None, "x" * 25],
    "padded chunks beyond the cache": [None, None, "x" * 5],
    "no stop tokens": [None, None, "xy" + "z" * 55],
    "metadata's greedy": [None, None, "a" * 12],
    "metadata's top_k of one": [None, None, "a" * 12],
    "model with btnh without mask": _ALL_TURNS,
    "model with several caches": _ALL_TURNS,
    "model with embedder": _ALL_TURNS,
    "model with embedder of single tokens": _ALL_TURNS,
    "model with recurrent state": [
        None,
        None,
        "[none]" + _FIRST.removesuffix("[>]"),
        None,
        f"[none]{_FIRST}[none]{_FIRST}".removesuffix("[>]") + "[eot][U][:][g][h][;][M]",
        None,
        None,
        "[none]" + _THIRD.removesuffix("[>]"),
    ],
}

# Stops are found however they overlap; what was held back is not lost.
_STOPS: dict[str, list[Any]] = {
    "overlapping stop": [None, None, ["a"]],
    "held at the length end": [None, None, ["x", "yz"]],
    "held at the end of the cache": [None, None, [*["x"] * 22, "xxx"]],
    "invalid byte": [None, None, ["a", "\ufffdb"]],
    "tokenizer and ids": [
        [107, 2, 205, 179],
        [],
        "a<eos>é",
        "\ufffd",
        "",
        1,
        [[3], [131, 132]],
    ],
}

# Scores are those of the position where the text would follow, and leave no trace.
_SCORES: dict[str, list[Any]] = {
    "score raw text": [None, None, _score(0.0, 0.0, 0.0, lengths=True)],
    "decode after a score": [None, None, _score(-40.0, -20.0, -20.0), f"{_U}[x]{_END}"],
}

DIFFERENT = {**_ONE_BOS, **_REFUSED, **_WORKS, **_STOPS, **_SCORES}

SAMPLED = ("temperature alone", "seed alone")
"""Cases of a sampler with gaps, which the official runtime fills with top_k = 1."""
