"""Every public name of the official package exists here and takes the same arguments.

What litert-lm-api 0.18.1 offers lies in tests/data; scripts/record-official records it
again. Where this package means to differ, DIFFERENT says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import litert_lm
from tests.fixtures.names import describe

RECORD = Path(__file__).resolve().parent / "data" / "official-names-0.18.1.json"
OFFICIAL = json.loads(RECORD.read_text(encoding="utf-8"))

# Made by an engine, a model's information or a benchmark, never by a user.
INNER = {"Conversation", "EmbeddingCapability", "LlmCapability", "Session"}

_HUGE_PAGES = "backend is by default CPU(thread_count=None, huge_pages=False)"
DIFFERENT = {
    f"Engine: {_HUGE_PAGES}": "one more choice, the same default",
    f"EmbeddingEngine: {_HUGE_PAGES}": "one more choice, the same default",
    "Engine takes no kwargs": "what nobody reads is refused, not swallowed",
}


@pytest.fixture(scope="module")
def ours():
    return describe(litert_lm)


def differences(ours, official, path):
    """What code for the official name could stumble over, a line each."""
    if ours["kind"] != official["kind"]:
        yield f"{path} is a {ours['kind']}"
        return
    if ours.get("members") != official.get("members"):
        yield f"{path} has the members {ours['members']}"
    if path not in INNER:
        yield from of_parameters(ours, official, path)
    if official["kind"] == "class":
        yield from of_members(ours, official, path)
    for base in official.get("bases", ()):
        if base not in (*ours["bases"], "ReprEnum"):
            yield f"{path} is no {base}"


def of_parameters(ours, official, path):
    mine = {each["name"]: each for each in ours.get("parameters", ())}
    order = [each["name"] for each in ours.get("parameters", ())]
    for index, each in enumerate(official.get("parameters", ())):
        name = each["name"]
        if name not in mine:
            yield f"{path} takes no {name}"
            continue
        is_positional = each["kind"].startswith("POSITIONAL")
        if is_positional and order[index : index + 1] != [name]:
            yield f"{path} takes {name} elsewhere"
        if is_positional and mine[name]["kind"] == "KEYWORD_ONLY":
            yield f"{path} takes {name} only by name"
        if mine[name].get("default") != each.get("default"):
            yield f"{path}: {name} is by default {mine[name].get('default')}"
    known = {each["name"] for each in official.get("parameters", ())}
    for name, each in mine.items():
        is_free = "default" in each or each["kind"].startswith("VAR_")
        if name not in known and not is_free:
            yield f"{path} needs {name}"


def of_members(ours, official, path):
    inherited = dir(dict) if "dict" in ours["bases"] else ()
    for name, method in official["methods"].items():
        if name in inherited:
            continue
        if name not in ours["methods"]:
            yield f"{path}.{name}() is missing"
            continue
        if ours["methods"][name]["kind"] != method["kind"]:
            yield f"{path}.{name} is a {ours['methods'][name]['kind']}"
        yield from of_parameters(ours["methods"][name], method, f"{path}.{name}")
    values = {*ours["properties"], *ours["attributes"], *ours["constants"]}
    for name in (*official["properties"], *official["attributes"]):
        if name not in values:
            yield f"{path}.{name} is missing"
    for name, value in official["constants"].items():
        if ours["constants"].get(name) != value:
            yield f"{path}.{name} is {ours['constants'].get(name)!r}"
    for name, kind in official["classes"].items():
        if name not in ours["classes"]:
            yield f"{path}.{name} is missing"
        else:
            yield from differences(ours["classes"][name], kind, f"{path}.{name}")


def test_all_45_names_are_recorded():
    assert len(OFFICIAL) == 45


@pytest.mark.parametrize("name", OFFICIAL)
def test_a_name_is_compatible(ours, name):
    assert name in ours
    found = differences(ours[name], OFFICIAL[name], name)
    assert [text for text in found if text not in DIFFERENT] == []


def test_every_deliberate_difference_is_one(ours):
    found = [differences(ours[name], OFFICIAL[name], name) for name in OFFICIAL]
    assert set(DIFFERENT) <= {text for texts in found for text in texts}
