"""Constraints over small real tokenizers, and random outputs that fit them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from litert_lm.sampling.constraint.compiler import ConstraintCompiler, ConstraintSpec
from litert_lm.tokenizer import load_tokenizer
from tests.tokenizer.builders import tokenizer_data

#: Byte-level BPE, byte fallback with and without the dummy space at the start.
KINDS = ("byte-level", "gemma", "llama", "sp-gemma", "sp-llama")
NUM_PADDING = 7


@cache
def model_of(kind):
    """(tokenizer, compiler) of one of KINDS; the logits have rows without tokens."""
    tokenizer = load_tokenizer(*tokenizer_data(kind))
    eos_ids = sorted(tokenizer.special_ids)[:2]
    vocab_size = tokenizer.vocab_size + NUM_PADDING
    return tokenizer, ConstraintCompiler(tokenizer, vocab_size, eos_ids)


def constrain(kind, name, value=""):
    """The constraint `name` of a request, for one of KINDS."""
    return model_of(kind)[1].compile(ConstraintSpec(name, value))


def allowed_ids(constraint, kind):
    """Ids that may come next."""
    logits = np.zeros(model_of(kind)[0].vocab_size + NUM_PADDING, np.float32)
    constraint.apply(logits)
    return np.flatnonzero(np.isfinite(logits)).tolist()


@dataclass
class Walk:
    """One output that a constraint allowed.

    Attributes:
        ids: its tokens, without the one that ends it.
        text: what they write.
        is_ended: whether a stop token ended it, not its length.
    """

    ids: list[int] = field(default_factory=list)
    text: str = ""
    is_ended: bool = False


def walk(constraint, kind, seed=0, *, max_tokens=200, takes_forced=False):
    """Draw each token uniformly from those that may come next."""
    tokenizer = model_of(kind)[0]
    random = np.random.default_rng(seed)
    done = Walk()
    while len(done.ids) < max_tokens and not done.is_ended:
        forced = constraint.forced_ids() if takes_forced else []
        for token_id in forced or [int(random.choice(allowed_ids(constraint, kind)))]:
            constraint.accept(token_id)
            done.ids.append(token_id)
        done.is_ended = done.ids[-1] in tokenizer.special_ids
    if done.is_ended:
        done.ids.pop()
    done.text = tokenizer.decode(done.ids)
    return done
