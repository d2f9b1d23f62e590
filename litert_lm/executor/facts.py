"""What was found out about a model when it was first loaded, kept for later loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from litert_lm.executor.layout.state_reader import Updates
from litert_lm.executor.layout.state_updates import StateUpdate
from litert_lm.executor.patching.patch import Patch

__all__ = ["ModelFacts"]

_FORMAT = 4  # raise it when the meaning of a field changes


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Results of the first load.

    Attributes:
        updates: state updates of all graphs.
        is_resizable: the graphs take caches shorter than exported, with equal logits.
        patches: model type -> how graphs that do not are changed so that they do.
        costs: number of threads -> signature key -> seconds of one call.
        failure: why the model cannot be used; None when it works.
        batch_keys: signatures whose rows give the logits of single decode steps.
    """

    updates: Updates = field(default_factory=dict)
    is_resizable: bool = False
    patches: Mapping[str, Patch] = field(default_factory=dict)
    costs: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    failure: str | None = None
    batch_keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        updates = [
            [kind, key, output, update.source, update.axis, update.in_place]
            for (kind, key), by_output in self.updates.items()
            for output, update in by_output.items()
        ]
        return {
            "format": _FORMAT,
            "signatures": [list(key) for key in self.updates],
            "updates": updates,
            "is_resizable": self.is_resizable,
            "patches": {kind: patch.to_json() for kind, patch in self.patches.items()},
            "costs": {str(count): dict(cost) for count, cost in self.costs.items()},
            "failure": self.failure,
            "batch_keys": list(self.batch_keys),
        }

    @classmethod
    def from_json(cls, value: Any) -> ModelFacts | None:
        """From JSON values; None when they are of another format."""
        if not isinstance(value, dict) or value.get("format") != _FORMAT:
            return None
        try:
            return cls._of_format(value)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    @classmethod
    def _of_format(cls, value: Mapping[str, Any]) -> ModelFacts:
        updates: dict[tuple[str, str], dict[str, StateUpdate]] = {
            (kind, key): {} for kind, key in value["signatures"]
        }
        for kind, key, output, source, axis, in_place in value["updates"]:
            updates[kind, key][output] = StateUpdate(source, axis, in_place)
        patches = value["patches"].items()
        costs = {int(count): cost for count, cost in value["costs"].items()}
        return cls(
            updates=updates,
            is_resizable=value["is_resizable"],
            patches={kind: Patch.from_json(patch) for kind, patch in patches},
            costs=costs,
            failure=value["failure"],
            batch_keys=tuple(map(str, value["batch_keys"])),
        )

    @property
    def fastest_threads(self) -> int:
        """Number of threads with the fastest decode step; 1 when never measured."""
        totals = {
            count: min(cost.values()) for count, cost in self.costs.items() if cost
        }
        return min(totals, key=totals.__getitem__, default=1)
