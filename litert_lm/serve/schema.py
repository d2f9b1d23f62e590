"""The messages of the vLLM Generate schema, for clients; see proto/."""

from __future__ import annotations

from litert_lm._proto.vllm_generate_pb2 import (
    CandidateTokens,
    DecodingParameters,
    GenerateRequest,
    GenerateResponse,
    KVCacheParameters,
    RandomSampling,
    ResponseOptions,
    StoppingCriteria,
    TokenIds,
)

__all__ = [
    "CandidateTokens",
    "DecodingParameters",
    "GenerateRequest",
    "GenerateResponse",
    "KVCacheParameters",
    "RandomSampling",
    "ResponseOptions",
    "StoppingCriteria",
    "TokenIds",
]
