"""Run `.litertlm` language models from Python.

Names load on first use, so that ``import litert_lm`` costs neither numpy nor LiteRT.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litert_lm.bench.benchmark import Benchmark
    from litert_lm.bundle.metadata import Channel
    from litert_lm.chat.messages import Content, Contents, Message, Role
    from litert_lm.chat.parsers.tool_call import ToolCall
    from litert_lm.chat.tools.tool import Tool, ToolEventHandler, tool_from_function
    from litert_lm.config import Backend, GenerateLimits, SamplerConfig
    from litert_lm.conversation.conversation import Conversation
    from litert_lm.conversation.reply_info import ReplyInfo
    from litert_lm.conversation.reply_stream import ReplyStream
    from litert_lm.embedding import EmbeddingEngine, EmbeddingOptions, EmbeddingResponse
    from litert_lm.engine import Engine
    from litert_lm.enums import (
        ActivationDataType,
        InputOverflowStrategy,
        LiteRtLmBackendType,
        LiteRtLmConstraintProviderType,
        LiteRtLmModality,
        LiteRtLmModelType,
        LiteRtLmNpuBrand,
        LogSeverity,
        ModelType,
    )
    from litert_lm.errors import LiteRtLmError
    from litert_lm.generate.response import (
        CandidateToken,
        FinishInfo,
        FinishReason,
        GenerateResponse,
        PromptInfo,
        SequenceOutput,
    )
    from litert_lm.interfaces import (
        AbstractBenchmark,
        AbstractConversation,
        AbstractEngine,
        AbstractSession,
    )
    from litert_lm.logs import set_min_log_severity
    from litert_lm.model_info import (
        EmbeddingCapability,
        LlmCapability,
        ModelInfo,
        SupportedModalities,
    )
    from litert_lm.reply_config import (
        ConstrainedDecodingConfig,
        LoraConfig,
        LoraRankConfig,
        NoRepeatNgramConfig,
        RepetitionPenaltyConfig,
        ResponseFormat,
        SuppressTokensConfig,
        ThinkingConfig,
    )
    from litert_lm.results import BenchmarkInfo, Responses
    from litert_lm.session import Session

__all__ = [
    "AbstractBenchmark",
    "AbstractConversation",
    "AbstractEngine",
    "AbstractSession",
    "ActivationDataType",
    "Backend",
    "Benchmark",
    "BenchmarkInfo",
    "CandidateToken",
    "Channel",
    "ConstrainedDecodingConfig",
    "Content",
    "Contents",
    "Conversation",
    "EmbeddingCapability",
    "EmbeddingEngine",
    "EmbeddingOptions",
    "EmbeddingResponse",
    "Engine",
    "FinishInfo",
    "FinishReason",
    "GenerateLimits",
    "GenerateResponse",
    "InputOverflowStrategy",
    "LiteRtLmBackendType",
    "LiteRtLmConstraintProviderType",
    "LiteRtLmError",
    "LiteRtLmModality",
    "LiteRtLmModelType",
    "LiteRtLmNpuBrand",
    "LlmCapability",
    "LogSeverity",
    "LoraConfig",
    "LoraRankConfig",
    "Message",
    "ModelInfo",
    "ModelType",
    "NoRepeatNgramConfig",
    "PromptInfo",
    "RepetitionPenaltyConfig",
    "ReplyInfo",
    "ReplyStream",
    "ResponseFormat",
    "Responses",
    "Role",
    "SamplerConfig",
    "SequenceOutput",
    "Session",
    "SupportedModalities",
    "SuppressTokensConfig",
    "ThinkingConfig",
    "Tool",
    "ToolCall",
    "ToolEventHandler",
    "__version__",
    "set_min_log_severity",
    "tool_from_function",
]

__version__ = "0.1.0"

_HOMES = {
    "AbstractBenchmark": "litert_lm.interfaces",
    "AbstractConversation": "litert_lm.interfaces",
    "AbstractEngine": "litert_lm.interfaces",
    "AbstractSession": "litert_lm.interfaces",
    "ActivationDataType": "litert_lm.enums",
    "Backend": "litert_lm.config",
    "Benchmark": "litert_lm.bench.benchmark",
    "BenchmarkInfo": "litert_lm.results",
    "CandidateToken": "litert_lm.generate.response",
    "Channel": "litert_lm.bundle.metadata",
    "ConstrainedDecodingConfig": "litert_lm.reply_config",
    "Content": "litert_lm.chat.messages",
    "Contents": "litert_lm.chat.messages",
    "Conversation": "litert_lm.conversation.conversation",
    "EmbeddingCapability": "litert_lm.model_info",
    "EmbeddingEngine": "litert_lm.embedding",
    "EmbeddingOptions": "litert_lm.embedding",
    "EmbeddingResponse": "litert_lm.embedding",
    "Engine": "litert_lm.engine",
    "FinishInfo": "litert_lm.generate.response",
    "FinishReason": "litert_lm.generate.response",
    "GenerateLimits": "litert_lm.config",
    "GenerateResponse": "litert_lm.generate.response",
    "InputOverflowStrategy": "litert_lm.enums",
    "LiteRtLmBackendType": "litert_lm.enums",
    "LiteRtLmConstraintProviderType": "litert_lm.enums",
    "LiteRtLmError": "litert_lm.errors",
    "LiteRtLmModality": "litert_lm.enums",
    "LiteRtLmModelType": "litert_lm.enums",
    "LiteRtLmNpuBrand": "litert_lm.enums",
    "LlmCapability": "litert_lm.model_info",
    "LogSeverity": "litert_lm.enums",
    "LoraConfig": "litert_lm.reply_config",
    "LoraRankConfig": "litert_lm.reply_config",
    "Message": "litert_lm.chat.messages",
    "ModelInfo": "litert_lm.model_info",
    "ModelType": "litert_lm.enums",
    "NoRepeatNgramConfig": "litert_lm.reply_config",
    "PromptInfo": "litert_lm.generate.response",
    "RepetitionPenaltyConfig": "litert_lm.reply_config",
    "ReplyInfo": "litert_lm.conversation.reply_info",
    "ReplyStream": "litert_lm.conversation.reply_stream",
    "ResponseFormat": "litert_lm.reply_config",
    "Responses": "litert_lm.results",
    "Role": "litert_lm.chat.messages",
    "SamplerConfig": "litert_lm.config",
    "SequenceOutput": "litert_lm.generate.response",
    "Session": "litert_lm.session",
    "SupportedModalities": "litert_lm.model_info",
    "SuppressTokensConfig": "litert_lm.reply_config",
    "ThinkingConfig": "litert_lm.reply_config",
    "Tool": "litert_lm.chat.tools.tool",
    "ToolCall": "litert_lm.chat.parsers.tool_call",
    "ToolEventHandler": "litert_lm.chat.tools.tool",
    "set_min_log_severity": "litert_lm.logs",
    "tool_from_function": "litert_lm.chat.tools.tool",
}


def __getattr__(name: str) -> object:
    """Load the module that holds `name` (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'litert_lm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
