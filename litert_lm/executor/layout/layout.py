"""A model's states and the steps it can run: what the executor knows of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from litert_lm.executor.layout.signatures import Call

__all__ = ["BatchStep", "ModelLayout", "State", "Step", "state_nbytes", "state_shape"]


@dataclass(frozen=True, slots=True)
class State:
    """One tensor that carries the sequence from step to step.

    Attributes:
        name: input name in the main model.
        shape: shape in the step with the longest context.
        dtype: element type.
        axis: the dimension that counts tokens; None for a recurrent state.
        is_local: a ring that holds only the last tokens of a sliding window.
        batch: sequences in the leading dimension, where a step takes several.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axis: int | None
    is_local: bool = False
    batch: int = 1


def state_shape(state: State, length: int, batch: int | None = None) -> tuple[int, ...]:
    """Shape of a state's array when the cache holds `length` tokens.

    `batch` counts only that many of its sequences.
    """
    shape = list(state.shape)
    if state.axis is not None and not state.is_local:
        shape[state.axis] = length
    if batch is not None and state.batch > 1:
        shape[0] = batch
    return tuple(shape)


def state_nbytes(state: State, length: int) -> int:
    """Bytes of a state's array when the cache holds `length` tokens."""
    return math.prod(state_shape(state, length)) * state.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over `length` tokens with a cache of `context` tokens.

    Attributes:
        key: signature key of the main model.
        calls: what runs, in order; `main` is the position of the main model's call.
        logits: output name, or None for a prefill that has none.
        num_logits: positions that get logits, 1 (the last) or `length`.
        shapes: state name -> shape in this step.
        batch: sequences that a call takes, all of them fed the same; the first counts.
    """

    key: str
    length: int
    context: int
    calls: tuple[Call, ...]
    main: int
    logits: str | None
    num_logits: int
    shapes: Mapping[str, tuple[int, ...]]
    batch: int = 1


@dataclass(frozen=True, slots=True)
class BatchStep:
    """A step of one token for each of `size` sequences with caches of their own.

    Attributes:
        key: signature key of the main model.
        size: number of sequences, the rows.
        masks: input names, by row.
        states: by row, state name -> name of its input and output.
        logits: output name, float32[1, size, V].
    """

    key: str
    size: int
    masks: tuple[str, ...]
    states: tuple[Mapping[str, str], ...]
    logits: str = "logits"
    tokens: str = "tokens"
    positions: str = "input_pos"


@dataclass(frozen=True, slots=True)
class ModelLayout:
    """Everything the executor knows of a model.

    Attributes:
        states: by name.
        decode: steps of one token with logits, by growing context.
        prefill: steps that take a prompt's tokens, by growing length.
        verify: steps of several tokens with logits for each.
        context_length: tokens that the longest cache holds.
        vocab_size: number of logits.
        skipped: signature key -> why it is not used.
        batch: steps that decode a token of several sequences.
    """

    states: Mapping[str, State]
    decode: tuple[Step, ...]
    prefill: tuple[Step, ...]
    verify: tuple[Step, ...]
    context_length: int
    vocab_size: int
    skipped: Mapping[str, str]
    batch: tuple[BatchStep, ...] = ()

    @property
    def is_recurrent(self) -> bool:
        """Some state has no token axis: it cannot be rewound nor fed padding."""
        return any(state.axis is None for state in self.states.values())

    @property
    def has_local_states(self) -> bool:
        """Some state is a ring over the last tokens."""
        return any(state.is_local for state in self.states.values())
