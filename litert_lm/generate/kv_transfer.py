"""Export and import of a prompt's KV state by ``kv_transfer_params``.

A request with ``{"do_remote_decode": true}`` exports: when its answer ends by LENGTH,
the finish info holds a dictionary to be sent with the same prompt. That request imports
the state and computes nothing of the prompt. The dictionary:

    do_remote_prefill, do_remote_decode   true and false
    kv_handle                             which state; cannot be guessed
    num_tokens                            tokens of the context that it is for
    model_fingerprint                     SHA-256 of the bundle

States stay in the memory of the engine, the last used ones. Where a handle is unknown
by now, the prompt is computed again: the answer is the same, and
``PromptInfo.is_imported`` tells. No value of the dictionary is ever used as a
path or address.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from litert_lm.errors import InvalidArgumentError, SavedStateError, shown
from litert_lm.generate.response import FinishReason, SequenceOutput
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.sequence_state import SequenceState

__all__ = ["KVTransfer", "KVTransfers", "read_kv_transfer"]

_MAX_STATES = 64
_HANDLE_BYTES = 16
_FIELD = "kv_transfer_params"


@dataclass(frozen=True, kw_only=True)
class KVTransfer:
    """What a request's dictionary asks for.

    Attributes:
        is_export: keep the prompt's state.
        handle: of the state to import, or None.
        num_tokens, model: what the importing dictionary says of it.
    """

    is_export: bool = False
    handle: str | None = None
    num_tokens: int = 0
    model: str = ""


def read_kv_transfer(params: Mapping[str, Any] | None) -> KVTransfer:
    """What ``kv_transfer_params`` ask for.

    Raises:
        InvalidArgumentError: values of a wrong type, or flags that exclude each other.
    """
    params = params or {}
    is_export = _flag(params, "do_remote_decode")
    if not _flag(params, "do_remote_prefill"):
        return KVTransfer(is_export=is_export)
    if is_export:
        raise InvalidArgumentError(
            f"{_FIELD} sets both do_remote_decode and do_remote_prefill; set one: the "
            "first exports, the second imports."
        )
    return KVTransfer(
        handle=_text(params, "kv_handle"),
        model=_text(params, "model_fingerprint"),
        num_tokens=_count(params, "num_tokens"),
    )


class KVTransfers:
    """The exported states of one engine; safe to use from all threads.

    Args:
        model: SHA-256 of the bundle.
        max_bytes: most memory to keep; the last exported state is always kept.
    """

    def __init__(self, model: str, max_bytes: int) -> None:
        self._model = model
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._states: OrderedDict[str, SequenceState] = OrderedDict()

    def check(
        self, transfer: KVTransfer, prompt_ids: Sequence[int], num_used: int
    ) -> None:
        """Check an import against a prompt that is to follow `num_used` tokens.

        Raises:
            SavedStateError: the state is of another model.
            InvalidArgumentError: the state is of another prompt.
        """
        if transfer.handle is None:
            return
        if transfer.model != self._model:
            raise SavedStateError(
                f"{_FIELD} was exported from another model, model_fingerprint is "
                f"{shown(transfer.model)}; this one has {self._model!r}. Ask an engine "
                "of that model, or leave it out."
            )
        state = self._find(transfer.handle)
        theirs = None if state is None else state.token_ids[num_used:]
        count = num_used + len(prompt_ids)
        if transfer.num_tokens != count:
            raise InvalidArgumentError(
                f"{_FIELD} belongs to another prompt: num_tokens is "
                f"{shown(transfer.num_tokens)}, the context with this prompt has "
                f"{count}; send it with the prompt that was exported."
            )
        if theirs not in (None, tuple(prompt_ids)):
            raise InvalidArgumentError(
                f"{_FIELD} belongs to another prompt of {count} tokens; send it with "
                "the prompt that was exported."
            )

    def restore(
        self, transfer: KVTransfer, sequence: TokenSequence, prompt_ids: Sequence[int]
    ) -> int | None:
        """Put the imported state into a sequence that the prompt would follow.

        Returns:
            How many entries of the prompt that gave, 0 for a prompt of one token. None
            where nothing is imported, or the state is gone, or is one of another
            context: the prompt is to be computed then.
        """
        state = None if transfer.handle is None else self._find(transfer.handle)
        before = len(sequence.token_ids)
        if state is None or state.token_ids != (*sequence.token_ids, *prompt_ids):
            return None
        sequence.restore(state)
        return max(0, state.num_stored - before)

    def exporting(
        self, outputs: Iterator[SequenceOutput], state: SequenceState
    ) -> Iterator[SequenceOutput]:
        """Outputs as they are, but that what ends by LENGTH exports the state."""
        exported: Mapping[str, Any] | None = None
        for output in outputs:
            info = output.finish_info
            if info is None or info.finish_reason is not FinishReason.LENGTH:
                yield output
                continue
            exported = exported or self.export(state)
            finish = replace(info, kv_transfer_params=exported)
            yield replace(output, finish_info=finish)

    def export(self, state: SequenceState) -> Mapping[str, Any]:
        """Keep a state; returns the dictionary that imports it."""
        handle = secrets.token_urlsafe(_HANDLE_BYTES)
        with self._lock:
            self._states[handle] = state
            while len(self._states) > 1 and self._is_too_much():
                self._states.popitem(last=False)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "kv_handle": handle,
            "num_tokens": len(state.token_ids),
            "model_fingerprint": self._model,
        }

    def close(self) -> None:
        """Forget all states."""
        with self._lock:
            self._states.clear()

    def _find(self, handle: str) -> SequenceState | None:
        with self._lock:
            state = self._states.get(handle)
            if state is not None:
                self._states.move_to_end(handle)
            return state

    def _is_too_much(self) -> bool:
        total = sum(state.nbytes for state in self._states.values())
        return total > self._max_bytes or len(self._states) > _MAX_STATES


def _flag(params: Mapping[str, Any], name: str) -> bool:
    value = params.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidArgumentError(
        f"{_FIELD} must hold true or false as {name}, got {shown(value)}."
    )


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if isinstance(value, str):
        return value
    raise _unlike_exported(name, value)


def _count(params: Mapping[str, Any], name: str) -> int:
    """A whole number; the wire makes floats of them."""
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unlike_exported(name, value)
    if 0 <= value < math.inf and value == int(value):
        return int(value)
    raise _unlike_exported(name, value)


def _unlike_exported(name: str, value: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{_FIELD} with do_remote_prefill must hold {name} as an exporting request "
        f"gave it, got {shown(value)}; send all of it unchanged."
    )
