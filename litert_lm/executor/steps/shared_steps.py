"""Decode steps of several sequences at a time, each as it would be alone.

Threads that want a step stand in line. The first one, when its turn comes, serves as
many of the others as fit into one call of the model. They come back for their next
steps at about the same time, so it waits a moment for those who were served lately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ExecutionError
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.steps.call_queue import CallQueue, Waiter

__all__ = ["SharedSteps"]

Logits = npt.NDArray[np.float32]


class _Wanted(Waiter):
    """A decode step that somebody wants."""

    def __init__(self, cache: KVCache, token_id: int) -> None:
        super().__init__()
        self.cache = cache
        self.token_id = token_id
        self.logits: Logits | None = None
        self._position = cache.num_tokens

    def is_served(self) -> bool:
        return self.logits is not None

    def has_room(self) -> bool:
        """Whether the cache takes an entry as it is."""
        return self._position < self.cache.length

    def begin(self) -> None:
        """Count no entry of an attempt that was left in its middle."""
        self.cache.num_tokens = self._position


class SharedSteps:
    """Serves decode steps while several sequences run.

    Args:
        queue: the line that all calls of the model stand in.
        decode: one step.
        decode_together: one step of several sequences with equally long caches.
        least, most: sequences for which that is worth it, and takes.
        patience: seconds to wait for who was served lately.

    Attributes:
        away: id of a cache that was served lately -> when, and its length; one dict
            for good. While it holds any, the next step is to be shared.
    """

    def __init__(
        self,
        queue: CallQueue,
        decode: Callable[[KVCache, int], Logits],
        decode_together: Callable[[Sequence[KVCache], Sequence[int]], list[Logits]],
        *,
        least: int,
        most: int,
        patience: float,
    ) -> None:
        self._queue = queue
        self._decode = decode
        self._decode_together = decode_together
        self._least = least
        self._most = most
        self._patience = patience
        self.away: dict[int, tuple[float, int]] = {}

    def decode(self, cache: KVCache, token_id: int) -> Logits:
        """One step, in turn; what `Executor.decode` says of its result holds here."""
        self.away.pop(id(cache), None)
        wanted = _Wanted(cache, token_id)
        group = [wanted]
        try:
            self._queue.stand(wanted, wanted.is_served)
            if wanted.logits is None:
                with self._queue.lock:
                    group = self._serve(wanted)
        finally:
            # After an error the others are not served, and look after themselves.
            self._queue.leave(*group)
        logits = wanted.logits
        if logits is None:
            raise ExecutionError("A decode step ended without logits; try it again.")
        return logits

    def decode_each(
        self, caches: Sequence[KVCache], token_ids: Sequence[int]
    ) -> list[Logits]:
        """A step of each of one thread's sequences; equally long ones share calls."""
        found: dict[int, Logits] = {}
        for group in self._groups(caches):
            some = [caches[i] for i in group], [token_ids[i] for i in group]
            if len(group) < self._least:
                made = [self.decode(*each) for each in zip(*some, strict=True)]
            else:
                with self._queue.turn():
                    made = self._decode_together(*some)
            found.update(zip(group, made, strict=True))
        return [found[i] for i in range(len(caches))]

    def _groups(self, caches: Sequence[KVCache]) -> list[list[int]]:
        """Positions of caches that fit into one call."""
        by_length: dict[int, list[int]] = {}
        for i, cache in enumerate(caches):
            is_full = cache.num_tokens >= cache.length  # and will get longer
            by_length.setdefault(-1 - i if is_full else cache.length, []).append(i)
        return [
            group[at : at + self._most]
            for group in by_length.values()
            for at in range(0, len(group), self._most)
        ]

    def _serve(self, wanted: _Wanted) -> list[_Wanted]:
        """Serve a step in its turn, and others with it; who was served."""
        if wanted.is_served():
            return [wanted]
        group = self._gather(wanted)
        for each in group:
            each.begin()
        if len(group) < self._least:
            group = [wanted]
            wanted.logits = self._decode(wanted.cache, wanted.token_id)
        else:
            caches = [each.cache for each in group]
            ids = [each.token_id for each in group]
            found = self._decode_together(caches, ids)
            for each, logits in zip(group, found, strict=True):
                each.logits = logits
        if self.away or len(self._queue.waiting()) > 1:
            now = monotonic()
            for each in group:
                self.away[id(each.cache)] = now, each.cache.length
        return group

    def _gather(self, wanted: _Wanted) -> list[_Wanted]:
        """Those to be served together; waits for who is about to come back."""
        length = wanted.cache.length
        if not wanted.has_room():
            return [wanted]
        while True:
            others = [
                each
                for each in self._queue.waiting()
                if isinstance(each, _Wanted)
                and each is not wanted
                and each.cache.length == length
                and each.has_room()
                and not each.is_served()
            ]
            found = [wanted, *others][: self._most]
            ends = self._expected(length)
            if len(found) >= self._most or not ends:
                return found
            if len(found) + len(ends) < self._least:
                return found
            self._queue.watch(wanted, max(0.0, max(ends) - monotonic()))

    def _expected(self, length: int) -> list[float]:
        """Until when to wait for each of those who were served lately."""
        now, ends = monotonic(), []
        for key, (served, its_length) in tuple(self.away.items()):
            if served + self._patience <= now:
                self.away.pop(key, None)
            elif its_length == length:
                ends.append(served + self._patience)
        return ends
