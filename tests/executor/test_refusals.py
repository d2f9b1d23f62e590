"""Models that cannot be run are refused at once, by one sentence that says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from litert_lm.errors import UnsupportedModelError
from tests.executor.bare_model import BareSignature, bare_bundle, bare_model, step
from tests.fixtures.hybrid import HybridOptions
from tests.fixtures.hybrid_aux import hybrid_embedders

F32, I32 = "float32", "int32"
K, V = "kv_cache_k_0", "kv_cache_v_0"
ONE = {"inputs": {"tokens": None, "embeddings": (F32, [1, 1, 20])}}
LOCAL = {"local_mask": (F32, [1, 1, 1, 64])}

# What is changed in the decode signature, what is special about the bundle, and what
# the message has to name besides the signature.
BAD = {
    "no embedder": (ONE, {}, ["'embeddings' float32[1, 1, 20]", "no embedder"]),
    "an embedder of another width": (
        ONE,
        {"models": hybrid_embedders(HybridOptions(embedder="chunk"))},
        ["'embeddings' float32[1, 1, 20]", "no embedder with such an output"],
    ),
    "no per-layer embedder": (
        {"inputs": {"per_layer_embeddings": (F32, [1, 1, 2, 4])}},
        {},
        ["'per_layer_embeddings' float32[1, 1, 2, 4]", "no per_layer_embedder"],
    ),
    "mask wider than the cache": (
        {"inputs": {"mask": (F32, [1, 1, 1, 99])}},
        {"is_declared": True},
        ["'mask' float32[1, 1, 1, 99]", "[1, 64]"],
    ),
    "mask as wide as no cache": (
        {"inputs": {"mask": (F32, [1, 1, 1, 99])}},
        {},
        ["'mask' float32[1, 1, 1, 99]", "no state"],
    ),
    "mask of several heads": (
        {"inputs": {"mask": (F32, [1, 2, 1, 64])}},
        {},
        ["'mask' float32[1, 2, 1, 64]", "a row for each token"],
    ),
    "integer mask": (
        {"inputs": {"mask": (I32, [1, 1, 1, 64])}},
        {},
        ["'mask' int32[1, 1, 1, 64]", "masks float32 or bool[1, 1, 1, T]"],
    ),
    "window of unknown size": (
        {"inputs": LOCAL},
        {},
        ["'local_mask' float32[1, 1, 1, 64]", "sliding_window_size"],
    ),
    "mask of another ring": (
        {"inputs": {"mask": None, "local_mask": (F32, [1, 1, 1, 30])}},
        {"is_declared": True, "window": 8},
        ["'local_mask' float32[1, 1, 1, 30]", "[1, 64 or 65]", "ring"],
    ),
    "no logits": ({"outputs": {"logits": None}}, {}, ["no output", "float32[1, 1, V]"]),
    "integer logits": (
        {"outputs": {"logits": (I32, [1, 1, 64])}},
        {},
        ["'logits' int32[1, 1, 64]", "float32[1, 1, V]"],
    ),
    "cache that is never written": (
        {"outputs": {K: None, V: None}},
        {},
        ["'kv_cache_k_0' float32[1, 1, 64, 8]", "output"],
    ),
    "cache of one key head that is never written": (
        {
            "inputs": {K: (F32, [1, 64, 1, 8]), V: (F32, [1, 64, 1, 8])},
            "outputs": {K: None, V: None},
        },
        {},
        ["'kv_cache_k_0' float32[1, 64, 1, 8]", "output"],
    ),
    "cache that grows": (
        {"outputs": {K: (F32, [1, 1, 65, 8])}},
        {},
        ["'kv_cache_k_0' float32[1, 1, 64, 8]", "only 'kv_cache_k_0' float32[1, 1, 65"],
    ),
    "cache written in another type": (
        {"inputs": {K: ("int16", [1, 1, 64, 8])}},
        {},
        ["'kv_cache_k_0' int16[1, 1, 64, 8]", "only 'kv_cache_k_0' float32[1, 1, 64"],
    ),
    "batch of tokens only": (
        {"inputs": {"tokens": (I32, [3, 1])}},
        {},
        ["batch of 3", "'kv_cache_k_0' float32[1, 1, 64, 8]", "batch of 1"],
    ),
    "batch without logits for each": (
        {
            "inputs": {
                "tokens": (I32, [3, 1]),
                K: (F32, [3, 1, 64, 8]),
                V: (F32, [3, 1, 8, 64]),
            },
            "outputs": {K: (F32, [3, 1, 64, 8]), V: (F32, [3, 1, 8, 64])},
        },
        {},
        ["batch of 3", "'logits' float32[1, 1, 64]", "batch of 1"],
    ),
    "open shape": (
        {"inputs": {"tokens": (I32, [1, -1])}},
        {},
        ["'tokens' int32[1, -1]", "fixed"],
    ),
    "tokens that are no integers": (
        {"inputs": {"tokens": (F32, [1, 1])}},
        {},
        ["'tokens' float32[1, 1]", "token ids and positions int32[1, 1]"],
    ),
    "no tokens": (
        {"inputs": {"tokens": None, "input_pos": None}},
        {},
        ["no input", "token ids int32[1, L]"],
    ),
    "unknown input": (
        {"inputs": {"rotation": (F32, [3, 5])}},
        {},
        ["'rotation' float32[3, 5]", "no known meaning"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_decoding_that_is_impossible(open_model, tmp_path, name):
    changes, special, named = BAD[name]
    path = bare_bundle(step(**changes), **special).save(tmp_path / "model.litertlm")
    with pytest.raises(UnsupportedModelError) as caught:
        open_model(path)
    message = str(caught.value)
    for part in ("signature 'decode'", *named):
        assert part in message
    assert message.endswith(".")
    assert ". " not in message


def test_a_model_that_cannot_decode(open_model, tmp_path):
    path = bare_bundle(step("prefill_8", 8)).save(tmp_path / "model.litertlm")
    with pytest.raises(UnsupportedModelError, match="only 'prefill_8'; export it with"):
        open_model(path)


def test_a_cache_that_only_prefill_writes(open_model, tmp_path):
    bundle = bare_bundle(step(outputs={K: None}), step("prefill_8", 8))
    with pytest.raises(UnsupportedModelError, match=r"'decode', nothing.*'kv_cache_k"):
        open_model(bundle.save(tmp_path / "model.litertlm"))


def test_an_auxiliary_model_with_a_state_of_its_own(open_model, tmp_path):
    piece = {"kv_slice_k_0": (F32, [1, 1, 1, 8])}
    states = {name: step().inputs[name] for name in (K, V)}
    states["kv_cache_k_7"] = states[K]
    update = BareSignature("decode_cache_update", {**piece, **states}, states)
    main = step(outputs={K: None, V: None, **piece})
    bundle = bare_bundle(main, models={"aux": bare_model(update)})
    with pytest.raises(UnsupportedModelError, match="'decode_cache_update' keeps"):
        open_model(bundle.save(tmp_path / "model.litertlm"))


def test_states_that_only_prefill_has_for_a_batch(open_model, tmp_path):
    states = {K: (F32, [2, 1, 64, 8]), V: (F32, [2, 1, 8, 64])}
    batch = {"tokens": (I32, [2, 8]), **states}
    bundle = bare_bundle(
        step(inputs=states, outputs=states),
        step("prefill_8", 8, inputs=batch, outputs=states),
    )
    with pytest.raises(UnsupportedModelError, match=r"\[2, 1, 64, 8\] is not .*\[1, 1"):
        open_model(bundle.save(tmp_path / "model.litertlm"))


def test_bool_masks_that_are_added_to_scores(open_model, make_hybrid_bundle):
    path = make_hybrid_bundle(mask="bool", masking="added")
    with pytest.raises(UnsupportedModelError, match=r"'mask' bool\[.*hides nothing"):
        open_model(path)


def constrained(tmp_path, names):
    items = {"prefill_decode": {"backend_constraint": names}}
    bundle = replace(bare_bundle(step()), section_items=items)
    return bundle.save(tmp_path / "model.litertlm")


def test_a_model_for_another_kind_of_runtime(open_model, tmp_path):
    path = constrained(tmp_path, "gpu_artisan")
    with pytest.raises(UnsupportedModelError, match="made for gpu_artisan alone"):
        open_model(path)


@pytest.mark.parametrize("names", ["gpu", "gpu_artisan, GPU", "cpu"])
def test_models_for_other_backends_run_on_the_cpu(open_model, tmp_path, names):
    assert open_model(constrained(tmp_path, names)).lengths == [1]


OTHER = (F32, [1, 2, 64, 4])
LEFT_OUT = {
    "float16 state": ({K: ("float16", [1, 1, 64, 8])}, "float16[1, 1, 64, 8] is not"),
    "state of another shape": ({K: OTHER}, r"float32[1, 1, 64, 8] as for decoding"),
    "cache of another length": ({K: (F32, [1, 1, 32, 8])}, "float32[1, 1, 64, 8] as"),
    "another state": ({"kv_cache_k_1": OTHER}, "other states than decoding"),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_prefill_that_does_not_go_with_decoding_is_left_out(open_model, tmp_path, name):
    states, reason = LEFT_OUT[name]
    odd = step("prefill_8", 8, inputs=states, outputs=states)
    bundle = bare_bundle(step(), step("prefill_4", 4), odd, is_declared=True)
    executor = open_model(bundle.save(tmp_path / "model.litertlm"))
    assert executor.lengths == [1, 4]
    assert reason in executor.layout.skipped["prefill_8"]
