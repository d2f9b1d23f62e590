"""Models on this machine: where they come from and where they are kept.

Imports nothing of the runtime, so that listing models costs milliseconds.
"""

from litert_lm.hub.fetch import pull
from litert_lm.hub.resolve import resolve_model
from litert_lm.hub.store import ModelStore, StoredModel

__all__ = ["ModelStore", "StoredModel", "pull", "resolve_model"]
