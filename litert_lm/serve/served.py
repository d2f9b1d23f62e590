"""The model that a server's ports offer, and whether it takes requests now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from litert_lm.errors import ModelNotFoundError, ServerUnavailableError, shown

if TYPE_CHECKING:
    from litert_lm.engine import Engine
    from litert_lm.serve.metrics import Metrics

__all__ = ["Served"]


@dataclass
class Served:
    """Shared by all ports of one server.

    Attributes:
        names: what clients may call the model; the first is the one it is shown by.
        metrics: figures of all requests.
        engine: None while the model loads.
        is_draining: whether the server is about to end.
    """

    names: Sequence[str]
    metrics: Metrics
    engine: Engine | None = field(default=None)
    is_draining: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken."""
        return self.engine is not None and not self.is_draining

    def of_name(self, name: str) -> Engine:
        """The engine behind a served name; "" is the one that is served.

        Raises:
            ModelNotFoundError: another name.
            ServerUnavailableError: the model loads, or the server ends.
        """
        if name and name not in self.names:
            raise ModelNotFoundError(
                f"There is no model {shown(name)}; this server has "
                f"{', '.join(map(repr, self.names))}."
            )
        if self.is_draining:
            raise ServerUnavailableError(
                "The server is ending and takes no new requests; use another."
            )
        if self.engine is None:
            raise ServerUnavailableError(
                "The model is still loading; try again when the health check passes."
            )
        return self.engine
