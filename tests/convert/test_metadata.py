"""What a converted bundle says about its model."""

from __future__ import annotations

import json

import pytest

from litert_lm._proto.executor_metadata_pb2 import StateBuffer
from litert_lm._proto.sampler_parameters_pb2 import SamplerParameters
from litert_lm.config import SamplerConfig
from litert_lm.convert.conversion import open_source
from litert_lm.convert.metadata import make_executor_metadata, make_llm_metadata
from litert_lm.errors import ConversionError, InvalidArgumentError, ModelFileError
from tests.convert.toys import TEMPLATE, Toy, write_folder, write_gguf


def metadata_of(source, sampler=None):
    return make_llm_metadata(open_source(source), 128, sampler)


@pytest.fixture
def folder_metadata(tmp_path):
    """A function: metadata of a folder with some settings."""

    def make(template=TEMPLATE, sampler=None, toy=None, generation=None, **settings):
        files = {"tokenizer_config__json": json.dumps(settings)}
        files["chat_template__jinja"] = template
        if generation is not None:
            files["generation_config__json"] = json.dumps(generation)
        folder = write_folder(tmp_path / "toy", toy or Toy(), **files)
        return metadata_of(folder, sampler)

    return make


def stop_ids(metadata):
    return [list(token.token_ids.ids) for token in metadata.stop_tokens]


def test_gguf_metadata_is_complete(tmp_path):
    metadata = metadata_of(write_gguf(tmp_path / "toy.gguf", Toy()))
    assert stop_ids(metadata) == [[2]]
    assert list(metadata.pad_token.token_ids.ids) == [2]
    assert not metadata.HasField("start_token")
    assert metadata.jinja_prompt_template == TEMPLATE
    assert metadata.max_num_tokens == 128
    assert metadata.llm_model_type.WhichOneof("model_type") == "generic_model"
    assert metadata.HasField("supports_thinking")
    assert metadata.HasField("supports_function_calling")
    assert not metadata.HasField("sampler_params")


def test_stops_are_those_of_all_configs_and_of_the_template(folder_metadata):
    metadata = folder_metadata(
        toy=Toy(changes={"eos_token_id": 5}),
        generation={"eos_token_id": [7, 5]},
        eos_token={"content": "<|endoftext|>"},
    )
    assert stop_ids(metadata) == [[7], [5], [0], [2]]


def test_stops_without_a_token_are_dropped(folder_metadata):
    metadata = folder_metadata("x", generation={"eos_token_id": [2, 4000, -1]})
    assert stop_ids(metadata) == [[2]]


def test_bos_is_the_start_token(tmp_path):
    settings = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<|im_start|>"}
    files = {"tokenizer_config__json": json.dumps(settings)}
    metadata = metadata_of(write_folder(tmp_path / "toy", Toy(), **files))
    assert list(metadata.start_token.token_ids.ids) == [1]


def test_pad_token_by_id_or_by_name(folder_metadata):
    named = folder_metadata(pad_token="<|endoftext|>")
    assert list(named.pad_token.token_ids.ids) == [0]
    by_id = folder_metadata(toy=Toy(changes={"pad_token_id": 9}))
    assert list(by_id.pad_token.token_ids.ids) == [9]


def test_a_thinking_template_gets_its_channel(folder_metadata):
    metadata = folder_metadata("<think>{{ x }}</think>{% if tools %}{% endif %}")
    channel = metadata.channels[0]
    assert (channel.channel_name, channel.start, channel.end) == (
        "thought",
        "<think>",
        "</think>",
    )
    assert channel.is_reasoning_channel
    assert metadata.supports_thinking
    assert metadata.supports_function_calling


def test_a_plain_template_has_neither_channel_nor_tools(folder_metadata):
    metadata = folder_metadata()
    assert not metadata.channels
    assert not metadata.supports_thinking
    assert not metadata.supports_function_calling


def test_the_default_of_several_templates_is_taken(tmp_path):
    named = [
        {"name": "tool_use", "template": "T"},
        {"name": "default", "template": "D"},
    ]
    files = {"tokenizer_config__json": json.dumps({"chat_template": named})}
    folder = write_folder(tmp_path / "toy", Toy(), **files)
    assert metadata_of(folder).jinja_prompt_template == "D"


def test_sampling_comes_from_the_generation_config(folder_metadata):
    generation = {"do_sample": True, "top_p": 0.9, "temperature": 0.6}
    sampler = folder_metadata(generation=generation).sampler_params
    assert sampler.type == SamplerParameters.TOP_P
    assert (sampler.k, sampler.p) == (50, pytest.approx(0.9))
    assert sampler.temperature == pytest.approx(0.6)


def test_top_k_of_zero_is_no_limit(folder_metadata):
    generation = {"do_sample": True, "top_k": 0}
    assert not folder_metadata(generation=generation).sampler_params.HasField("k")


def test_no_sampling_is_greedy_and_no_word_is_no_sampler(folder_metadata):
    greedy = folder_metadata(generation={"do_sample": False})
    assert greedy.sampler_params.type == SamplerParameters.GREEDY
    assert not folder_metadata(generation={}).HasField("sampler_params")


def test_the_callers_sampler_wins(folder_metadata):
    metadata = folder_metadata(
        sampler=SamplerConfig(temperature=0.0), generation={"do_sample": True}
    )
    assert metadata.sampler_params.type == SamplerParameters.GREEDY


def test_gguf_sampling_keys_are_used(tmp_path):
    keys = {"general__sampling__temp": 0.5, "general__sampling__top_k": 20}
    metadata = metadata_of(write_gguf(tmp_path / "toy.gguf", Toy(), **keys))
    assert (metadata.sampler_params.k, metadata.sampler_params.temperature) == (20, 0.5)


@pytest.mark.parametrize("wrong", [{"top_p": 2}, {"temperature": "hot"}, {"top_k": -1}])
def test_wrong_sampling_is_refused(folder_metadata, wrong):
    with pytest.raises(ConversionError, match="generation config"):
        folder_metadata(generation={"do_sample": True} | wrong)


@pytest.mark.parametrize("wrong", [{"top_k": 2**40}, {"seed": -(2**40)}])
def test_a_sampler_that_the_file_cannot_hold_is_refused(folder_metadata, wrong):
    with pytest.raises(InvalidArgumentError, match="32 bits"):
        folder_metadata(sampler=SamplerConfig(**wrong))


def test_half_a_character_in_a_template_is_refused(tmp_path):
    files = {"tokenizer_config__json": '{"chat_template": "\\ud800"}'}
    with pytest.raises(ModelFileError, match="half a character"):
        open_source(write_folder(tmp_path / "toy", Toy(), **files))


def test_executor_metadata_names_every_cache():
    buffers = make_executor_metadata(2, 64).llm_executor_metadata.state_buffers
    assert [b.decode_input_name for b in buffers] == [
        "kv_cache_k_0",
        "kv_cache_v_0",
        "kv_cache_k_1",
        "kv_cache_v_1",
    ]
    assert [b.sequence_axis for b in buffers] == [2, 3, 2, 3]
    assert buffers[1].type == StateBuffer.TYPE_GLOBAL_VALUE_CACHE
    assert buffers[0].maximum_sequence_length == 64
