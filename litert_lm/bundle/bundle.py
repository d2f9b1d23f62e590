"""An open bundle: its sections over one read-only mapping, found by their meaning."""

from __future__ import annotations

import mmap
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from litert_lm.bundle.copies import Copies
from litert_lm.bundle.identity import file_identity
from litert_lm.bundle.inflate import MAX_TOKENIZER, inflate
from litert_lm.bundle.sections import MAIN_MODEL, Section, SectionType, Value
from litert_lm.errors import InvalidArgumentError, ModelFileError, SessionStateError

if TYPE_CHECKING:
    from litert_lm._proto.embedding_metadata_pb2 import EmbeddingMetadata
    from litert_lm._proto.executor_metadata_pb2 import ExecutorMetadata
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata

__all__ = ["Bundle", "TokenizerData", "TokenizerKind"]

_MAX_METADATA = 4 << 20
"""Bytes of one metadata message; parsed, a byte can take a hundred."""

_MAX_DEFLATED = 256 << 20
_MAX_DEFLATED_RATIO = 100
"""A deflated member may unfold to the larger of the two; weights shrink far less."""


TokenizerKind = Literal["sentencepiece", "sentencepiece_bytes", "huggingface"]
"""A SentencePiece model, one of byte-level BPE, or a tokenizer.json.

In the second, pieces spell bytes as GPT-2's printable characters: text goes through
that mapping before encoding, and back after decoding.
"""


class TokenizerData(NamedTuple):
    """A tokenizer as stored: a SentencePiece model, or the text of a tokenizer.json."""

    kind: TokenizerKind
    data: memoryview


class Bundle:
    """Sections of one model file. A context manager; closing it twice is harmless.

    Attributes:
        path: the file.
        format: ``litertlm``, or ``task`` for MediaPipe's zip files.
        version: of the .litertlm format; None for ``task``.
        system_metadata: author, creation time and the like.
        sections: in the order of the file.
        models: TFLite models by their role: ``prefill_decode``, ``embedder``,
            ``per_layer_embedder``, ``aux``, ``vision_encoder`` and so on.
        weights: external weights by the role of the model they belong to.
        identity: of the file that is mapped; `path` may lead to another one later.
    """

    def __init__(
        self,
        path: Path,
        data: memoryview,
        sections: Iterable[Section],
        *,
        format: Literal["litertlm", "task"],
        version: tuple[int, int, int] | None = None,
        system_metadata: Mapping[str, Value] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self.format = format
        self.version = version
        self.system_metadata = MappingProxyType(dict(system_metadata))
        self.sections = tuple(sections)
        self._data: memoryview | None = data
        self.identity = file_identity(path)
        self._unfolded: dict[int, memoryview] = {}
        self._lock = threading.Lock()
        self.models = self._by_model_type(SectionType.TFLITE_MODEL)
        self.weights = self._by_model_type(SectionType.TFLITE_WEIGHTS)

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Bundle {str(self.path)!r}, {len(self.sections)} sections>"

    def close(self) -> None:
        """Lets go of the mapping; it lives on while views from `read` are in use."""
        self._data = None
        self._unfolded.clear()

    def drop_pages(self) -> None:
        """Let the system take back the file's pages; a later read maps them again.

        Compilation touches the whole graph, running only a few rows of the embedding.
        """
        mapping = self._data.obj if self._data is not None else None
        if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)

    def read(self, section: Section) -> memoryview:
        """The content of `section`: uint8, read-only, valid after `close` too.

        A slice of the mapped file, nothing is copied; a deflated member is unfolded on
        the first call and kept. Raises ModelFileError for damaged compressed data.
        """
        data = self._data
        if data is None:
            raise SessionStateError(f"{self.path} is closed; open the bundle again.")
        if section not in self.sections:
            raise InvalidArgumentError(
                f"{section} is not a section of {self.path}; take one of its sections."
            )
        stored = data[section.begin : section.end]
        if section.deflated is None:
            return stored
        with self._lock:
            if section.index not in self._unfolded:
                self._unfolded[section.index] = self._unfold(section, stored)
            return self._unfolded[section.index]

    def copies(self, section: Section) -> Copies:
        """What makes writable copies of `section`; raises what `read` raises."""
        content = self.read(section)
        begin = section.begin if section.deflated is None else None
        return Copies(content, self.path, self.identity, begin)

    @cached_property
    def llm_metadata(self) -> LlmMetadata:
        """What the bundle says about its language model.

        MediaPipe's older LlmParameters are translated. Raises ModelFileError where the
        section is missing or damaged.
        """
        from litert_lm._proto.llm_metadata_pb2 import LlmMetadata

        section = self._only(SectionType.LLM_METADATA)
        if section is None:
            raise ModelFileError(
                f"{self.path} has no LlmMetadata section, so it holds no language "
                f"model; it has {self._listing()}."
            )
        if self.format == "task":
            from litert_lm.bundle.legacy import parse_task_metadata

            return parse_task_metadata(self._small(section), self._name(section))
        metadata: LlmMetadata = self._parse(LlmMetadata, section)
        return metadata

    @cached_property
    def executor_metadata(self) -> ExecutorMetadata | None:
        """What the model's state tensors mean; None where the bundle does not say."""
        from litert_lm._proto.executor_metadata_pb2 import ExecutorMetadata

        section = self._only(SectionType.EXECUTOR_METADATA)
        return None if section is None else self._parse(ExecutorMetadata, section)

    @cached_property
    def embedding_metadata(self) -> EmbeddingMetadata | None:
        """What an embedding model needs; None for other bundles."""
        from litert_lm._proto.embedding_metadata_pb2 import EmbeddingMetadata

        section = self._only(SectionType.EMBEDDING_METADATA)
        return None if section is None else self._parse(EmbeddingMetadata, section)

    def _spells_bytes(self) -> bool:
        """Whether MediaPipe's bundler marked the tokenizer with BYTES_TO_UNICODE."""
        section = self._only(SectionType.LLM_METADATA)
        if self.format != "task" or section is None:
            return False
        from litert_lm.bundle.legacy import spells_bytes

        return spells_bytes(self._small(section))

    def tokenizer_section(self, model_type: str | None = None) -> TokenizerData:
        """The tokenizer of a model role, by default of the main model.

        A role without a tokenizer of its own shares the one that names no role. A
        compressed tokenizer.json comes unfolded.
        """
        section = self._tokenizer(model_type or MAIN_MODEL)
        data = self.read(section)
        if section.data_type == SectionType.HUGGINGFACE_TOKENIZER:
            return TokenizerData("huggingface", self._unfold_json(section, data))
        # A serialized SentencePiece model begins with the tag of its first field.
        if bytes(data[:1]) == b"{":
            return TokenizerData("huggingface", data)
        if self._spells_bytes():
            return TokenizerData("sentencepiece_bytes", data)
        return TokenizerData("sentencepiece", data)

    def _tokenizer(self, model_type: str) -> Section:
        kinds = (SectionType.SENTENCEPIECE_TOKENIZER, SectionType.HUGGINGFACE_TOKENIZER)
        found = [s for s in self.sections if s.data_type in kinds]
        own = [s for s in found if s.model_type == model_type]
        shared = [s for s in found if s.model_type is None]
        if not own and not shared:
            raise ModelFileError(
                f"{self.path} has no tokenizer for {model_type!r}; "
                f"it has {self._listing()}."
            )
        return self._single(own or shared)

    def _unfold_json(self, section: Section, data: memoryview) -> memoryview:
        """The tokenizer.json behind its length, a 64-bit little-endian number."""
        if len(data) < 8:
            raise ModelFileError(
                f"{self._name(section)} has {len(data)} bytes, too few for a "
                "compressed tokenizer; get the file again."
            )
        (size,) = struct.unpack_from("<Q", data)
        return inflate(data[8:], size, MAX_TOKENIZER, self._name(section))

    def _unfold(self, section: Section, stored: memoryview) -> memoryview:
        """The content of a deflated zip member, checked against its CRC."""
        name, size = self._name(section), section.size
        limit = max(_MAX_DEFLATED, _MAX_DEFLATED_RATIO * len(stored))
        data = inflate(stored, size, limit, name, raw=True)
        if section.deflated and zlib.crc32(data) != section.deflated.crc:
            raise ModelFileError(
                f"{name} is damaged: its CRC is wrong; get the file again."
            )
        return data

    def _by_model_type(self, data_type: SectionType) -> Mapping[str, Section]:
        found: dict[str, Section] = {}
        for section in self.sections:
            role = section.model_type
            if section.data_type != data_type or role is None:
                continue
            if role in found:
                self._single([found[role], section])
            found[role] = section
        return MappingProxyType(found)

    def _only(self, data_type: SectionType) -> Section | None:
        found = [s for s in self.sections if s.data_type == data_type]
        return self._single(found) if found else None

    def _single(self, found: list[Section]) -> Section:
        if len(found) > 1:
            raise ModelFileError(
                f"{self.path} is ambiguous: {found[0]} and {found[1]} have the same "
                "role; pack it again with one of them."
            )
        return found[0]

    def _small(self, section: Section) -> bytes:
        if section.size > _MAX_METADATA:
            raise ModelFileError(
                f"{self._name(section)} has {section.size} bytes, more than metadata "
                f"may have ({_MAX_METADATA}); get the file again."
            )
        return bytes(self.read(section))

    def _parse(self, message_type: Any, section: Section) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return message_type.FromString(self._small(section))
        except DecodeError as error:
            raise ModelFileError(
                f"{self._name(section)} is damaged: {error}; get the file again."
            ) from error

    def _name(self, section: Section) -> str:
        return f"{section} of {self.path}"

    def _listing(self) -> str:
        return ", ".join(map(str, self.sections)) or "no sections at all"
