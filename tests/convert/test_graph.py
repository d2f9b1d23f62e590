"""Authored graphs, run by LiteRT itself."""

from __future__ import annotations

import numpy as np
import pytest

from litert_lm.convert.graph import GraphAuthor
from litert_lm.convert.quantize import weight_of
from litert_lm.convert.tflite import ArrayPayload, ModelAuthor, TFLiteFile
from litert_lm.errors import InvalidArgumentError, StorageError
from litert_lm.executor.native.compiled_model import (
    CompiledModel,
    CompileOptions,
    RunCall,
)
from litert_lm.executor.native.loaded_model import LoadedModel
from litert_lm.executor.native.tensors import TensorBuffer, allocate


def run(model: ModelAuthor | bytes, key: str = "main", **inputs):
    """Outputs of one signature by name."""
    data = model if isinstance(model, bytes) else model.finish().to_bytes()
    memory = allocate((len(data),), np.dtype(np.uint8))
    memory[:] = np.frombuffer(data, np.uint8)
    compiled = CompiledModel(LoadedModel(memoryview(memory)), CompileOptions())
    signature = compiled.signatures[key]
    fed = {
        spec.name: TensorBuffer(allocate(spec.shape, spec.dtype))
        for spec in signature.inputs
    }
    got = {
        spec.name: TensorBuffer(allocate(spec.shape, spec.dtype))
        for spec in signature.outputs
    }
    for name, buffer in fed.items():
        buffer.array[...] = inputs[name]
    RunCall(compiled, key, fed, got)()
    return {name: buffer.array for name, buffer in got.items()}


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def linear(kind, weight, x, **model_options):
    model = ModelAuthor(**model_options)
    graph = GraphAuthor(model, "main")
    x_in = graph.tensor(x.shape)
    y = graph.fully_connected(x_in, graph.weight(weight_of(weight, kind)))
    graph.signature({"x": x_in}, {"y": y})
    return run(model, x=x)["y"]


def test_cast_gives_floats():
    model = ModelAuthor()
    graph = GraphAuthor(model, "main")
    ids = graph.tensor([3], "int32")
    graph.signature({"ids": ids}, {"y": graph.cast(ids, "float32")})
    y = run(model, ids=np.array([1, 2, 3], np.int32))["y"]
    assert y.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("kind", "error"), [("f32", 1e-6), ("int8", 0.03), ("int4", 0.2)]
)
def test_fully_connected_of_every_weight_kind(kind, error):
    weight, x = floats(64, 96), floats(1, 3, 96, seed=1)
    expected = x @ weight.T
    got = linear(kind, weight, x)
    assert np.abs(got - expected).max() <= error * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_rows_of_zeros_stay_zero(kind):
    weight = floats(64, 64)
    weight[3] = 0
    weight[5, :32] = 0
    y = linear(kind, weight, floats(1, 2, 64, seed=1))
    assert not y[..., 3].any()
    assert np.isfinite(y).all()


@pytest.mark.parametrize("kind", ["f32", "int8", "int4"])
def test_weights_behind_the_flatbuffer_give_the_same_result(kind):
    weight, x = floats(64, 96), floats(1, 3, 96, seed=1)
    inside = linear(kind, weight, x)
    behind = linear(kind, weight, x, external_from_bytes=1)
    assert np.array_equal(inside, behind)


def test_quantised_embedding_is_shared_with_the_head():
    table = weight_of(floats(50, 32), "int8")
    model = ModelAuthor(external_from_bytes=256)
    for name in ("first", "second"):
        graph = GraphAuthor(model, name)
        ids = graph.tensor([2], "int32")
        rows = graph.embedding_lookup(ids, graph.weight(table))
        logits = graph.fully_connected(rows, graph.weight(table))
        graph.signature({"ids": ids}, {"logits": logits, "rows": rows})
    file = model.finish()
    assert len(file.payloads) == 1
    out = run(file.to_bytes(), "second", ids=np.array([7, 49], np.int32))
    assert np.allclose(out["rows"], floats(50, 32)[[7, 49]], atol=0.02)


def test_attention_like_chain_matches_numpy():
    q, k = floats(1, 2, 3, 8), floats(1, 2, 5, 8, seed=1)
    model = ModelAuthor()
    graph = GraphAuthor(model, "main")
    q_in, k_in = graph.tensor(q.shape), graph.tensor(k.shape)
    scores = graph.batch_matmul(q_in, k_in, transpose_b=True)
    out = graph.transpose(graph.softmax(scores), [0, 2, 1, 3])
    graph.signature({"q": q_in, "k": k_in}, {"p": graph.reshape(out, [3, 10])})
    raw = np.exp(q @ k.swapaxes(2, 3))
    expected = (raw / raw.sum(-1, keepdims=True)).transpose(0, 2, 1, 3).reshape(3, 10)
    assert np.allclose(run(model, q=q, k=k)["p"], expected, atol=1e-6)


def test_cache_update_at_a_computed_position():
    model = ModelAuthor()
    graph = GraphAuthor(model, "main")
    cache, new = graph.tensor([1, 4, 2]), graph.tensor([1, 1, 2])
    pos = graph.tensor([1], "int32")
    zero = graph.const([0], "int32")
    start = graph.concat([zero, pos, zero], 0)
    updated = graph.dynamic_update_slice(cache, new, start)
    graph.signature({"cache": cache, "new": new, "pos": pos}, {"cache": updated})
    values = floats(1, 1, 2)
    inputs = {"new": values, "pos": np.array([2], np.int32)}
    out = run(model, cache=np.zeros((1, 4, 2), np.float32), **inputs)["cache"]
    assert np.array_equal(out[0, 2], values[0, 0])
    assert not out[0, :2].any()


def test_compare_select_and_reduce():
    model = ModelAuthor()
    graph = GraphAuthor(model, "main")
    x = graph.tensor([2, 3])
    positive = graph.compare("GREATER", x, graph.const(0.0, "float32"))
    kept = graph.select(positive, x, graph.const(-1.0, "float32"))
    outputs = {
        "max": graph.reduce("REDUCE_MAX", kept, [1], keep_dims=False),
        "sum": graph.reduce("SUM", kept, [-1]),
    }
    graph.signature({"x": x}, outputs)
    out = run(model, x=np.array([[1, -5, 2], [-3, -4, 0]], np.float32))
    assert out["max"].tolist() == [2.0, -1.0]
    assert out["sum"].tolist() == [[2.0], [-3.0]]


def test_unknown_composite_runs_its_decomposition():
    model = ModelAuthor()
    body = GraphAuthor(model, "twice_body")
    a = body.tensor([2])
    body.set_io([a], [body.add(a, a)])
    graph = GraphAuthor(model, "main")
    x = graph.tensor([2])
    graph.signature({"x": x}, {"y": graph.composite("my.twice", [x], body)[0]})
    assert run(model, x=np.array([1, 2], np.float32))["y"].tolist() == [2.0, 4.0]


def test_small_equal_constants_are_one_buffer():
    model = ModelAuthor()
    graph = GraphAuthor(model, "main")
    first, second = graph.const([1, 2], "int32"), graph.const([1, 2], "int32")
    assert first is second
    assert graph.const([1, 2], "float32") is not first


def test_unknown_operator_is_refused_by_name():
    graph = GraphAuthor(ModelAuthor(), "main")
    with pytest.raises(InvalidArgumentError, match="'FROBNICATE'"):
        graph.op("FROBNICATE", [], [([1], "float32")])


def test_payload_of_a_wrong_size_is_refused():
    class Short(ArrayPayload):
        @property
        def num_bytes(self):
            return 8

    file = TFLiteFile(b"xxxx", (Short(np.zeros(4, np.uint8)),))
    with pytest.raises(InvalidArgumentError, match="4 bytes"):
        file.to_bytes()


def test_save_reports_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(StorageError, match="missing"):
        TFLiteFile(b"").save(tmp_path / "missing" / "model.tflite")
