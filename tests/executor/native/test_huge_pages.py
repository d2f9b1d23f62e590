"""Weights in huge pages: other memory, the same answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from litert_lm import Backend, Engine
from litert_lm.errors import BackendError
from litert_lm.executor.native import huge_pages


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are Linux only")
def test_answers_stay_the_same(open_engine, toy_llama_bundle, cache_dir):
    plain = open_engine(toy_llama_bundle)
    wanted = plain.create_session().generate([1, 2, 3], max_new_tokens=30)
    assert ".xnnpack" in Path("/proc/self/maps").read_text()
    plain.close()
    backend = Backend.CPU(thread_count=1, huge_pages=True)
    with Engine(toy_llama_bundle, backend, cache_dir=str(cache_dir)) as engine:
        got = engine.create_session().generate([1, 2, 3], max_new_tokens=30)
        mapped = Path("/proc/self/maps").read_text()
    assert got.outputs == wanted.outputs
    assert ".xnnpack" not in mapped


def test_other_systems_are_told(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendError, match="Linux only"):
        huge_pages.move_to_huge_pages("anything")
