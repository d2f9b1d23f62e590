"""Which signatures are steps of several sequences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from litert_lm.bundle import open_bundle
from litert_lm.bundle.tflite import Signature, TfliteModel, read_tflite
from litert_lm.convert import convert
from litert_lm.executor.layout.batch_reader import is_batch, read_batch_steps
from litert_lm.executor.layout.layout_reader import read_layout
from litert_lm.executor.layout.state_reader import read_updates
from tests.convert.toys import Toy, write_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TfliteModel:
    folder = tmp_path_factory.mktemp("reader")
    path = folder / "toy.litertlm"
    convert(write_folder(folder / "toy", Toy()), path, weights="f32")
    bundle = open_bundle(path)
    return read_tflite(bundle.read(bundle.models["prefill_decode"]), "toy")


def batch_signature(model: TfliteModel) -> Signature:
    return next(signature for signature in model.signatures if is_batch(signature))


def test_a_converted_model_has_one(model: TfliteModel) -> None:
    models = {"prefill_decode": model}
    layout = read_layout(models, read_updates(models))
    assert [(step.key, step.size) for step in layout.batch] == [("decode_batch_4", 4)]
    assert layout.skipped == {}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("tokens", (1, 1)),
        ("tokens", (1, 5)),
        ("tokens", (1, 1 << 30)),
        ("tokens", (4,)),
        ("input_pos", (1, 4)),
        ("row_2_mask", (1, 1, 1, 8)),
        ("row_3_kv_cache_k_1", (1, 2, 8, 16)),
    ],
)
def test_others_are_left_out(
    model: TfliteModel, name: str, shape: tuple[int, ...]
) -> None:
    models = {"prefill_decode": model}
    layout = read_layout(models, read_updates(models))
    found = batch_signature(model)
    inputs = tuple(
        tensor._replace(shape=shape) if tensor.name == name else tensor
        for tensor in found.inputs
    )
    changed = replace(found, inputs=inputs)
    steps = read_batch_steps([changed], layout.decode[-1], layout.states)
    assert steps == ()
