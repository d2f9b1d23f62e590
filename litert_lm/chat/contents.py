"""Parts of a message; names and JSON shapes of the official package."""

from __future__ import annotations

import abc
import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "AudioBytes",
    "AudioFile",
    "Content",
    "Contents",
    "ImageBytes",
    "ImageFile",
    "Text",
    "ToolResponse",
    "check_is_text",
    "contents_from",
    "contents_json",
]

_NOT_YET = ("image", "image_url", "audio", "input_audio", "video")
_ORIGIN = "_origin"  # of a part: the mapping that it was read from


class Content(abc.ABC):
    """One part of a message: ``Content.Text("hi")`` and so on."""

    Text: ClassVar[type[Text]]
    ImageBytes: ClassVar[type[ImageBytes]]
    ImageFile: ClassVar[type[ImageFile]]
    AudioBytes: ClassVar[type[AudioBytes]]
    AudioFile: ClassVar[type[AudioFile]]
    ToolResponse: ClassVar[type[ToolResponse]]

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The part in the JSON shape."""


@dataclass
class Text(Content):
    """Text."""

    text: str

    def to_json(self) -> dict[str, Any]:
        if not isinstance(self.text, str):
            raise InvalidArgumentError(f"Text needs text, got {shown(self.text)}.")
        return {"type": "text", "text": self.text}


@dataclass
class _Bytes(Content):
    bytes: bytes
    _kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        if not isinstance(self.bytes, bytes | bytearray | memoryview):
            raise InvalidArgumentError(
                f"{type(self).__name__} needs bytes, got {shown(self.bytes)}."
            )
        blob = base64.b64encode(self.bytes).decode()
        return {"type": self._kind, "blob": blob}


@dataclass
class _File(Content):
    absolute_path: str
    _kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {"type": self._kind, "path": self.absolute_path}


class ImageBytes(_Bytes):
    """An encoded image; no model that this package runs sees images yet."""

    _kind = "image"


class AudioBytes(_Bytes):
    """Encoded sound; no model that this package runs hears yet."""

    _kind = "audio"


class ImageFile(_File):
    """An image file; no model that this package runs sees images yet."""

    _kind = "image"


class AudioFile(_File):
    """A sound file; no model that this package runs hears yet."""

    _kind = "audio"


@dataclass
class ToolResponse(Content):
    """What a tool gave back."""

    name: str
    response: Any

    def to_json(self) -> dict[str, Any]:
        return {"type": "tool_response", "name": self.name, "response": self.response}


Content.Text = Text
Content.ImageBytes = ImageBytes
Content.ImageFile = ImageFile
Content.AudioBytes = AudioBytes
Content.AudioFile = AudioFile
Content.ToolResponse = ToolResponse


class Contents(list[Content]):
    """The parts of a message."""

    def __init__(self, contents: Iterable[Content] = ()) -> None:
        if isinstance(contents, str | bytes | Mapping) or not isinstance(
            contents, Iterable
        ):
            raise InvalidArgumentError(
                f"Contents are a list of parts, got {shown(contents)}."
            )
        super().__init__(contents)

    @property
    def contents(self) -> list[Content]:
        """The parts as a plain list."""
        return list(self)

    @classmethod
    def of(cls, *args: str | Content | Sequence[Content]) -> Contents:
        """Parts from texts and parts; or all of them in one list."""
        parts = list(args)
        if len(args) == 1 and isinstance(args[0], list | tuple):
            parts = list(args[0])
        return cls([_part(part) for part in parts])

    @classmethod
    def empty(cls) -> Contents:
        """No parts."""
        return cls()

    def to_json(self) -> list[dict[str, Any]]:
        """The parts in the JSON shape."""
        return [_part(part).to_json() for part in self]

    def __str__(self) -> str:
        return "".join(str(part.text) for part in self if isinstance(part, Text))

    def __repr__(self) -> str:
        return f"Contents({super().__repr__()})"


@dataclass
class _Other(Content):
    """A part of a kind that is unknown here."""

    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return dict(self.data)


def contents_from(content: object) -> Contents:
    """The parts that a message's ``content`` tells of."""
    if isinstance(content, str):
        return Contents([Text(content)])
    parts = content if isinstance(content, list | tuple) else ()
    made = (_from_json(part) for part in parts)
    return Contents([part for part in made if part is not None])


def contents_json(contents: Sequence[Content | str]) -> list[dict[str, Any]]:
    """The parts as a message's ``content``; keys that are unknown here are kept."""
    parts = [_part(part) for part in contents]
    return [{**vars(part).get(_ORIGIN, {}), **part.to_json()} for part in parts]


def check_is_text(content: object) -> None:
    """Refuse images and sound in a message's ``content``."""
    for part in content if isinstance(content, list | tuple) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _NOT_YET:
            raise InvalidArgumentError(
                f"A part of type {kind!r} is not supported yet; send text only."
            )


def _part(part: object) -> Content:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, Content):
        return part
    made = _from_json(part)
    if made is None or isinstance(made, _Other):
        raise InvalidArgumentError(
            f"A part of a message must be text or a Content, got {shown(part)}."
        )
    return made


def _from_json(part: object) -> Content | None:
    """The part that a mapping or text describes, or None."""
    if not isinstance(part, Mapping):
        return Text(part) if isinstance(part, str) else None
    made = _known(part) or _Other(part)
    vars(made)[_ORIGIN] = part
    return made


def _known(part: Mapping[str, Any]) -> Content | None:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind == "tool_response" and "response" in part:
        return ToolResponse(str(part.get("name", "")), part["response"])
    if kind in ("image", "audio") and isinstance(part.get("path"), str):
        return (ImageFile if kind == "image" else AudioFile)(part["path"])
    return None
