"""Whose sampling values count: request, then session, then bundle, then greedy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from litert_lm.bundle.metadata import SamplerDefaults
from litert_lm.config import SamplerConfig
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.generate.request import GenerateRequest
from litert_lm.sampling.sampler import is_greedy

__all__ = ["UNSET_SEED", "SamplingChoice", "make_rng", "session_choice"]

UNSET_SEED = -1


@dataclass(frozen=True, kw_only=True)
class SamplingChoice:
    """Sampling values with no gaps; the defaults are greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def is_greedy(self) -> bool:
        """Whether no chance is involved."""
        return is_greedy(self.temperature, self.top_k, self.top_p)

    @property
    def is_cold(self) -> bool:
        """Whether the temperature alone rules out chance."""
        return is_greedy(self.temperature, top_k=0, top_p=1.0)

    def with_request(self, request: GenerateRequest) -> SamplingChoice:
        """With what the request sets itself."""
        names = ("temperature", "top_k", "top_p", "min_p")
        given = {name: getattr(request, name) for name in names}
        return replace(self, **{k: v for k, v in given.items() if v is not None})


def session_choice(
    config: SamplerConfig | None, defaults: SamplerDefaults | None
) -> SamplingChoice:
    """Values of a session: the bundle's, with what the caller's config sets.

    A config without temperature over a bundle without sampler means temperature 1: who
    asks for top_k or top_p wants to sample.
    """
    choice = _bundle_choice(defaults)
    if config is None:
        return choice
    if not isinstance(config, SamplerConfig):
        raise InvalidArgumentError(
            f"sampler_config must be a SamplerConfig, got {shown(config)}."
        )
    names = ("temperature", "top_k", "top_p")
    values = {name: getattr(config, name) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    is_silent = defaults is None and (given or config.seed is not None)
    if is_silent and "temperature" not in given:
        given["temperature"] = 1.0
    return replace(choice, **given)


def _bundle_choice(defaults: SamplerDefaults | None) -> SamplingChoice:
    """The bundle's values by its sampler type.

    A missing temperature counts as 0, and so does a missing p of a TOP_P sampler, as in
    the official runtime: its writer leaves zeros out.
    """
    if defaults is None or defaults.type == "GREEDY":
        return SamplingChoice()
    is_top_k = defaults.type == "TOP_K"
    is_greedy = defaults.temperature is None or (
        defaults.top_p is None and not is_top_k
    )
    return SamplingChoice(
        temperature=0.0 if is_greedy else defaults.temperature or 0.0,
        top_k=defaults.top_k or 0,
        top_p=1.0 if is_top_k or defaults.top_p is None else defaults.top_p,
    )


def make_rng(*seeds: int | None) -> np.random.Generator:
    """A generator from the first seed that is set, else from the system's entropy."""
    for seed in seeds:
        if seed is not None:
            return np.random.default_rng(seed % (1 << 64))
    return np.random.default_rng()
