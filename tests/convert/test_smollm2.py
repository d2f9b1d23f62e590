"""The default model's conversion against transformers and the official int8 file."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from litert_lm.bundle.open import open_bundle
from litert_lm.convert.conversion import open_source
from litert_lm.convert.quantize import quantize_int8
from litert_lm.convert.rope import make_rope
from litert_lm.tokenizer.huggingface import HuggingFaceTokenizer
from tests.convert.player import playing

EOS = 2


def start(player, prompt_ids):
    """An empty sequence with room for the prompt, its padding and 64 tokens."""
    player.start(-(-(len(prompt_ids) + 96) // 128) * 128)


def teacher_forced(player, item):
    """Logits f32[64, V] for every reference token, 16 positions per call."""
    start(player, item["prompt_ids"])
    player.prefill(item["prompt_ids"][:-1])
    fed = [item["prompt_ids"][-1], *item["output_ids"][:-1]]
    pieces = [player.feed("verify_16", fed[i : i + 16]) for i in range(0, 64, 16)]
    return np.concatenate(pieces)


def log_softmax(logits):
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(-1, keepdims=True))


def greedy(player, prompt_ids, limit):
    """Ids up to `limit` or EOS, by decode steps."""
    start(player, prompt_ids)
    player.prefill(prompt_ids[:-1])
    token, output = prompt_ids[-1], []
    while (len(output) < limit and token != EOS) or not output:
        token = int(player.feed("decode", [token])[0].argmax())
        output.append(token)
    return output


@pytest.fixture(scope="module")
def f32_logits(smollm2, reference):
    path = smollm2("f32")
    with playing(path, threads=2) as player:
        return [teacher_forced(player, item) for item in reference]


@pytest.fixture(scope="module")
def official(shared_dir):
    with open_bundle(shared_dir / "bundles" / "smollm2-135m-int8.litertlm") as bundle:
        data = bundle.read(bundle.models["prefill_decode"])
        yield schema.Model.GetRootAs(data, 0), data


def official_decode(model):
    for index in range(model.SignatureDefsLength()):
        if model.SignatureDefs(index).SignatureKey() == b"decode":
            return model.Subgraphs(model.SignatureDefs(index).SubgraphIndex())
    raise AssertionError("no decode signature")


def official_constants(official, operator, position):
    """The constant input at `position` of every `operator` of the decode graph."""
    model, data = official
    graph = official_decode(model)
    for index in range(graph.OperatorsLength()):
        entry = graph.Operators(index)
        code = model.OperatorCodes(entry.OpcodeIndex())
        if max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) == operator:
            tensor = graph.Tensors(entry.Inputs(position))
            buffer = model.Buffers(tensor.Buffer())
            start, size = buffer.Offset(), buffer.Size()
            inside = bytes(buffer.DataAsNumpy()) if buffer.DataLength() else None
            yield tensor, inside or bytes(data[start : start + size])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("weights", ["int8", "int4", "f32"])
def test_a_conversion_is_quick_and_needs_little_memory(smollm2_conversion, weights):
    made = smollm2_conversion(weights)
    assert made.seconds < 60
    assert made.peak_bytes < 2 * made.path.stat().st_size + 300e6


def test_f32_gives_the_tokens_of_transformers(f32_logits, reference):
    for logits, item in zip(f32_logits, reference, strict=True):
        assert logits.argmax(-1).tolist() == item["output_ids"]


def test_f32_gives_the_probabilities_of_transformers(f32_logits, reference):
    for logits, item in zip(f32_logits, reference, strict=True):
        chosen = log_softmax(logits)[np.arange(64), item["output_ids"]]
        assert np.abs(chosen - item["logprobs"]).max() < 0.002


def test_f32_decode_steps_give_the_tokens_of_transformers(smollm2, reference):
    item = reference[0]
    with playing(smollm2("f32"), keys=["decode", "prefill_32"]) as player:
        output = greedy(player, item["prompt_ids"], 16)
    assert output == item["output_ids"][: len(output)]


@pytest.mark.parametrize(
    ("weights", "num_prompts", "least"), [("int8", 10, 0.92), ("int4", 3, 0.6)]
)
def test_quantised_weights_mostly_agree_with_f32(
    smollm2, reference, weights, num_prompts, least
):
    with playing(smollm2(weights), threads=2) as player:
        agreed = [
            teacher_forced(player, item).argmax(-1) == item["output_ids"]
            for item in reference[:num_prompts]
        ]
    assert np.mean(agreed) >= least


def test_int8_gives_the_texts_of_the_official_file(smollm2, shared_dir, reference):
    recorded = json.loads((shared_dir / "bundles" / "official_int8.json").read_text())
    path = smollm2("int8")
    with open_bundle(path) as bundle:
        tokenizer = HuggingFaceTokenizer(bundle.tokenizer_section().data)
    with playing(path, threads=2) as player:
        for item, official_item in zip(reference, recorded["items"], strict=True):
            ids = greedy(player, item["prompt_ids"], 64)
            text = tokenizer.decode([i for i in ids if i != EOS])
            assert text == official_item["text"]


def test_rope_frequencies_are_bit_equal_to_the_official_ones(official):
    _, data = next(official_constants(official, schema.BuiltinOperator.MUL, 1))
    frequencies = make_rope(64, 100000.0, 8192).inv_freq
    assert frequencies.tobytes() == data


def test_int8_weights_are_byte_equal_to_the_official_ones(official, smollm2_gguf):
    checkpoint = open_source(smollm2_gguf)
    projections = ("q_proj", "k_proj", "v_proj", "o_proj")
    names = [f"model.layers.0.self_attn.{name}.weight" for name in projections]
    fully_connected = official_constants(
        official, schema.BuiltinOperator.FULLY_CONNECTED, 1
    )
    for name, (tensor, data) in zip(names, fully_connected, strict=False):
        rows = checkpoint.tensors[name]
        values, scales = quantize_int8(rows.read(0, rows.shape[0]))
        assert values.tobytes() == data
        assert np.array_equal(scales, tensor.Quantization().ScaleAsNumpy())


def test_prompts_become_the_reference_ids(smollm2, reference):
    with open_bundle(smollm2("int8")) as bundle:
        tokenizer = HuggingFaceTokenizer(bundle.tokenizer_section().data)
    for item in reference:
        assert tokenizer.encode(item["prompt_text"]) == item["prompt_ids"]
