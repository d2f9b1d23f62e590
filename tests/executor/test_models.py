"""Models of every layout: what prefill and decode leave in the cache."""

from __future__ import annotations

import pytest

from litert_lm.errors import UnsupportedModelError
from tests.executor.speech import dump, greedy, spelled
from tests.fixtures.bundles import ToyBundle, echo_bundle
from tests.fixtures.cases import MODEL_KINDS
from tests.fixtures.echo import EchoOptions
from tests.fixtures.echo_tokens import NOTHING, encode

RECURRENT = {"readout": "previous", "recurrent": True}


def expected_dump(options: EchoOptions, ids: list[int]) -> str:
    """What a perfect run leaves in the slots of `ids`."""
    count = len(ids)
    slots = {
        "token": ids,
        "previous": [NOTHING, *ids[:-1]],
        "position": range(count),
        "mask": range(1, count + 1),
        "local": [min(n, options.window) for n in range(1, count + 1)],
    }
    return spelled(options, slots[options.readout])


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_cache_of_every_kind_of_model(open_model, make_echo_bundle, kind):
    options = EchoOptions(**MODEL_KINDS[kind])
    executor = open_model(make_echo_bundle(**MODEL_KINDS[kind]))
    for count in (1, 2, 4, 5, 8, 9, 13, 20, 25):
        ids = encode("abcdefghijklmnopqrstuvwxyz"[:count])
        assert dump(executor, options, ids) == expected_dump(options, ids)


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_later_turns_of_every_kind_of_model(open_model, make_echo_bundle, kind):
    options = EchoOptions(**MODEL_KINDS[kind])
    executor = open_model(make_echo_bundle(**MODEL_KINDS[kind]))
    cache, ids = executor.new_cache(), encode("abcdefg")
    for part in (ids[:3], ids[3:4]):
        executor.prefill(cache, part)
    assert dump(executor, options, ids[4:], cache) == expected_dump(options, ids)


@pytest.mark.parametrize("count", range(20, 30))
def test_padding_stays_inside_the_cache(open_model, make_echo_bundle, count):
    chosen = {"prefill": (8,), "kv_length": 30}
    executor = open_model(make_echo_bundle(**chosen))
    options, ids = (
        EchoOptions(**chosen),
        encode("abcdefghijklmnopqrstuvwxyzABCD"[:count]),
    )
    room = 30 - count + 1
    said = greedy(executor, executor.new_cache(), ids, room)
    whole = [*ids, *encode(["<eot>"])]
    assert spelled(options, said) == spelled(options, whole[:room])


@pytest.mark.parametrize("mask", [None, "float32"])
@pytest.mark.parametrize("is_resizable", [True, False])
def test_long_caches_whether_resizable_or_not(
    open_model, make_echo_bundle, mask, is_resizable
):
    chosen = {"mask": mask, "kv_length": 600, "prefill": (8, 32)}
    executor = open_model(make_echo_bundle(**chosen), is_resizable=is_resizable)
    assert executor.is_resizable == is_resizable
    options, ids = EchoOptions(**chosen), encode("0123456789" * 28)
    assert dump(executor, options, ids) == expected_dump(options, ids)


def test_recurrent_state_starts_from_nothing_in_every_sequence(
    open_model, make_echo_bundle
):
    executor = open_model(make_echo_bundle(**RECURRENT))
    options = EchoOptions(**RECURRENT)
    for ids in (encode("abc"), encode("d"), encode("efghijklmnop")):
        assert dump(executor, options, ids).startswith("[none]")


def test_interleaved_sequences_keep_their_recurrent_states(
    open_model, make_echo_bundle
):
    executor = open_model(make_echo_bundle(**RECURRENT))
    options = EchoOptions(**RECURRENT)
    texts = "abcdefghij", "ABCDEFGHIJ"
    caches = [executor.new_cache() for _ in texts]
    for begin in (0, 3, 6):
        for cache, text in zip(caches, texts, strict=True):
            executor.prefill(cache, encode(text[begin : begin + 3]))
    for cache, text in zip(caches, texts, strict=True):
        said = dump(executor, options, encode(text[9]), cache)
        assert said == expected_dump(options, encode(text))


def test_cleared_cache_has_forgotten_its_recurrent_state(open_model, make_echo_bundle):
    executor = open_model(make_echo_bundle(**RECURRENT))
    options, cache = EchoOptions(**RECURRENT), executor.new_cache()
    executor.prefill(cache, encode("abc"))
    cache.clear()
    assert dump(executor, options, encode("xy"), cache) == "[none][x]"


def test_recurrent_models_say_that_they_cannot_go_back(open_model, make_echo_bundle):
    assert not open_model(make_echo_bundle(**RECURRENT)).can_rewind
    assert open_model(make_echo_bundle()).can_rewind


def test_embeddings_without_an_embedder_are_refused(open_model, tmp_path):
    whole = echo_bundle(EchoOptions(embedder="chunk"))
    main = {"prefill_decode": whole.models["prefill_decode"]}
    bundle = ToyBundle(main, whole.tokenizer_json, whole.llm_metadata)
    with pytest.raises(UnsupportedModelError, match="no embedder"):
        open_model(bundle.save(tmp_path / "model.litertlm"))


def test_a_bundle_without_a_language_model_is_refused(open_model, tmp_path):
    whole = echo_bundle(EchoOptions(embedder="chunk"))
    only = {"embedder": whole.models["embedder"]}
    bundle = ToyBundle(only, whole.tokenizer_json, whole.llm_metadata)
    with pytest.raises(UnsupportedModelError, match="no prefill_decode model"):
        open_model(bundle.save(tmp_path / "model.litertlm"))
