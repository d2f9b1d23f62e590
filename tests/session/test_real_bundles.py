"""Bundles made by the official tools give the recorded texts and ids."""

from __future__ import annotations

import json

import pytest

from litert_lm import Backend, Engine
from litert_lm.executor.kv import cache_lengths

TINY = (
    "gemma3_tiny.litertlm",
    "gemma3_tiny.task",
    "gemma4_tiny.litertlm",
    "lfm2_tiny.litertlm",
    "llama_tiny_gpu.litertlm",
    "llama_tiny_split.litertlm",
    "qwen3_tiny_extemb.litertlm",
)


@pytest.mark.parametrize("name", TINY)
def test_ids_of_a_tiny_bundle_equal_transformers(shared_dir, cache_dir, name):
    bundles = shared_dir / "bundles"
    reference = json.loads((bundles / "tiny_reference.json").read_text())[name]
    with Engine(bundles / name, cache_dir=str(cache_dir)) as engine:
        for item in reference["items"]:
            output = engine.create_session().generate(
                item["prompt_ids"], max_new_tokens=24, ignore_eos=True, temperature=0
            )
            assert list(output.outputs[0].token_ids) == item["output_ids"]


def test_interleaved_recurrent_sessions_do_not_mix(shared_dir, cache_dir):
    bundles = shared_dir / "bundles"
    reference = json.loads((bundles / "tiny_reference.json").read_text())
    items = reference["lfm2_tiny.litertlm"]["items"]
    with Engine(bundles / "lfm2_tiny.litertlm", cache_dir=str(cache_dir)) as engine:
        streams = [
            engine.create_session().generate_stream(
                item["prompt_ids"], max_new_tokens=24, ignore_eos=True, temperature=0
            )
            for item in items
        ]
        ids = [[] for _ in items]
        for _ in range(25):
            for stream, collected in zip(streams, ids, strict=True):
                for output in next(stream).outputs:
                    collected += output.token_ids
    assert ids == [item["output_ids"] for item in items]


@pytest.mark.parametrize("bucket", [128, 192, 1280])
def test_texts_of_the_official_int8_file(shared_dir, cache_dir, monkeypatch, bucket):
    bundles = shared_dir / "bundles"
    recorded = json.loads((bundles / "official_int8.json").read_text())
    monkeypatch.setattr(cache_lengths, "_BUCKET", bucket)
    items = recorded["items"] if bucket == 128 else recorded["items"][:3]
    path = bundles / recorded["file"]
    with Engine(path, Backend.CPU(thread_count=2), cache_dir=str(cache_dir)) as engine:
        for item in items:
            session = engine.create_session(apply_prompt_template=False)
            answer = session.generate(
                item["prompt_text"], max_new_tokens=64, temperature=0
            )
            assert answer.text == item["text"]
            assert answer.prompt_info.num_prompt_tokens == item["num_prompt_tokens"]
