"""Executors over models that are compiled anew for each length of the cache."""

from __future__ import annotations

import json

import numpy as np
import pytest

from litert_lm.bundle import open_bundle
from litert_lm.executor.kv.cache_lengths import doubling_lengths
from litert_lm.executor.opening import ExecutorOptions, known_facts
from litert_lm.executor.probe import examine
from tests.executor.speech import dump, greedy, spelled
from tests.fixtures.echo import EchoOptions
from tests.fixtures.echo_tokens import encode

# Without a mask input the graph makes its mask from a constant as long as the cache.
CHOSEN = {"mask": None, "kv_length": 2048, "prefill": (8, 32)}


def spoken(count: int) -> str:
    """How a perfect run repeats `count` tokens."""
    return spelled(EchoOptions(**CHOSEN), text(count))


def text(count: int) -> list[int]:
    return encode(("0123456789abcdefghijklmnopqrstuvwxyz" * 60)[:count])


def say(executor, cache, ids: list[int], count: int) -> str:
    return spelled(EchoOptions(**CHOSEN), greedy(executor, cache, ids, count))


def test_the_cache_is_as_long_as_its_use(open_model, make_echo_bundle):
    executor = open_model(make_echo_bundle(**CHOSEN))
    lengths = []
    for count in (10, 140, 300, 900):
        cache = executor.new_cache()
        assert say(executor, cache, text(count), 5) == spoken(5)
        lengths.append(cache.length)
    assert lengths == [256, 256, 512, 1024]


def test_a_cache_grows_while_it_is_in_use(open_model, make_echo_bundle):
    executor = open_model(make_echo_bundle(**CHOSEN))
    options = EchoOptions(**CHOSEN)
    assert dump(executor, options, text(400)) == spoken(400)


def test_sequences_of_many_lengths_take_turns(open_model, make_echo_bundle):
    executor = open_model(make_echo_bundle(**CHOSEN))
    counts = [10, 200, 600, 1200]
    caches = [executor.new_cache() for _ in counts]
    for cache, count in zip(caches, counts, strict=True):
        executor.prefill(cache, text(count)[:-1])
    last = [text(count)[-1] for count in counts]
    said: list[list[int]] = [[] for _ in counts]
    for _ in range(6):
        for place, cache in enumerate(caches):
            last[place] = int(np.argmax(executor.decode(cache, last[place])))
            said[place].append(last[place])
    texts = {spelled(EchoOptions(**CHOSEN), ids) for ids in said}
    assert texts == {spoken(6)}
    assert [cache.length for cache in caches] == [256, 512, 1024, 2048]


def test_a_copied_cache_goes_on_at_its_length(open_model, make_echo_bundle):
    executor = open_model(make_echo_bundle(**CHOSEN))
    cache, copy = executor.new_cache(), executor.new_cache()
    executor.prefill(cache, text(300)[:-1])
    copy.copy_from(cache)
    for each in (copy, cache):
        assert say(executor, each, text(300)[-1:], 5) == spoken(5)


@pytest.mark.parametrize(
    "name",
    [
        "gemma3_tiny.litertlm",
        "gemma3_tiny.task",
        "gemma4_tiny.litertlm",
        "llama_tiny_gpu.litertlm",
        "llama_tiny_split.litertlm",
    ],
)
def test_official_files_that_cannot_be_resized(open_model, cache_dir, shared_dir, name):
    path = shared_dir / "bundles" / name
    reference = json.loads((shared_dir / "bundles/tiny_reference.json").read_text())
    options = ExecutorOptions(num_threads=1, cache_dir=str(cache_dir))
    assert known_facts(open_bundle(path), options, examine).patches
    executor, lengths = open_model(path), set()
    for item in reference[name.replace(".task", ".litertlm")]["items"]:
        cache = executor.new_cache()
        said = greedy(executor, cache, item["prompt_ids"], len(item["output_ids"]))
        assert said == item["output_ids"]
        lengths.add(cache.length)
    assert 128 in lengths


def test_without_a_weight_cache_nothing_is_compiled_twice(
    open_model, make_echo_bundle, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    executor = open_model(make_echo_bundle(**CHOSEN), cache_dir=":nocache")
    assert not executor.is_resizable
    assert say(executor, executor.new_cache(), text(30), 5) == spoken(5)


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [(100, [100]), (256, [128, 256]), (257, [128, 257]), (600, [256, 600])],
)
def test_lengths_worth_a_compilation(longest, lengths):
    assert doubling_lengths(longest) == lengths
    assert doubling_lengths(8 * 1024) == [256, 512, 1024, 2048, 4096, 8192]
