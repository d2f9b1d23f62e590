"""Messages of a conversation; names and JSON shapes of the official package.

A message is a dict in the JSON shape, and its attributes are views of that dict.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from litert_lm.chat.attribute_views import DictWithViews
from litert_lm.chat.contents import (
    AudioBytes,
    AudioFile,
    Content,
    Contents,
    ImageBytes,
    ImageFile,
    Text,
    ToolResponse,
    check_is_text,
    contents_from,
    contents_json,
)
from litert_lm.chat.parsers.tool_call import ToolCall
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


class Message(DictWithViews):
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
        super().__init__(role=_role_text(role))
        self.contents = contents if contents is not None else ()
        self.tool_calls = tool_calls
        self.channels = {} if channels is None else channels

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
        self["role"] = _role_text(role)

    @property
    def contents(self) -> Contents:
        """The parts; what changes in them changes the message."""
        parts: Contents = self.view("content", contents_from, contents_json)
        return parts

    @contents.setter
    def contents(self, contents: Contents | str | Sequence[Content]) -> None:
        if isinstance(contents, str):
            contents = Contents.of(contents)
        if not isinstance(contents, Contents):
            contents = Contents.of(list(Contents(contents)))
        self.set_view("content", contents, contents_json)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tools that the model calls; what changes here changes the message."""
        calls: list[ToolCall] = self.view("tool_calls", _calls_from, _calls_json)
        return calls

    @tool_calls.setter
    def tool_calls(self, calls: Sequence[ToolCall]) -> None:
        if not isinstance(calls, list | tuple):
            raise InvalidArgumentError(
                f"tool_calls must be a list of ToolCalls, got {shown(calls)}."
            )
        self.set_view("tool_calls", list(calls), _calls_json)

    @property
    def channels(self) -> dict[str, str]:
        """What was said beside the answer, by channel; may be changed in place."""
        channels: dict[str, str] = self.view("channels", _channels_from, dict)
        return channels

    @channels.setter
    def channels(self, channels: Mapping[str, str]) -> None:
        if not isinstance(channels, Mapping):
            raise InvalidArgumentError(
                f"channels must map names to texts, got {shown(channels)}."
            )
        self.set_view("channels", dict(channels), dict)

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
        InvalidArgumentError: anything else; images and sound, which no model that this
            package runs takes yet.
    """
    if isinstance(message, str):
        return {"role": "user", "content": [{"type": "text", "text": message}]}
    if isinstance(message, list):
        return message_json(Message.user(Contents.of(message)))
    if isinstance(message, Mapping):
        made = Message.from_json(message).to_json()
        if not isinstance(made.setdefault("role", "user"), str):
            raise InvalidArgumentError(
                f"A message's role must be text, got {shown(made['role'])}."
            )
        check_is_text(made.get("content"))
        return made
    raise InvalidArgumentError(
        f"A message must be text, Contents, a Message or a mapping, "
        f"got {shown(message)}."
    )


def _calls_from(calls: object) -> list[ToolCall]:
    stored = calls if isinstance(calls, list | tuple) else ()
    return [_call(call) for call in stored if isinstance(call, Mapping)]


def _role_text(role: object) -> str:
    text = role.value if isinstance(role, Role) else role
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"A message's role must be a Role or text, got {shown(role)}."
        )
    return Role.MODEL.value if text == "model" else text


def _calls_json(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    for call in calls:
        if not isinstance(call, ToolCall):
            raise InvalidArgumentError(
                f"tool_calls must hold ToolCalls, got {shown(call)}."
            )
    return [call.to_json() for call in calls]


def _channels_from(channels: object) -> dict[str, str]:
    return dict(channels) if isinstance(channels, Mapping) else {}


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
