"""litert-lm pull, list, rm, show and convert."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.fixture
def bundle(make_echo_bundle: Callable[..., Path]) -> Path:
    return make_echo_bundle()


def test_pull_prints_the_path(command: Command, bundle: Path, homes: Path) -> None:
    done = command("pull", bundle, "--name", "m")
    path = Path(done.out.strip())
    assert done.code == 0
    assert path.is_relative_to(homes / "home")
    assert path.read_bytes() == bundle.read_bytes()


def test_what_was_pulled_is_listed(command: Command, bundle: Path) -> None:
    command("pull", bundle, "--name", "m")
    header, line = command("list").out.splitlines()
    assert header.split() == ["NAME", "SIZE", "CREATED", "SOURCE"]
    assert line.split()[0] == "m"
    (listed,) = json.loads(command("list", "--json").out)
    assert (listed["name"], listed["source"]) == ("m", str(bundle))


def test_an_empty_store_says_what_to_do(command: Command) -> None:
    done = command("list")
    assert (done.code, done.out) == (0, "")
    assert "litert-lm pull" in done.err
    assert json.loads(command("list", "--json").out) == []


def test_list_check_tells_each_damaged_file(command: Command, bundle: Path) -> None:
    cut, changed, _ = (
        Path(command("pull", bundle, "--name", name).out.strip()) for name in "abc"
    )
    done = command("list", "--check")
    assert (done.code, done.err) == (0, "3 models are sound.\n")
    cut.write_bytes(cut.read_bytes()[:-1])
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    done = command("list", "--check")
    assert done.code == 4
    assert [line.split()[0] for line in done.out.splitlines()] == ["NAME", "c"]
    first, second = done.err.splitlines()
    assert f"{cut} has" in first and "litert-lm rm a" in first
    assert f"{changed} has changed" in second and "pull --force b" in second


def test_a_store_of_damaged_models_is_not_empty(command: Command, bundle: Path) -> None:
    path = Path(command("pull", bundle, "--name", "m").out.strip())
    path.unlink()
    done = command("list")
    assert (done.code, done.out) == (0, "")
    assert done.err.count("\n") == 1 and f"{path} is missing" in done.err


def test_rm_deletes(command: Command, bundle: Path) -> None:
    path = Path(command("pull", bundle, "--name", "m").out.strip())
    assert command("rm", "m").code == 0
    assert not path.exists()
    done = command("rm", "m")
    assert (done.code, done.err) == (3, "error: No stored model is called 'm'.\n")


def test_rm_deletes_packed_weights_too(
    command: Command,
    bundle: Path,
    quick_first_load: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command("pull", bundle, "--name", "m")
    assert command("run", "m", "a").code == 0
    assert list(tmp_path.rglob("*.xnnpack"))
    command("rm", "m")
    assert not list(tmp_path.rglob("*.xnnpack"))


@pytest.mark.parametrize("digest", ["*", "/etc", "", "../x"])
def test_rm_deletes_nothing_of_other_models(
    command: Command, bundle: Path, cache_dir: Path, digest: str
) -> None:
    path = Path(command("pull", bundle, "--name", "m").out.strip())
    manifest = path.with_name("model.json")
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(fields | {"sha256": digest}))
    other = cache_dir / "litert_lm" / "0123-main-1.litert_lm.xnnpack"
    other.parent.mkdir(exist_ok=True)
    other.touch()
    assert command("rm", "m").code == 0
    assert other.exists()


def test_a_stored_name_works_everywhere(
    command: Command, bundle: Path, quick_first_load: None
) -> None:
    command("pull", bundle, "--name", "m")
    assert json.loads(command("show", "m", "--json").out)["path"].endswith("m.litertlm")
    assert command("run", "m", "a").code == 0


def test_show_json_has_what_the_file_holds(command: Command, bundle: Path) -> None:
    shown = json.loads(command("show", bundle, "--json").out)
    assert shown["path"] == str(bundle)
    assert shown["sections"][0]["type"] == "llm_metadata"
    assert shown["metadata"]["user"] == {"prefix": "U:", "suffix": ";"}
    names = {signature["name"] for signature in shown["signatures"]}
    assert {"decode", "prefill_4", "prefill_8"} <= names
    decode = next(s for s in shown["signatures"] if s["name"] == "decode")
    assert {"name", "type", "shape"} == set(decode["inputs"][0])
    assert isinstance(shown["lint"], list)


def test_show_lists_what_is_suspicious(
    command: Command, make_echo_bundle: Callable[..., Path]
) -> None:
    broken = make_echo_bundle({"jinja_prompt_template": "{{ x.y }}"})
    shown = json.loads(command("show", broken, "--json").out)
    assert any("template" in finding["code"] for finding in shown["lint"])
    assert "template" in command("show", broken).out.partition("Lint")[2]


def test_show_of_a_damaged_file(command: Command, bundle: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.litertlm"
    cut.write_bytes(bundle.read_bytes()[:1000])
    done = command("show", cut)
    assert done.code == 4
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


def test_names_cannot_drive_the_terminal(
    command: Command, make_echo_bundle: Callable[..., Path]
) -> None:
    hostile = make_echo_bundle({"min_runtime_version": "\x1b[31m\x07"})
    assert "\x1b" not in command("show", hostile).out


def test_convert_prints_the_path_or_one_error(command: Command, tmp_path: Path) -> None:
    done = command("convert", tmp_path / "none.gguf", tmp_path / "out.litertlm")
    assert (done.code, done.out) == (3, "")
    assert done.err.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "out.litertlm").exists()


def test_what_cannot_be_converted_is_4(command: Command, tmp_path: Path) -> None:
    (tmp_path / "text.md").write_text("# Text")
    for source in (tmp_path, tmp_path / "text.md"):
        assert command("convert", source, tmp_path / "out.litertlm").code == 4
