"""Messages of a conversation; names and JSON shapes of the official package.

A message is a dict in the JSON shape, and its attributes are views of that dict.
"""

from __future__ import annotations

import abc
import base64
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from litert_lm.chat.tool_call import ToolCall
from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "AudioBytes",
    "AudioFile",
    "Content",
    "Contents",
    "ImageBytes",
    "ImageFile",
    "Message",
    "Role",
    "Text",
    "ToolCall",
    "ToolResponse",
    "message_json",
]


class Role(enum.Enum):
    """Who speaks; "model" is another spelling of "assistant"."""

    SYSTEM = "system"
    USER = "user"
    MODEL = "assistant"
    TOOL = "tool"

    @classmethod
    def _missing_(cls, value: object) -> Role | None:
        return cls.MODEL if value == "model" else None


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
        return {"type": "text", "text": self.text}


@dataclass
class _Bytes(Content):
    bytes: bytes
    _kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
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

    def __init__(self, contents: Sequence[Content] = ()) -> None:
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
        return "".join(part.text for part in self if isinstance(part, Text))

    def __repr__(self) -> str:
        return f"Contents({super().__repr__()})"


class Message(dict[str, Any]):
    """What one side said: ``Message.user("hi")``, ``Message.system("Be brief.")``.

    Args:
        role: who speaks.
        contents: parts, or text.
        tool_calls: tools that the model calls.
        channels: what the model said beside its answer, such as thoughts, by channel.

    Attributes:
        info: how a reply came about; None for messages that are no reply.
    """

    info: Any = None

    def __init__(
        self,
        role: Role | str,
        contents: Contents | str | Sequence[Content] | None = None,
        tool_calls: Sequence[ToolCall] = (),
        channels: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(role=role.value if isinstance(role, Role) else role)
        self.contents = contents if contents is not None else ()
        self.tool_calls = list(tool_calls)
        self.channels = dict(channels or {})

    @classmethod
    def system(cls, text_or_contents: str | Contents) -> Message:
        """What the model is told about its task."""
        return cls(Role.SYSTEM, text_or_contents)

    @classmethod
    def user(cls, text_or_contents: str | Contents) -> Message:
        """What the user says."""
        return cls(Role.USER, text_or_contents)

    @classmethod
    def model(
        cls,
        contents: Contents | str | None = None,
        tool_calls: Sequence[ToolCall] = (),
        channels: Mapping[str, str] | None = None,
    ) -> Message:
        """What the model said."""
        return cls(Role.MODEL, contents, tool_calls, channels)

    @classmethod
    def tool(cls, contents: Contents) -> Message:
        """What tools gave back."""
        return cls(Role.TOOL, contents)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        """A message from its JSON shape; keys that are unknown here are kept."""
        if not isinstance(data, Mapping):
            raise InvalidArgumentError(f"A message is a mapping, got {shown(data)}.")
        made = cls.__new__(cls)
        dict.__init__(made, data)
        if made.get("role") == "model":
            made["role"] = Role.MODEL.value
        return made

    def to_json(self) -> dict[str, Any]:
        """The message as a plain dict."""
        return dict(self)

    @property
    def role(self) -> Role:
        """Who speaks; a message that does not say is the model's."""
        try:
            return Role(self.get("role", Role.MODEL.value))
        except ValueError:
            return Role.USER

    @role.setter
    def role(self, role: Role | str) -> None:
        self["role"] = Role(role).value

    @property
    def contents(self) -> Contents:
        """The parts; of a kind that is unknown here only in the dict."""
        content = self.get("content")
        if isinstance(content, str):
            return Contents([Text(content)])
        parts = content if isinstance(content, list | tuple) else ()
        made = (_from_json(part) for part in parts)
        return Contents([part for part in made if part is not None])

    @contents.setter
    def contents(self, contents: Contents | str | Sequence[Content]) -> None:
        if isinstance(contents, str):
            contents = Contents.of(contents)
        self._set("content", Contents.of(list(contents)).to_json())

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tools that the model calls."""
        calls = self.get("tool_calls")
        stored = calls if isinstance(calls, list | tuple) else ()
        return [_call(call) for call in stored if isinstance(call, Mapping)]

    @tool_calls.setter
    def tool_calls(self, calls: Sequence[ToolCall]) -> None:
        self._set("tool_calls", [call.to_json() for call in calls])

    @property
    def channels(self) -> dict[str, str]:
        """What was said beside the answer, by channel."""
        channels = self.get("channels")
        return dict(channels) if isinstance(channels, Mapping) else {}

    @channels.setter
    def channels(self, channels: Mapping[str, str]) -> None:
        self._set("channels", dict(channels))

    def _set(self, key: str, value: list[Any] | dict[str, Any]) -> None:
        """Store a value; an empty one is no key at all."""
        if value:
            self[key] = value
        else:
            self.pop(key, None)

    def __str__(self) -> str:
        return str(self.contents)

    def __repr__(self) -> str:
        return (
            f"Message(role={self.role!r}, contents={self.contents!r}, "
            f"tool_calls={self.tool_calls!r}, channels={self.channels!r})"
        )


def message_json(message: object) -> dict[str, Any]:
    """The JSON shape of whatever a caller may send: text, parts, a message, a mapping.

    Text and parts are the user's.

    Raises:
        InvalidArgumentError: anything else.
    """
    if isinstance(message, str):
        return {"role": "user", "content": [{"type": "text", "text": message}]}
    if isinstance(message, list):
        return Message.user(Contents.of(message)).to_json()
    if isinstance(message, Mapping):
        made = Message.from_json(message).to_json()
        if not isinstance(made.setdefault("role", "user"), str):
            raise InvalidArgumentError(
                f"A message's role must be text, got {shown(made['role'])}."
            )
        return made
    raise InvalidArgumentError(
        f"A message must be text, Contents, a Message or a mapping, "
        f"got {shown(message)}."
    )


def _part(part: object) -> Content:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, Content):
        return part
    made = _from_json(part)
    if made is None:
        raise InvalidArgumentError(
            f"A part of a message must be text or a Content, got {shown(part)}."
        )
    return made


def _from_json(part: object) -> Content | None:
    """The part that a dict describes, or None."""
    if not isinstance(part, Mapping):
        return Text(part) if isinstance(part, str) else None
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind == "tool_response" and "response" in part:
        return ToolResponse(str(part.get("name", "")), part["response"])
    if kind in ("image", "audio") and isinstance(part.get("path"), str):
        return (ImageFile if kind == "image" else AudioFile)(part["path"])
    return None


def _call(call: Mapping[str, Any]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments = function.get("arguments")
    return ToolCall(
        name=str(function.get("name", "")),
        arguments=dict(arguments) if isinstance(arguments, Mapping) else {},
        id=call.get("id"),
        type=str(call.get("type", "function")),
    )
