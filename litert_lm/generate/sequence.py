"""One sequence: its token ids, and the cache that holds most of their entries."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from litert_lm.errors import CancelledError, ContextFullError
from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.entries import Entries
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.generate.prefix_cache import PrefixCache, PrefixUse
from litert_lm.generate.prefix_chain import PrefixChain
from litert_lm.generate.sequence_state import SequenceState

__all__ = ["TokenSequence", "prepare_steps"]


class TokenSequence:
    """Token ids with their KV entries.

    The last id stays pending: the next decode step stores its entry and gives the
    logits after it.

    Args:
        executor: runs the model.
        prefix_cache: where prompts look for entries that others stored, or None.

    Attributes:
        token_ids: all ids so far, prompt and answers.
    """

    def __init__(
        self, executor: Executor, prefix_cache: PrefixCache | None = None
    ) -> None:
        self.token_ids: list[int] = []
        self._executor = executor
        self._cache = executor.new_cache()
        self._prepared: npt.NDArray[np.float32] | None = None
        self._reuse = PrefixUse()
        self._prefix_cache = prefix_cache
        self._chain = PrefixChain(executor, prefix_cache)
        finalizer = weakref.finalize(self, self._chain.close)
        finalizer.atexit = False

    @property
    def num_free(self) -> int:
        """Tokens that the context has left."""
        return self._executor.context_length - len(self.token_ids)

    @property
    def cache(self) -> KVCache:
        """Where the entries are, until the next call."""
        return self._cache

    def extend(
        self,
        token_ids: Iterable[int],
        *,
        reuse: PrefixUse | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Append ids and store all entries but the last one's.

        Args:
            reuse: how the prefix cache is used; None as before.
            is_cancelled, progress: as in Executor.prefill.

        Returns:
            How many entries came from the prefix cache.

        Raises:
            CancelledError: asked for by `is_cancelled`.

        After any error the sequence is as before.
        """
        before = len(self.token_ids)
        self._reuse = reuse or self._reuse
        try:
            self.token_ids.extend(token_ids)
            pending = self.token_ids[self._cache.num_tokens : -1]
            if not pending:
                return 0
            return self._chain.prefill(
                self._cache,
                pending,
                self._reuse,
                is_cancelled=is_cancelled,
                progress=progress,
            )
        except BaseException as error:
            if not isinstance(error, CancelledError) or not self._executor.can_rewind:
                self._drop_entries()
            self.rewind(before)
            raise

    def extend_scored(
        self,
        token_ids: Iterable[int],
        *,
        is_cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Append ids like `extend`, with the logits that speak of them.

        The prefix cache is not used: it holds no logits.

        Yields:
            Logits [num_tokens, vocab_size], in all a row for every id but the first of
            an empty sequence. Each array holds until the next is asked for.
        """
        if self.token_ids and len(self.token_ids) - self._cache.num_tokens != 1:
            self._leave_one_pending()
        before = len(self.token_ids)
        try:
            self.token_ids.extend(token_ids)
            pending = self.token_ids[self._cache.num_tokens : -1]
            yield from self._executor.score(
                self._cache, pending, is_cancelled=is_cancelled, progress=progress
            )
        except BaseException:
            self._drop_entries()
            self.rewind(before)
            raise

    @property
    def _is_one_pending(self) -> bool:
        return len(self.token_ids) - self._cache.num_tokens == 1

    def append(self, token_id: int) -> None:
        """Append a generated id; its entry is stored by the next step."""
        self.token_ids.append(token_id)

    def step(self) -> npt.NDArray[np.float32]:
        """Logits [vocab_size] after the last id; valid until the next step."""
        cache, ids = self._cache, self.token_ids
        if self._prepared is not None:
            prepared, self._prepared = self._prepared, None
            if len(ids) == cache.num_tokens:
                return prepared
        if len(ids) - cache.num_tokens != 1:
            self._leave_one_pending()
            cache = self._cache
        try:
            return self._executor.decode(cache, ids[-1])
        except ContextFullError:
            raise
        except BaseException:
            self._drop_entries()
            raise

    def rewind(self, num_tokens: int) -> None:
        """Forget all ids after the first `num_tokens`.

        Recurrent states and rings cannot go back; the next call builds them again, in
        calls of other lengths maybe, so that logits can differ in their last bits.
        """
        self._prepared = None
        # Ctrl-C may come anywhere: ids without entries do no harm, entries without
        # ids would be taken for those of the next ones.
        if self._cache.num_tokens > num_tokens:
            if self._executor.can_rewind and num_tokens:
                self._chain.rewind(num_tokens)
                self._cache.rewind(num_tokens)
            else:
                self._start_anew()
        del self.token_ids[num_tokens:]

    def fork(self) -> TokenSequence:
        """A sequence of its own with the same ids and entries, bit for bit."""
        copy = TokenSequence(self._executor, self._prefix_cache)
        copy.token_ids = list(self.token_ids)
        copy._reuse = self._reuse
        copy._cache.copy_from(self._cache)
        copy._chain.follow(self._chain)
        return copy

    def state(self) -> SequenceState:
        """Where the sequence stands, in copies of its entries."""
        cache, count = self._cache, self._cache.num_tokens
        kept = None
        if cache.length >= 0:
            kept = Entries.copied(cache, 0, count, whole=True)

        def fill(target: KVCache) -> None:
            if kept is not None:
                target.put(kept, 0, 0, count, whole=True)

        return SequenceState(
            token_ids=tuple(self.token_ids),
            num_stored=count,
            length=cache.length,
            reserved=cache.reserved,
            fill=fill,
            nbytes=0 if kept is None else kept.nbytes,
        )

    def restore(self, state: SequenceState) -> None:
        """Stand where another sequence of the same model stood.

        After an error the sequence is empty.
        """
        self.close()
        try:
            if state.length >= 0:
                self._cache.grow(state.length, state.reserved)
                state.fill(self._cache)
                self._cache.num_tokens = state.num_stored
            self.token_ids = list(state.token_ids)
        except BaseException:
            self._drop_entries()
            raise

    def close(self) -> None:
        """Forget everything; what the prefix cache may keep goes there."""
        self._start_anew()
        self.token_ids = []

    def _start_anew(self) -> None:
        """Have the next call store all entries anew, as the first one did."""
        self._cache = self._executor.new_cache()  # before others get the old one
        self._chain.close()

    def _drop_entries(self) -> None:
        """Have the next call store all entries anew: a call was left in its middle."""
        self._cache = self._executor.new_cache()
        self._chain.drop()

    def _leave_one_pending(self) -> None:
        count = len(self.token_ids)
        if self._cache.num_tokens >= count:
            last = self.token_ids[-1]
            self.rewind(count - 1)
            self.token_ids.append(last)
        self.extend(())


def prepare_steps(sequences: Sequence[TokenSequence]) -> None:
    """Have the next `step` of each sequence done, all at once where the model can.

    Each is to be taken before anything but an append happens to its sequence.
    """
    ready = [each for each in sequences if each._is_one_pending]
    if len(ready) < 2 or not ready[0]._executor.max_batch:
        return
    try:
        found = ready[0]._executor.decode_each(
            [each._cache for each in ready], [each.token_ids[-1] for each in ready]
        )
    except BaseException:
        for each in ready:
            each._drop_entries()
        raise
    for each, logits in zip(ready, found, strict=True):
        each._prepared = logits
