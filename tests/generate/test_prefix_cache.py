"""Prompts that begin alike: what is found, and that it changes no bit."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from litert_lm.bundle import open_bundle
from litert_lm.executor.opening import ExecutorOptions, known_facts, open_executor
from litert_lm.executor.probe import examine
from litert_lm.generate.prefix_cache import PrefixCache, PrefixUse
from litert_lm.generate.sequence import TokenSequence
from tests.fixtures.hybrid_bundle import LAYOUTS
from tests.fixtures.llama import llama_bundle

SIZE = 1 << 24  # bytes
LONG = 500


def some_ids(count: int, seed: int = 0) -> list[int]:
    return [1, *np.random.default_rng(seed).integers(3, 60, count - 1).tolist()]


@pytest.fixture
def open_model(cache_dir):
    opened = []

    def open_one(path: Path):
        chosen, bundle = ExecutorOptions(num_threads=1, cache_dir=str(cache_dir)), None
        bundle = open_bundle(path)
        facts = known_facts(bundle, chosen, examine)
        opened.append(open_executor(bundle, chosen, facts))
        return opened[-1]

    yield open_one
    for executor in opened:
        executor.close()


@pytest.fixture(scope="module")
def long_llama(tmp_path_factory) -> Path:
    return llama_bundle(context=1000).save(
        tmp_path_factory.mktemp("long") / "llama.litertlm"
    )


@pytest.fixture
def executor(open_model, long_llama):
    return open_model(long_llama)


@pytest.fixture
def cache(executor):
    return PrefixCache(executor, SIZE)


def said(sequence, ids, count=8, **options):
    """Logits of a few greedy steps after `ids`, and how many entries were known."""
    num_known = sequence.extend(ids, **options)
    rows = []
    for _ in range(count):
        rows.append(sequence.step().copy())
        sequence.append(int(np.argmax(rows[-1])))
    return np.array(rows), num_known


def alone(executor, ids, count=8):
    return said(TokenSequence(executor), ids, count)[0]


def asked(executor, cache, ids, **options):
    """As `said` in a sequence that is closed then."""
    sequence = TokenSequence(executor, cache)
    result = said(sequence, ids, **options)
    sequence.close()
    return result


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("count", [17, 40, 90])
def test_a_hit_changes_no_bit(layout, count, open_model, make_hybrid_bundle):
    executor = open_model(make_hybrid_bundle(**LAYOUTS[layout]))
    cache = PrefixCache(executor, SIZE)
    ids = some_ids(count)
    expected = alone(executor, ids)
    for known in (0, count - 1, count - 1):
        logits, num_known = asked(executor, cache, ids)
        assert num_known == known
        assert np.array_equal(logits, expected)


@pytest.mark.parametrize("count", [17, 128, 129, 130, 300, LONG, 900])
def test_a_hit_in_a_cache_of_every_length(count, executor, cache):
    ids = some_ids(count)
    expected = alone(executor, ids, 60)
    for _ in range(3):
        logits, _ = asked(executor, cache, ids, count=60)
        assert np.array_equal(logits, expected)
    assert cache.counts.num_hit_tokens == 2 * (count - 1)


def test_prompts_that_begin_alike(executor, cache):
    asked(executor, cache, some_ids(LONG))
    ids = some_ids(LONG)[:-40] + some_ids(70, seed=2)
    expected = alone(executor, ids)
    logits, num_known = asked(executor, cache, ids)
    assert 300 < num_known < LONG - 40
    assert np.array_equal(logits, expected)
    assert np.array_equal(asked(executor, cache, ids)[0], expected)


def test_a_living_sequence_lends_its_entries(executor, cache):
    ids = some_ids(LONG)
    owner = TokenSequence(executor, cache)
    first, _ = said(owner, ids, 300)
    assert cache.num_bytes == 0
    other = TokenSequence(executor, cache)
    logits, num_known = said(other, ids, 300)
    assert num_known == LONG - 1
    assert np.array_equal(logits, first)
    assert np.array_equal(said(owner, [5])[0], said(other, [5])[0])


def test_what_is_lent_survives_a_rewind_of_its_owner(executor, cache):
    ids = some_ids(LONG)
    owner = TokenSequence(executor, cache)
    expected, _ = said(owner, ids)
    owner.rewind(200)
    said(owner, some_ids(250, seed=3))
    logits, num_known = asked(executor, cache, ids)
    assert num_known == LONG - 1
    assert np.array_equal(logits, expected)


def test_a_sequence_that_went_back_to_the_start_is_as_new(executor, cache):
    ids = some_ids(LONG)
    sequence = TokenSequence(executor, cache)
    expected, _ = said(sequence, ids, 300)
    sequence.rewind(0)
    logits, num_known = said(sequence, ids, 300)
    assert num_known == LONG - 1
    assert np.array_equal(logits, expected)


def test_prompts_that_follow_each_other_are_found_too(executor, cache):
    first, second = some_ids(100), some_ids(150, seed=4)
    results = []
    for _ in range(3):
        sequence = TokenSequence(executor, cache)
        known = sequence.extend(first)
        logits, more = said(sequence, second)
        results.append((known, more, logits))
        sequence.close()
    assert [known for known, _, _ in results] == [0, 99, 99]
    assert [more for _, more, _ in results] == [0, 150, 150]
    assert np.array_equal(results[0][2], results[1][2])
    assert np.array_equal(results[0][2], results[2][2])


def test_nothing_is_found_behind_an_answer(executor, cache):
    sequence = TokenSequence(executor, cache)
    said(sequence, some_ids(100))
    assert said(sequence, some_ids(100, seed=5))[1] == 0


def test_another_salt_finds_nothing(executor, cache):
    ids = some_ids(LONG)
    expected, _ = asked(executor, cache, ids, reuse=PrefixUse(salt="x"))
    for salt, known in (("y", 0), ("", 0), ("x", LONG - 1), ("y", LONG - 1)):
        logits, num_known = asked(executor, cache, ids, reuse=PrefixUse(salt=salt))
        assert num_known == known
        assert np.array_equal(logits, expected)


def test_a_bypass_does_not_look_but_stores(executor, cache):
    ids, bypass = some_ids(LONG), PrefixUse(is_bypassed=True)
    asked(executor, cache, ids, reuse=bypass)
    assert asked(executor, cache, ids, reuse=bypass)[1] == 0
    assert cache.counts.num_queries == 0
    assert asked(executor, cache, ids)[1] == LONG - 1


def test_a_fork_goes_on_as_its_sequence(executor, cache):
    sequence = TokenSequence(executor, cache)
    sequence.extend(some_ids(LONG))
    fork = sequence.fork()
    more = some_ids(200, seed=6)
    assert np.array_equal(said(sequence, more)[0], said(fork, more)[0])


def test_sequences_that_are_just_dropped_leave_their_entries(executor, cache):
    ids = some_ids(LONG)
    said(TokenSequence(executor, cache), ids)
    gc.collect()
    assert asked(executor, cache, ids)[1] == LONG - 1


def test_a_full_cache_lets_go_of_what_was_not_used(executor):
    sequence = TokenSequence(executor)
    sequence.extend(some_ids(LONG))
    cache = PrefixCache(executor, 3 * sequence._cache.nbytes)
    for seed in range(3):
        asked(executor, cache, some_ids(LONG, seed))
    asked(executor, cache, some_ids(LONG, 0))
    asked(executor, cache, some_ids(LONG, 3))
    assert cache.num_bytes <= cache.max_bytes
    assert cache.counts.num_evictions == 1
    assert asked(executor, cache, some_ids(LONG, 1))[1] == 0
    assert asked(executor, cache, some_ids(LONG, 0))[1] == LONG - 1


def test_blocks_go_before_those_that_they_go_on_from(executor, cache):
    long = some_ids(LONG)
    asked(executor, cache, long)
    for seed in range(4):
        asked(executor, cache, long[:-40] + some_ids(100, seed))
    kept = cache.num_bytes
    cache.max_bytes = kept - 1
    asked(executor, cache, some_ids(20, 9))
    assert asked(executor, cache, long)[1] == LONG - 1
    assert cache.counts.num_evictions >= 1


@pytest.mark.parametrize("size", [0, 1000])
def test_a_cache_without_room_keeps_nothing(executor, size):
    cache = PrefixCache(executor, size)
    ids = some_ids(LONG)
    expected = alone(executor, ids)
    for _ in range(2):
        logits, num_known = asked(executor, cache, ids)
        assert num_known == 0
        assert np.array_equal(logits, expected)
    assert cache.num_bytes == 0


def test_prompts_of_a_few_tokens_are_not_kept(executor, cache):
    ids = some_ids(10)
    asked(executor, cache, ids)
    assert asked(executor, cache, ids)[1] == 0
    assert cache.num_bytes == 0


def test_short_prompts_do_not_keep_a_long_cache(executor, cache):
    sequence = TokenSequence(executor, cache)
    said(sequence, some_ids(40), 600)
    nbytes = sequence._cache.nbytes
    sequence.close()
    assert cache.num_bytes < nbytes / 8
    assert asked(executor, cache, some_ids(40))[1] == 39


def test_memory_is_given_back_with_the_cache(executor, cache):
    asked(executor, cache, some_ids(LONG))
    cache.clear()
    assert cache.num_bytes == 0
    assert asked(executor, cache, some_ids(LONG))[1] == 0


def test_many_threads_with_prompts_that_begin_alike(executor, cache):
    prompts = [some_ids(300)[: 180 + 20 * n] + some_ids(60, n) for n in range(4)]
    expected = [alone(executor, ids) for ids in prompts]
    wrong = []

    def ask(number):
        for turn in range(6):
            which = (number + turn) % len(prompts)
            sequence = TokenSequence(executor, cache)
            logits, _ = said(sequence, prompts[which])
            if not np.array_equal(logits, expected[which]):
                wrong.append(which)
            if turn % 2:
                sequence.rewind(50)
            sequence.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.counts.num_hits > 0


def test_progress_counts_what_was_known(executor, cache):
    ids, seen = some_ids(LONG), []
    asked(executor, cache, ids)
    longer = ids[:-40] + some_ids(70, seed=2)
    sequence = TokenSequence(executor, cache)
    sequence.extend(longer, progress=lambda *at: seen.append(at))
    assert seen == sorted(seen)
    assert seen[0][0] > 300
    assert seen[-1] == (len(longer) - 1, len(longer) - 1)


def test_a_cancelled_prompt_leaves_the_sequence_as_it_was(executor, cache):
    ids = some_ids(LONG)
    expected = alone(executor, ids)
    asked(executor, cache, some_ids(LONG)[:-40] + some_ids(70, seed=2))
    sequence = TokenSequence(executor, cache)
    with pytest.raises(RuntimeError):
        sequence.extend(ids, is_cancelled=lambda: True)
    assert sequence.token_ids == []
    assert np.array_equal(said(sequence, ids)[0], expected)


def test_the_default_model_is_exact_with_hits(open_model, shared_dir):
    path = shared_dir / "bundles" / "smollm2-135m-int8.litertlm"
    executor = open_model(path)
    cache = PrefixCache(executor, 1 << 29)
    ids = some_ids(300)
    expected = alone(executor, ids)
    longer = ids[:-20] + some_ids(60, seed=1)
    for _ in range(2):
        assert np.array_equal(asked(executor, cache, ids)[0], expected)
        logits, _ = asked(executor, cache, longer)
        assert np.array_equal(logits, alone(executor, longer))
    assert cache.counts.num_hit_tokens > 299 + 256


def test_memory_that_holds_a_later_block_too_is_not_given_away(executor, cache):
    first, second, third = some_ids(100), some_ids(60, seed=1), some_ids(60, seed=2)
    owner, other = TokenSequence(executor, cache), TokenSequence(executor, cache)
    owner.extend(first)
    other.extend(first)
    other.extend(second)  # lies between two blocks of the owner
    owner.extend(second)
    expected, _ = said(owner, third)
    owner.close()
    thief = TokenSequence(executor, cache)
    thief.extend(first)
    thief.extend(some_ids(150, seed=3))
    again = TokenSequence(executor, cache)
    again.extend(first)
    again.extend(second)
    logits, num_known = said(again, third)
    assert num_known == 60
    assert np.array_equal(logits, expected)


def test_a_sequence_may_end_while_its_thread_is_at_the_cache(executor, cache):
    """As the collector ends what was abandoned, at any allocation."""
    ids = some_ids(LONG)
    sequence = TokenSequence(executor, cache)
    expected, _ = said(sequence, ids)
    find, left = cache._find, [sequence]

    def find_and_end(keys):
        if left:
            left.pop().close()
        return find(keys)

    cache._find = find_and_end
    for known in (LONG - 1, LONG - 1):
        logits, num_known = asked(executor, cache, ids)
        assert num_known == known
        assert np.array_equal(logits, expected)
    assert not left and cache.num_bytes


def test_a_long_chain_of_blocks_is_forgotten_at_once(executor, cache):
    sequence = TokenSequence(executor, cache)
    sequence.extend(some_ids(20))
    for token_id in some_ids(900)[1:]:
        sequence.extend([token_id])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        cache.withdraw(next(reversed(cache._blocks)))
    finally:
        sys.setrecursionlimit(limit)
    assert not cache._blocks and not cache._places
