"""Graphs that would crash LiteRT are refused with a reason; sound ones pass."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from litert_lm.bundle.verify import verify_model
from litert_lm.errors import ModelFileError, UnsupportedModelError
from tests.bundle.models import Graph, Model, Op, decoder

DECODE = 2  # number of the decode graph in the toy model
FIRST, COMPOSITE, LAST = 0, 3, -1  # operators of it


def refusal(model: Model, error: type[Exception] = ModelFileError) -> str:
    with pytest.raises(error) as caught:
        verify_model(model.pack(), "toy")
    assert str(caught.value).startswith("toy ")
    return str(caught.value)


def operators(model: Model):
    return model.made.subgraphs[DECODE].operators


def tensors(model: Model):
    return model.made.subgraphs[DECODE].tensors


def test_a_sound_model_passes_and_is_returned_read():
    model = verify_model(decoder().pack(), "toy")
    assert [signature.key for signature in model.signatures] == ["decode", "prefill_4"]


def test_every_real_model_passes(shared_dir):
    checked = 0
    for path in sorted(shared_dir.glob("bundles/*.litertlm")):
        with path.open("rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for first in range(0, len(view), 16384):
            if view[first + 4 : first + 8] == b"TFL3":
                verify_model(memoryview(view)[first:], path.name)
                checked += 1
    assert checked >= 12


@pytest.mark.parametrize(
    ("version", "signatures", "error", "words"),
    [
        (2, True, UnsupportedModelError, "schema version 2"),
        (3, False, UnsupportedModelError, "no signatures"),
    ],
)
def test_models_of_another_kind_are_unsupported(version, signatures, error, words):
    model = decoder()
    model.made.version = version
    if not signatures:
        model.made.signatureDefs = []
    assert words in refusal(model, error)


def test_a_custom_operator_is_named():
    model = decoder()
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = Op.CUSTOM
    code.customCode = "my.own.operator"
    model.made.operatorCodes.append(code)
    assert "'my.own.operator'" in refusal(model, UnsupportedModelError)


def test_nothing_without_axes_is_transposed():
    inputs = [((), "float32", None), ((0,), "int32", None)]
    model = single(Op.TRANSPOSE, inputs, inputs[0])
    assert "no axes" in refusal(model)


def loop(condition, body):
    """A model with WHILE over one float; graphs 1 and 2 take so many inputs."""
    floats = ((2,), "float32", None)
    numbers = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    model = single(Op.WHILE, [floats], floats, WhileOptions=numbers)
    for name, count in (("condition", condition), ("body", body)):
        graph = Graph(model, name)
        graph.made.inputs = [graph.tensor(f"x{i}", (2,)) for i in range(count)]
        graph.made.outputs = graph.made.inputs
    return model


def test_the_graphs_of_a_loop_must_fit():
    verify_model(loop(1, 1).pack(), "toy")
    assert "graph 1 differ" in refusal(loop(2, 1))
    assert "graph 2 differ" in refusal(loop(1, 0))


def test_known_custom_operators_need_their_tensors():
    def model(shape, dtype):
        tensor = (shape, dtype, None)
        made = single(Op.CUSTOM, [tensor], tensor)
        made.made.operatorCodes[0].customCode = "gdn_tril_inv"
        return made

    verify_model(model((1, 4, 4), "float32").pack(), "toy")
    assert "cannot use" in refusal(model((1, 4, 4), "int32"))
    assert "cannot use" in refusal(model((4,), "float32"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: setattr(s, "signatureKey", "prefill_4"), "not distinct"),
        (lambda s: setattr(s, "signatureKey", None), "None"),
        (lambda s: setattr(s, "subgraphIndex", 99), "99"),
        (lambda s: setattr(s.inputs[0], "name", None), "without a name"),
        (lambda s: setattr(s.inputs[0], "name", "mask"), "a name twice"),
        (lambda s: setattr(s.inputs[0], "tensorIndex", 1), "names other tensors"),
        (lambda s: setattr(s.inputs[0], "tensorIndex", 999), "graph lacks"),
        (lambda s: s.outputs.pop(), "names other tensors"),
    ],
)
def test_damaged_signatures(change, words):
    model = decoder()
    change(model.made.signatureDefs[0])
    assert words in refusal(model)


@pytest.mark.parametrize(
    ("which", "change", "words"),
    [
        (FIRST, lambda o: setattr(o, "inputs", [999, 5]), "does not have"),
        (FIRST, lambda o: setattr(o, "inputs", [-5, 5]), "does not have"),
        (FIRST, lambda o: setattr(o, "inputs", [-1, 5]), "lacks an input"),
        (FIRST, lambda o: setattr(o, "inputs", []), "number of inputs"),
        (FIRST, lambda o: setattr(o, "outputs", []), "number of outputs"),
        (FIRST, lambda o: setattr(o, "outputs", [-1]), "lacks an output"),
        (FIRST, lambda o: setattr(o, "inputs", [25, 5]), "before it is made"),
        (FIRST, lambda o: setattr(o, "outputs", [0]), "at once"),
        (FIRST, lambda o: setattr(o, "outputs", [5]), "at once"),
        (LAST, lambda o: setattr(o, "outputs", [24]), "made twice"),
        (FIRST, lambda o: setattr(o, "opcodeIndex", 99), "operator code 99"),
        (COMPOSITE, lambda o: setattr(o, "builtinOptions2", None), "no options"),
    ],
)
def test_damaged_operators(which, change, words):
    model = decoder()
    change(operators(model)[which])
    assert words in refusal(model)


@pytest.mark.parametrize(
    ("called", "words"),
    [(99, "does not exist"), (-1, "does not exist"), (DECODE, "differ"), (1, None)],
)
def test_the_graph_of_a_composite_must_exist_and_fit(called, words):
    model = decoder()
    options = operators(model)[COMPOSITE].builtinOptions2
    options.decompositionSubgraphIndex = called
    if words:
        assert words in refusal(model)
    else:
        verify_model(model.pack(), "toy")


def test_attributes_of_a_composite_are_readable():
    model = decoder()
    operators(model)[COMPOSITE].builtinOptions2.compositeAttributes = [9, 36, 1]
    assert "attributes that cannot be read" in refusal(model)


def test_a_graph_that_runs_itself():
    model = decoder()
    code = operators(model)[COMPOSITE].opcodeIndex
    inner = schema.OperatorT()
    inner.opcodeIndex, inner.inputs, inner.outputs = code, [0], [1]
    options = schema.StableHLOCompositeOptionsT()
    options.name, options.decompositionSubgraphIndex = "loop", 0
    options.compositeAttributes = flexbuffers.Dumps({})
    inner.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    inner.builtinOptions2 = options
    model.made.subgraphs[0].operators[0] = inner
    assert "runs itself" in refusal(model)


@pytest.mark.parametrize(
    ("which", "change", "words"),
    [
        (0, lambda t: setattr(t, "buffer", 1), "at once"),
        (0, lambda t: setattr(t, "buffer", 99), "buffer that does not exist"),
        (4, lambda t: setattr(t, "shape", [1000, 8]), "not the bytes"),
        (4, lambda t: setattr(t, "shape", [2, 8]), "not the bytes"),
        (4, lambda t: setattr(t, "buffer", 0), "before it is made"),
        (2, lambda t: setattr(t, "shape", [1, 1, -1, 12]), "negative size"),
        (2, lambda t: setattr(t, "shape", [1 << 30, 4, 1, 1]), "32 bits"),
        (2, lambda t: setattr(t, "shape", [1] * 9), "more than 8 axes"),
        (2, lambda t: setattr(t, "shapeSignature", [-1]), "another rank"),
        (2, lambda t: setattr(t, "shapeSignature", [1, 1, -5, 12]), "below -1"),
        (2, lambda t: setattr(t, "type", 99), "unknown element type"),
    ],
)
def test_damaged_tensors(which, change, words):
    model = decoder()
    change(tensors(model)[which])
    assert words in refusal(model)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: setattr(t, "type", schema.TensorType.STRING), "text or handles"),
        (lambda t: setattr(t, "sparsity", schema.SparsityParametersT()), "sparsely"),
        (lambda t: setattr(t, "externalBuffer", 1), "another file"),
    ],
)
def test_unusual_storage_is_unsupported(change, words):
    model = decoder()
    change(tensors(model)[4])
    assert words in refusal(model, UnsupportedModelError)


def test_damaged_graph_ends():
    model = decoder()
    model.made.subgraphs[DECODE].outputs[0] = 999
    assert "is no tensor of it" in refusal(model)
    model = decoder()
    graph = model.made.subgraphs[0]
    graph.tensors.append(schema.TensorT())
    graph.outputs = [len(graph.tensors) - 1]
    assert "nothing makes" in refusal(model)


def test_constants_outside_the_file():
    model = decoder()
    model.made.buffers[1].data = None
    model.made.buffers[1].offset, model.made.buffers[1].size = 1 << 40, 512
    assert "lies outside the file" in refusal(model)


def quantised(scales, zeros, axis=0):
    made = schema.QuantizationParametersT()
    made.scale, made.zeroPoint, made.quantizedDimension = scales, zeros, axis
    return made


@pytest.mark.parametrize(
    ("quantisation", "words"),
    [
        (quantised([0.1] * 16, [0]), "zero points"),
        (quantised([0.1] * 5, [0] * 5), "as many scales as slices"),
        (quantised([0.1], [0], axis=2), "axis that it does not have"),
        (quantised([0.1], [1 << 40]), "zero point outside"),
    ],
)
def test_damaged_quantisation(quantisation, words):
    model = decoder()
    tensors(model)[4].quantization = quantisation
    assert words in refusal(model)


@pytest.mark.parametrize(("scales", "block"), [(99, 4), (5, 4), (5, 0)])
def test_damaged_block_quantisation(scales, block):
    model = decoder()
    details = schema.BlockwiseQuantizationT()
    details.scales, details.zeroPoints, details.blockSize = scales, -1, block
    made = schema.QuantizationParametersT()
    made.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    made.details = details
    tensors(model)[4].quantization = made
    assert "scales" in refusal(model)


def single(op, inputs, output, **options):
    """A model with one operator; tensors as (shape, dtype, quantisation)."""
    model = Model()
    graph = Graph(model, "decode")
    made = [graph.tensor(f"in{i}", part[0], part[1]) for i, part in enumerate(inputs)]
    result = graph.op(op, made, *output[:2], **options)
    parts = zip((*inputs, output), (*made, result), strict=True)
    for (_, _, quantisation), tensor in parts:
        graph.made.tensors[tensor].quantization = quantisation
    graph.made.inputs, graph.made.outputs = made, [result]
    named = [(f"in{i}", tensor) for i, tensor in enumerate(made)]
    model.signature("decode", 0, named, [("out", result)])
    return model


def test_a_split_needs_one_output_for_each_part():
    inputs = [((), "int32", None), ((2, 4), "float32", None)]
    output = ((2, 2), "float32", None)
    model = single(Op.SPLIT, inputs, output, SplitOptions={"numSplits": 2})
    assert "one output for each split" in refusal(model)


@pytest.mark.parametrize("scales", [None, [0.0], [np.nan], [0.5, 0.5]])
def test_sums_of_small_integers_need_one_sound_scale(scales):
    bad = ((2, 2), "int8", quantised(scales, [0] * len(scales)) if scales else None)
    good = ((2, 2), "int8", quantised([0.5], [0]))
    verify_model(single(Op.ADD, [good, good], good, AddOptions={}).pack(), "toy")
    model = single(Op.ADD, [good, bad], good, AddOptions={})
    assert "without a sound scale" in refusal(model)


def test_sums_of_small_integers_need_room_in_the_output():
    good = ((2, 2), "int8", quantised([0.5], [0]))
    tiny = ((2, 2), "int8", quantised([1e-9], [0]))
    assert "too small" in refusal(single(Op.ADD, [good, good], tiny, AddOptions={}))
    mixed = ((2, 2), "float32", None)
    assert "mixes" in refusal(single(Op.ADD, [good, good], mixed, AddOptions={}))


def test_comparisons_of_small_integers_need_scales_below_one():
    coarse = ((2, 2), "int8", quantised([1.0], [0]))
    model = single(Op.LESS, [coarse, coarse], ((2, 2), "bool", None))
    assert "scale above 1" in refusal(model)


def test_options_that_kernels_divide_by():
    image = ((1, 4, 4, 3), "float32", None)
    inputs = [((4,), "int32", None), ((4, 3, 3, 3), "float32", None), image]
    output = ((1, 8, 8, 4), "float32", None)
    options = {"strideW": 2, "strideH": 2}
    model = single(Op.TRANSPOSE_CONV, inputs, output, TransposeConvOptions=options)
    verify_model(model.pack(), "toy")
    options["strideH"] = 0
    model = single(Op.TRANSPOSE_CONV, inputs, output, TransposeConvOptions=options)
    assert "option below 1" in refusal(model)


def test_reversals_that_read_outside():
    row, axes = ((4, 2), "float32", None), ((0,), "int32", None)
    assert "no axes to reverse" in refusal(single(Op.REVERSE_V2, [row, axes], row))
    lengths = ((4,), "int32", None)
    assert "more than" in refusal(single(Op.REVERSE_SEQUENCE, [row, lengths], row))


@pytest.mark.parametrize(("limit", "delta"), [(2**31 - 1, 1), (5, 0)])
def test_ranges_of_billions(limit, delta):
    model = Model()
    graph = Graph(model, "decode")
    ends = [
        graph.constant(f"end{i}", np.array(value, np.int32))
        for i, value in enumerate((0, limit, delta))
    ]
    graph.made.inputs = []
    graph.made.outputs = [graph.op(Op.RANGE, ends, (5,), "int32")]
    model.signature("decode", 0, [], [("out", graph.made.outputs[0])])
    assert "more than" in refusal(model)


def test_fake_quantisation_is_for_floats():
    whole = ((2, 2), "int32", None)
    assert "no float32" in refusal(single(Op.FAKE_QUANT, [whole], whole))
