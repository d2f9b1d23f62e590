"""From logits to the next token: processors, then a sampler; and log-probabilities."""

from litert_lm.sampling.logprobs import Logprobs, TokenLogprobs
from litert_lm.sampling.processors import (
    LogitsPipeline,
    LogitsProcessor,
    make_processors,
)
from litert_lm.sampling.sampler import Sampler, make_sampler

__all__ = [
    "LogitsPipeline",
    "LogitsProcessor",
    "Logprobs",
    "Sampler",
    "TokenLogprobs",
    "make_processors",
    "make_sampler",
]
