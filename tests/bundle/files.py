"""Small bundles for tests: sound ones, and the parts to build unsound ones from."""

from __future__ import annotations

import zipfile

from google.protobuf import text_format

from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
from litert_lm.bundle import open_bundle
from litert_lm.bundle.header import Entry, build_header
from litert_lm.bundle.sections import SectionType
from litert_lm.bundle.writer import write_bundle
from litert_lm.errors import LiteRtLmError

MODEL = b"\x1c\x00\x00\x00TFL3" + bytes(100)
TOKENIZER_JSON = b'{"model": {"type": "BPE"}}' * 50


def metadata(text='stop_tokens { token_str: "</s>" }'):
    return text_format.Parse(text, LlmMetadata())


def write_small(path, **changes):
    """A sound .litertlm file; `changes` are arguments of write_bundle."""
    arguments = {
        "metadata": metadata(),
        "tokenizer": ("huggingface", TOKENIZER_JSON),
        "models": {"prefill_decode": MODEL},
        **changes,
    }
    write_bundle(path, **arguments)
    return path


def write_sections(path, *sections, system=None):
    """A .litertlm file of any (data type, items, content), sound or not."""
    entries = [Entry(kind, items, 1, 1) for kind, items, _ in sections]
    position = len(build_header(system or {}, entries))
    content = bytearray(position)
    for index, (kind, items, data) in enumerate(sections):
        content += bytes(-len(content) % 64)
        begin = len(content)
        content += data
        entries[index] = Entry(kind, items, begin, len(content))
    content[:position] = build_header(system or {}, entries)
    path.write_bytes(content)
    return path


def sentencepiece_section(data=b"\x0apieces", **items):
    return SectionType.SENTENCEPIECE_TOKENIZER, items, data


def write_task(path, compression=zipfile.ZIP_STORED, **members):
    """A .task file of the sound members, changed and extended by `members`."""
    sound = {
        "TF_LITE_PREFILL_DECODE": MODEL,
        "TOKENIZER_MODEL": b"\x0apieces",
        "METADATA": metadata().SerializeToString(),
    }
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in {**sound, **members}.items():
            if data is not None:
                archive.writestr(name, data)
    return path


def assert_read_or_refused(path):
    """All of a bundle can be read, or one error of the package says why not."""
    try:
        with open_bundle(path) as bundle:
            _ = [bundle.read(section) for section in bundle.sections]
            _ = bundle.llm_metadata, bundle.tokenizer_section()
    except LiteRtLmError as error:
        assert str(error)
