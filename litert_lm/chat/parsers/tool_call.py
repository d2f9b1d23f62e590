"""A call of a tool, as a model asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ToolCall"]


@dataclass
class ToolCall:
    """One call that a model asks for.

    Attributes:
        name: the tool.
        arguments: by parameter name, values of JSON's types.
        id: what a result refers to; None where nobody gave one.
        type: always ``function``.
    """

    name: str
    arguments: dict[str, Any]
    id: str | None = None
    type: str = "function"

    def to_json(self) -> dict[str, Any]:
        """The call as an entry of a message's ``tool_calls``."""
        function = {"name": self.name, "arguments": self.arguments}
        shape: dict[str, Any] = {"type": self.type, "function": function}
        return shape if self.id is None else shape | {"id": self.id}
