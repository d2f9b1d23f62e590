"""The generated code matches proto/, and its numbers are those of Google's files."""

from __future__ import annotations

import configparser
import importlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from litert_lm._proto import llm_metadata_pb2

ROOT = Path(__file__).resolve().parents[2]
OURS = (
    "token sampler_parameters llm_model_type llm_metadata executor_metadata "
    "embedding_metadata"
)
GOOGLES = (
    "token sampler_params llm_model_type llm_metadata executor_metadata "
    "embedding_metadata embedding_model_type"
)


def pinned_grpcio_tools():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.extras_require"]["test"].split()
    return next(line for line in lines if line.startswith("grpcio-tools==")).split(
        "=="
    )[1]


def test_generated_code_is_what_the_pinned_compiler_makes(tmp_path):
    pinned = pinned_grpcio_tools()
    try:
        installed = importlib.metadata.version("grpcio-tools")
    except importlib.metadata.PackageNotFoundError:
        installed = None
    if installed != pinned:
        pytest.skip(f"needs grpcio-tools {pinned}, found {installed}")
    script = ROOT / "scripts" / "generate-protos"
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([script, tmp_path], check=True, env=environment)
    made = sorted((tmp_path / "litert_lm" / "_proto").iterdir())
    assert [path.name for path in made] == sorted(
        path.name for path in (ROOT / "litert_lm" / "_proto").glob("*_pb2.py*")
    )
    for path in made:
        committed = ROOT / "litert_lm" / "_proto" / path.name
        assert path.read_bytes() == committed.read_bytes(), path.name


def fields(package, modules):
    """Every field and enum value of `modules` with its number and type."""
    found = {}

    def walk(message, prefix):
        name = f"{prefix}{message.name}."
        for field in message.field:
            kind = field.type_name.rsplit(".", 1)[-1]
            found[name + field.name] = (field.number, field.type, field.label, kind)
        for enum in message.enum_type:
            values(enum, name)
        for nested in message.nested_type:
            walk(nested, name)

    def values(enum, prefix):
        if enum.name != "TfLiteModelType":  # No field of theirs has this type.
            found.update(
                {f"{prefix}{enum.name}.{v.name}": v.number for v in enum.value}
            )

    for module in modules.split():
        description = descriptor_pb2.FileDescriptorProto()
        generated = importlib.import_module(f"{package}.{module}_pb2")
        generated.DESCRIPTOR.CopyToProto(description)
        for message in description.message_type:
            walk(message, "")
        for enum in description.enum_type:
            values(enum, "")
    return found


def test_fields_are_those_of_google_beside_which_they_load():
    pytest.importorskip("litert_lm_builder", reason="litert-lm-builder not installed")
    theirs = fields("litert_lm_builder.runtime.proto", GOOGLES)
    assert fields("litert_lm._proto", OURS) == theirs


def test_fields_of_a_later_schema_survive():
    later = b"\xba\x3e\x02hi"  # Field 999, two bytes.
    metadata = llm_metadata_pb2.LlmMetadata.FromString(b"\x28\x07" + later)
    assert metadata.max_num_tokens == 7
    assert later in metadata.SerializeToString()
