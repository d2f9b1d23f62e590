"""What processors do to logits."""

import numpy as np
import pytest

from litert_lm.sampling import LogitsPipeline, make_processors


def ones(size=8):
    return np.ones(size, np.float32)


def test_nothing_switched_on_passes_the_same_array_through():
    logits = ones()
    processors = make_processors(vocab_size=8, min_new_tokens=3)
    assert not processors
    assert processors([], logits) is logits


def test_suppressed_tokens_become_impossible_and_the_models_logits_stay():
    logits = ones()
    processed = make_processors(vocab_size=8, suppressed_ids=[2, 5, 2])([], logits)
    assert list(np.flatnonzero(processed == -np.inf)) == [2, 5]
    assert (logits == 1).all()


def test_stop_tokens_are_impossible_until_the_minimum():
    processors = make_processors(vocab_size=8, stop_ids=[7], min_new_tokens=2)
    for output_ids, is_masked in (([], True), ([1], True), ([1, 1], False)):
        assert (processors(output_ids, ones())[7] == -np.inf) == is_masked


def test_ids_beyond_the_vocabulary_are_left_out():
    assert not make_processors(vocab_size=8, suppressed_ids=[8, -1])


def test_the_buffer_is_used_again():
    processors = make_processors(vocab_size=8, suppressed_ids=[1])
    first = processors([], ones())
    assert processors([], 2 * ones()) is first
    assert first[0] == 2


class Recorder:
    def __init__(self):
        self.events = []

    def __call__(self, output_ids, logits):
        logits += len(output_ids)
        return logits

    def accept(self, token_id):
        self.events.append(("accept", token_id))

    def rollback(self, num_tokens):
        self.events.append(("rollback", num_tokens))


def test_every_processor_hears_of_tokens_taken_and_given_back():
    recorders = [Recorder(), Recorder()]
    pipeline = LogitsPipeline(recorders)
    pipeline.accept(4)
    pipeline.rollback(1)
    assert pipeline([4], ones())[0] == 3
    for recorder in recorders:
        assert recorder.events == [("accept", 4), ("rollback", 1)]


def test_pipelines_take_vocabularies_of_any_size():
    processors = make_processors(vocab_size=8, suppressed_ids=[1])
    for size in (8, 20, 8):
        assert processors([], ones(size)).size == size


@pytest.mark.parametrize("min_new_tokens", [0, -1])
def test_a_minimum_of_nothing_is_off(min_new_tokens):
    processors = make_processors(
        vocab_size=8, stop_ids=[1], min_new_tokens=min_new_tokens
    )
    assert not processors


def test_only_allowed_tokens_stay_possible():
    processed = make_processors(vocab_size=8, allowed_ids=[3, 5])([], ones())
    assert list(np.flatnonzero(processed > -np.inf)) == [3, 5]


def test_bias_is_added_and_lifts_no_masked_token():
    processors = make_processors(vocab_size=8, suppressed_ids=[2], bias={2: 9, 4: 1.5})
    processed = processors([], ones())
    assert processed[2] == -np.inf
    assert processed[4] == 2.5


def test_a_bias_beyond_float32_is_the_largest_number():
    processed = make_processors(vocab_size=4, bias={1: 3.4e38})(
        [], np.full(4, 3e38, np.float32)
    )
    assert np.isfinite(processed).all()
    assert processed.argmax() == 1


def test_a_pipeline_goes_on_with_others():
    first = make_processors(vocab_size=8, suppressed_ids=[2])
    both = first.followed_by([Recorder()])
    assert both([1], ones())[[2, 3]].tolist() == [-np.inf, 2.0]
