"""The schema on the wire: that of other clients, also when both are in one process."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from litert_lm._proto import vllm_generate_pb2 as ours
from tests.serve.client import RunningServer

ROOT = Path(__file__).parents[2]


def compiled(text: str, folder: Path, name: str) -> Any:
    """The module that protoc makes of a schema, in the pool that all share."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="needs grpcio-tools")
    (folder / f"{name}.proto").write_text(text)
    included = Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{folder}", f"-I{included}", f"--python_out={folder}"]
    assert protoc.main([*arguments, f"{name}.proto"]) == 0
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}_pb2.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Code that a client would have: under the names that the server has too."""
    text = (ROOT / "proto" / "litert_lm" / "vllm_generate.proto").read_text()
    return compiled(text, tmp_path_factory.mktemp("theirs"), "vllm_grpc")


def test_a_client_with_its_own_code_in_the_same_process(
    server: RunningServer, theirs: Any
) -> None:
    call = server.channel.unary_unary(
        "/vllm.Generate/Generate",
        theirs.GenerateRequest.SerializeToString,
        theirs.GenerateResponse.FromString,
    )
    answer = call(theirs.GenerateRequest(text="abc"))
    assert (
        answer.SerializeToString() == server.client.generate("abc").SerializeToString()
    )


def shape(file: descriptor_pb2.FileDescriptorProto) -> dict[str, Any]:
    """Names, numbers and types of everything but service Inference."""
    found: dict[str, Any] = {
        f"{service.name}.{method.name}": (
            method.input_type,
            method.output_type,
            method.server_streaming,
        )
        for service in file.service
        if service.name != "Inference"
        for method in service.method
    }

    def walk(message: descriptor_pb2.DescriptorProto, prefix: str) -> None:
        name = f"{prefix}{message.name}."
        for field in message.field:
            member = (
                message.oneof_decl[field.oneof_index].name
                if field.HasField("oneof_index")
                else ""
            )
            kind = field.number, field.type, field.label, field.type_name, member
            found[name + field.name] = kind
        for enum in message.enum_type:
            found.update({f"{name}{v.name}": v.number for v in enum.value})
        for nested in message.nested_type:
            walk(nested, name)

    for message in file.message_type:
        walk(message, "")
    return found


def test_names_and_numbers_are_those_of_the_seed(
    shared_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("grpc_tools.protoc", reason="needs grpcio-tools")
    from grpc_tools import protoc

    texts = [path.read_text() for path in (shared_dir / "seeds").glob("*.txt")]
    text = next(text for text in texts if "service Generate" in text)
    source = re.sub(r"\A.*?(?=syntax)", "", text, flags=re.DOTALL)
    (tmp_path / "seed.proto").write_text(source)
    included = Path(protoc.__file__).parent / "_proto"
    made = tmp_path / "set"
    arguments = ["protoc", f"-I{tmp_path}", f"-I{included}"]
    arguments += [f"--descriptor_set_out={made}", "seed.proto"]
    assert protoc.main(arguments) == 0
    seed = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file[0]
    own = descriptor_pb2.FileDescriptorProto()
    ours.DESCRIPTOR.CopyToProto(own)
    assert shape(own) == shape(seed)
