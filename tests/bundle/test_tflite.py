"""What the TFLite reader says about a model, and that damage gives one clear error."""

from __future__ import annotations

import mmap
import random
import struct

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from litert_lm.bundle import columns
from litert_lm.bundle.tflite import read_tflite
from litert_lm.errors import ModelFileError, UnsupportedModelError
from tests.bundle.models import CONTEXT, VOCABULARY, WIDTH, decoder


@pytest.fixture(scope="module")
def data() -> bytes:
    return decoder().pack()


def read_everything(data: bytes) -> None:
    model = read_tflite(data, "toy")
    _ = model.signatures, len(model.buffers)
    for graph in model.subgraphs:
        _ = graph.tensors, graph.operators


def test_signatures_name_shapes_and_dtypes(data):
    decode, prefill = read_tflite(data, "toy").signatures
    assert (decode.key, prefill.key) == ("decode", "prefill_4")
    inputs = {spec.name: (spec.shape, spec.dtype) for spec in prefill.inputs}
    assert inputs["tokens"] == ((1, 4), np.int32)
    assert inputs["mask"] == ((1, 1, 4, CONTEXT), np.float32)
    outputs = {spec.name: spec for spec in decode.outputs}
    assert outputs["logits"].shape == (1, 1, VOCABULARY)
    assert outputs["logits"].num_bytes == 4 * VOCABULARY
    assert outputs["kv_cache_k_0"].tensor != decode.inputs[3].tensor


def test_graphs_hold_the_operators_in_order(data):
    model = read_tflite(data, "toy")
    graph = model.subgraphs[model.signatures[0].subgraph]
    assert [operator.code.builtin for operator in graph.operators][:3] == [22, 7, 22]
    assert graph.operators[-1].inputs[-1] == -1
    assert graph.operators[-1].outputs == (graph.outputs[-1],)
    assert graph.tensors[graph.inputs[0]].name == "tokens"
    reshape = model.table(graph.operators[0].options[1])
    assert reshape.array(0, "<i4").tolist() == [1]


def test_constants_are_views_and_computed_tensors_have_none(data):
    model = read_tflite(data, "toy")
    tensors = model.subgraphs[2].tensors
    table = next(tensor for tensor in tensors if tensor.name == "weights")
    weights = np.frombuffer(model.constant(table), np.float32)
    assert weights[:4].tolist() == [-3, -2, -1, 0]
    assert table.shape == (VOCABULARY, WIDTH)
    assert model.constant(tensors[0]) is None


def test_a_shape_can_be_patched_in_a_private_mapping(data, tmp_path):
    path = tmp_path / "toy.tflite"
    path.write_bytes(data)
    with path.open("rb") as file:
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    mask = read_tflite(view, "toy").signatures[0].inputs[2]
    struct.pack_into("<i", view, mask.shape_at + 12, 5)
    assert read_tflite(view, "toy").signatures[0].inputs[2].shape == (1, 1, 1, 5)
    assert path.read_bytes() == data


def test_external_buffers_are_found_by_their_offset():
    model = decoder()
    model.made.buffers[1].data = None
    model.made.buffers[1].offset, model.made.buffers[1].size = 4096, 512
    buffers = read_tflite(model.pack(), "toy").buffers
    assert buffers.is_external.tolist()[:3] == [False, True, False]
    assert (int(buffers.first[1]), int(buffers.size[1])) == (4096, 512)


def test_types_that_numpy_lacks_are_refused_by_name():
    model = decoder()
    model.made.subgraphs[2].tensors[2].type = schema.TensorType.BFLOAT16
    mask = read_tflite(model.pack(), "toy").signatures[0].inputs[2]
    with pytest.raises(UnsupportedModelError, match="'mask' holds bfloat16"):
        _ = mask.dtype


def test_no_tflite_bytes_and_cut_files_are_refused(data):
    with pytest.raises(ModelFileError, match="toy is not a TFL3 file"):
        read_tflite(b"PK\3\4" + bytes(100), "toy")
    for size in range(0, len(data), 97):
        with pytest.raises(ModelFileError, match="toy is"):
            read_everything(data[:size])


def test_random_damage_gives_only_model_file_errors(data):
    chance = random.Random(3)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read_everything(bytes(damaged))
        except ModelFileError as error:
            assert "toy is" in str(error)


@pytest.mark.parametrize(
    ("limit", "words"),
    [("MAX_ELEMENTS", "too long"), ("MAX_ROWS", "more than 20 tables")],
)
def test_rows_that_share_their_bytes_cannot_fill_the_memory(
    data, monkeypatch, limit, words
):
    monkeypatch.setattr(columns, limit, 20)
    with pytest.raises(ModelFileError, match=words):
        read_everything(data)


def test_real_models_read_whole(shared_dir):
    for path in sorted(shared_dir.glob("bundles/*_tiny*.litertlm")):
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        first = view.find(b"TFL3") - 4
        model = read_tflite(memoryview(view)[first:], path.name)
        assert "decode" in [signature.key for signature in model.signatures]
        assert all(graph.tensors and graph.operators for graph in model.subgraphs)
