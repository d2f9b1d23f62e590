"""Values of any type and size end in an InvalidArgumentError that names them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert_lm import Backend, Engine, SamplerConfig
from litert_lm.errors import BackendError, InvalidArgumentError, StorageError

HUGE = 10**5000  # more digits than Python turns into text


class _RaisingIndex:
    def __index__(self) -> int:
        raise RuntimeError("no index")


@pytest.fixture
def engine(open_engine: Callable[..., Any], toy_llama_bundle: Path) -> Any:
    return open_engine(toy_llama_bundle)


@pytest.mark.parametrize(
    "prompt",
    [
        [HUGE],
        [int],
        [_RaisingIndex()],
        np.array([[1, 2]]),
        np.array(3),
        {1, 2},
        {1: 2},
        itertools.repeat(1),
    ],
    ids=["huge", "class", "raising", "rows", "scalar", "set", "dict", "endless"],
)
def test_a_prompt_of_odd_values(engine: Any, prompt: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="prompt"):
        engine.create_session().generate(prompt)


def test_numbers_of_numpy_are_numbers(engine: Any) -> None:
    plain = {"temperature": 0.5, "top_k": 5, "seed": 3, "ignore_eos": True}
    kinds = np.float64, np.int32, np.uint64, np.bool_
    theirs = {name: kind(plain[name]) for name, kind in zip(plain, kinds, strict=True)}
    bias = {"logit_bias": {np.int64(4): np.float32(2.5)}}
    answer = engine.generate([1], **theirs, **bias)
    assert answer == engine.generate([1], **plain, logit_bias={4: 2.5})


@pytest.mark.parametrize(
    "name",
    [
        *("temperature", "top_k", "top_p", "min_p", "seed", "max_new_tokens"),
        *("min_new_tokens", "stop_token_ids", "stop_strings", "ignore_eos"),
    ],
)
@pytest.mark.parametrize("value", [HUGE, -HUGE, [HUGE]], ids=["huge", "less", "list"])
def test_options_that_are_too_large(engine: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        engine.create_session().generate([1], **{name: value})


@pytest.mark.parametrize("config", [{"temperature": 1.0}, SamplerConfig, 5])
def test_a_sampler_config_of_another_type(engine: Any, config: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="SamplerConfig"):
        engine.create_session(sampler_config=config)


def test_flags_are_true_or_false(engine: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="apply_prompt_template"):
        engine.create_session(apply_prompt_template="no")


@pytest.mark.parametrize(
    "ids", [HUGE, [HUGE], itertools.repeat(1)], ids=["huge", "list", "endless"]
)
def test_ids_that_have_no_text(engine: Any, ids: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"oken ids? "):
        engine.detokenize(ids)


@pytest.mark.parametrize("texts", [HUGE, [HUGE], ["a", None]], ids=["a", "b", "c"])
def test_texts_that_are_none(engine: Any, texts: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="contents"):
        engine.create_session().run_prefill(texts)


@pytest.mark.parametrize("count", [HUGE, 1 << 63, 9999], ids=["a", "b", "c"])
def test_more_threads_than_a_system_starts(count: int) -> None:
    with pytest.raises(InvalidArgumentError, match="thread_count must be at most"):
        Backend.CPU(thread_count=count)


@pytest.mark.parametrize("name", ["max_num_images", "vision_backend"])
@pytest.mark.parametrize("value", [np.zeros(2), HUGE], ids=["array", "huge"])
def test_parameters_without_support(
    toy_llama_bundle: Path, name: str, value: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name}=.* is not supported"):
        Engine(toy_llama_bundle, **{name: value})


@pytest.mark.parametrize(
    "backend",
    [
        Backend.GPU(gpu_decode_steps_per_sync=4),
        Backend.NPU(litert_dispatch_lib_dir="lib"),
    ],
    ids=["gpu", "npu"],
)
def test_options_of_backends_without_support(
    toy_llama_bundle: Path, backend: Backend
) -> None:
    with pytest.raises(InvalidArgumentError, match="is not supported yet"):
        Engine(toy_llama_bundle, backend)


class _OwnBackend(Backend):
    def get_name(self) -> str:
        return "abacus"


@pytest.mark.parametrize("backend", [Backend, _OwnBackend, _OwnBackend(), "cpu"])
def test_backends_that_do_not_exist(toy_llama_bundle: Path, backend: Any) -> None:
    with pytest.raises(BackendError, match="is no backend"):
        Engine(toy_llama_bundle, backend)


@pytest.mark.parametrize("folder", [5, b"x", True, Path("x")])
def test_a_cache_dir_of_another_type(toy_llama_bundle: Path, folder: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cache_dir must be a str"):
        Engine(toy_llama_bundle, cache_dir=folder)


@pytest.mark.parametrize("folder", ["\0", "\ud800", "line\nbreak"])
def test_a_cache_dir_that_is_no_path(toy_llama_bundle: Path, folder: str) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        Engine(toy_llama_bundle, cache_dir=folder)


def test_progress_that_cannot_be_called(toy_llama_bundle: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="progress must be callable"):
        Engine(toy_llama_bundle, progress="bar")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["ü 🙂", "q\"'\\n", "tab\tx#]="])
def test_cache_folders_of_any_spelling_hold_weights(
    open_engine: Callable[..., Any], toy_llama_bundle: Path, tmp_path: Path, name: str
) -> None:
    open_engine(toy_llama_bundle, cache_dir=str(tmp_path / name))
    assert list((tmp_path / name).glob("*.xnnpack"))
