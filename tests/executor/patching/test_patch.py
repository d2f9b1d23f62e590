"""Models given a shorter cache by changing their bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from litert_lm.bundle.verify import verify_model
from litert_lm.errors import ModelFileError, UnsupportedModelError
from litert_lm.executor.patching.patch import Patch
from litert_lm.executor.patching.patch_reader import read_patches
from tests.executor.cached_model import (
    MAIN,
    VOCAB,
    CachedModel,
    layout_of,
    logits_of,
    shortened,
)

MASKED = np.float32(-1e9)


def counted(graph: Any, positions: Any, tokens: int) -> Any:
    """A mask from a constant 0, 1, 2 ..., as Gemma's exports make it."""
    entries = graph.const(np.arange(tokens, dtype=np.int32).reshape(1, 1, 1, tokens))
    seen = graph.compare("LESS_EQUAL", entries, positions)
    return graph.select(seen, graph.const(np.float32(0)), graph.const(MASKED))


def looked_up(graph: Any, positions: Any, tokens: int) -> Any:
    """A mask that is a row of a triangle, as exports without a mask input make it."""
    triangle = np.where(np.tri(tokens, dtype=bool), np.float32(0), MASKED)
    rows = graph.const(triangle.reshape(tokens, 1, 1, tokens))
    return graph.gather(rows, positions)


def converted(graph: Any, positions: Any, tokens: int) -> Any:
    """The constant passes a reshape and a cast before it meets the cache."""
    entries = graph.const(np.arange(tokens), "int32")
    entries = graph.cast(graph.reshape(entries, [1, 1, 1, tokens]), "float32")
    seen = graph.compare("LESS_EQUAL", entries, graph.cast(positions, "float32"))
    return graph.select(seen, graph.const(np.float32(0)), graph.const(MASKED))


def joined(graph: Any, positions: Any, tokens: int) -> Any:
    """Two entries behind the cache, cut off again."""
    mask = counted(graph, positions, tokens)
    whole = graph.concat([mask, graph.const(np.zeros((1, 1, 1, 2), np.float32))], -1)
    behind = graph.slice(whole, [0, 0, 0, tokens], [1, 1, 1, 2])
    mask = graph.slice(whole, [0, 0, 0, 0], [1, 1, 1, tokens])
    return graph.add(mask, graph.reduce("SUM", behind, [-1]))


def spread(graph: Any, positions: Any, tokens: int) -> Any:
    """Heads and cache in one axis, told apart again; a constant of equal numbers."""
    mask = counted(graph, positions, tokens)
    twice = graph.reshape(graph.concat([mask, mask], 1), [1, 2 * tokens])
    twice = graph.add(twice, graph.const(np.zeros((1, 2 * tokens), np.float32)))
    first = graph.slice(graph.reshape(twice, [2, tokens]), [0, 0], [1, tokens])
    return graph.reshape(first, [1, 1, 1, tokens])


MASKS = [counted, looked_up, converted, joined, spread]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("tokens", [64, VOCAB, 1024])
def test_a_shorter_cache_changes_no_logit(mask, tokens):
    data = CachedModel(tokens=tokens, mask=mask).to_bytes()
    count = min(20, tokens // 2)
    short = logits_of(shortened(data, tokens // 2), count)
    assert np.array_equal(short, logits_of(data, count))


@pytest.mark.parametrize("mask", MASKS)
def test_constants_outside_the_flatbuffer(mask):
    data = CachedModel(tokens=2048, mask=mask, external_from_bytes=64).to_bytes()
    assert np.array_equal(logits_of(shortened(data, 128), 20), logits_of(data, 20))


@pytest.mark.parametrize("mask", [counted, looked_up])
def test_a_cache_as_long_as_a_head_is_wide(mask):
    data = CachedModel(tokens=8, width=8, mask=mask).to_bytes()
    assert np.array_equal(logits_of(shortened(data, 5), 5), logits_of(data, 5))


@pytest.mark.parametrize("mask", MASKS)
def test_the_shorter_model_has_the_shorter_cache(mask):
    data = CachedModel(mask=mask).to_bytes()
    short = shortened(data, 24)
    assert len(short) == len(data)
    assert layout_of(verify_model(short, MAIN)).context_length == 24


def test_lengths_that_mean_something_else_stay():
    """A layer as wide as the cache is long."""

    def head(graph: Any, x: Any) -> Any:
        wide = graph.const(np.eye(64, 8, dtype=np.float32))
        x = graph.fully_connected(x, wide)
        return graph.reshape(graph.reshape(x, [64, 1]), [1, 64])

    data = CachedModel(mask=counted, head=head).to_bytes()
    assert np.array_equal(logits_of(shortened(data, 16), 16), logits_of(data, 16))


def refusal(**changes: Any) -> str:
    data = CachedModel(**{"mask": counted, **changes}).to_bytes()
    with pytest.raises(UnsupportedModelError) as caught:
        shortened(data, 4)
    return str(caught.value)


def test_a_constant_that_counts_two_things_is_refused():
    """A reshape to a head's width, and one to the cache's length, are one constant."""
    assert "counts other things" in refusal(tokens=8, width=8, mask=converted)


def test_an_average_over_the_cache_is_refused():
    def centred(graph: Any, scores: Any) -> Any:
        return graph.sub(scores, graph.mean(scores))

    assert "MEAN" in refusal(scores=centred)


def test_weights_as_wide_as_the_cache_are_refused():
    def mixed(graph: Any, scores: Any) -> Any:
        return graph.fully_connected(scores, graph.const(np.eye(64, dtype=np.float32)))

    assert "FULLY_CONNECTED" in refusal(scores=mixed)


def test_operators_of_unknown_meaning_are_refused():
    def turned(graph: Any, scores: Any) -> Any:
        axes = graph.const([3], "int32")
        return graph.one("REVERSE_V2", [scores, axes], scores.shape, scores.dtype)

    assert "REVERSE_V2" in refusal(scores=turned)


def test_entries_at_the_end_of_the_cache_are_refused():
    def last(graph: Any, scores: Any) -> Any:
        end = graph.slice(scores, [0, 0, 0, 63], [1, 1, 1, 1])
        return graph.add(scores, graph.mul(end, graph.const(np.float32(0))))

    data = CachedModel(mask=counted, scores=last).to_bytes()
    model = verify_model(data, MAIN)
    assert read_patches({MAIN: model}, layout_of(model))[MAIN].least == {"decode": 64}


def test_a_patch_survives_json():
    model = verify_model(CachedModel(mask=looked_up).to_bytes(), MAIN)
    patch = read_patches({MAIN: model}, layout_of(model))[MAIN]
    assert patch.cuts
    assert Patch.from_json(json.loads(json.dumps(patch.to_json()))) == patch


def test_bytes_that_were_changed_meanwhile_are_refused():
    data = CachedModel(mask=counted).to_bytes()
    model = verify_model(data, MAIN)
    patch = read_patches({MAIN: model}, layout_of(model))[MAIN]
    with pytest.raises(ModelFileError, match="changed"):
        patch.write(memoryview(bytearray(shortened(data, 32))), 16)
    with pytest.raises(ModelFileError, match="changed"):
        patch.write(memoryview(bytearray(100)), 16)
