from litert_lm._proto import llm_model_type_pb2 as _llm_model_type_pb2
from litert_lm._proto import sampler_parameters_pb2 as _sampler_parameters_pb2
from litert_lm._proto import token_pb2 as _token_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PromptAffixes(_message.Message):
    __slots__ = ("prefix", "suffix")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    suffix: str
    def __init__(self, prefix: _Optional[str] = ..., suffix: _Optional[str] = ...) -> None: ...

class PromptTemplates(_message.Message):
    __slots__ = ("user", "model", "system")
    USER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    user: PromptAffixes
    model: PromptAffixes
    system: PromptAffixes
    def __init__(self, user: _Optional[_Union[PromptAffixes, _Mapping]] = ..., model: _Optional[_Union[PromptAffixes, _Mapping]] = ..., system: _Optional[_Union[PromptAffixes, _Mapping]] = ...) -> None: ...

class Channel(_message.Message):
    __slots__ = ("channel_name", "start", "end", "is_reasoning_channel")
    CHANNEL_NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    IS_REASONING_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    channel_name: str
    start: str
    end: str
    is_reasoning_channel: bool
    def __init__(self, channel_name: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., is_reasoning_channel: bool = ...) -> None: ...

class LlmMetadata(_message.Message):
    __slots__ = ("start_token", "stop_tokens", "prompt_templates", "sampler_params", "max_num_tokens", "llm_model_type", "jinja_prompt_template", "channels", "suppress_tokens", "kv_cache_init_value", "supports_thinking", "supports_function_calling", "pad_token", "min_runtime_version")
    START_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_PARAMS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LLM_MODEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    JINJA_PROMPT_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_INIT_VALUE_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_THINKING_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_FUNCTION_CALLING_FIELD_NUMBER: _ClassVar[int]
    PAD_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MIN_RUNTIME_VERSION_FIELD_NUMBER: _ClassVar[int]
    start_token: _token_pb2.TokenUnion
    stop_tokens: _containers.RepeatedCompositeFieldContainer[_token_pb2.TokenUnion]
    prompt_templates: PromptTemplates
    sampler_params: _sampler_parameters_pb2.SamplerParameters
    max_num_tokens: int
    llm_model_type: _llm_model_type_pb2.LlmModelType
    jinja_prompt_template: str
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    suppress_tokens: _token_pb2.TokenIds
    kv_cache_init_value: int
    supports_thinking: bool
    supports_function_calling: bool
    pad_token: _token_pb2.TokenUnion
    min_runtime_version: str
    def __init__(self, start_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., stop_tokens: _Optional[_Iterable[_Union[_token_pb2.TokenUnion, _Mapping]]] = ..., prompt_templates: _Optional[_Union[PromptTemplates, _Mapping]] = ..., sampler_params: _Optional[_Union[_sampler_parameters_pb2.SamplerParameters, _Mapping]] = ..., max_num_tokens: _Optional[int] = ..., llm_model_type: _Optional[_Union[_llm_model_type_pb2.LlmModelType, _Mapping]] = ..., jinja_prompt_template: _Optional[str] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ..., suppress_tokens: _Optional[_Union[_token_pb2.TokenIds, _Mapping]] = ..., kv_cache_init_value: _Optional[int] = ..., supports_thinking: bool = ..., supports_function_calling: bool = ..., pad_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., min_runtime_version: _Optional[str] = ...) -> None: ...
