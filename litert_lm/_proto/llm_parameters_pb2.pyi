from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LegacyPromptTemplate(_message.Message):
    __slots__ = ("session_prefix", "prompt_prefix", "prompt_suffix")
    SESSION_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PROMPT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PROMPT_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    session_prefix: str
    prompt_prefix: str
    prompt_suffix: str
    def __init__(self, session_prefix: _Optional[str] = ..., prompt_prefix: _Optional[str] = ..., prompt_suffix: _Optional[str] = ...) -> None: ...

class LegacyPromptTemplates(_message.Message):
    __slots__ = ("user_template", "model_template", "system_template")
    USER_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    MODEL_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    user_template: LegacyPromptTemplate
    model_template: LegacyPromptTemplate
    system_template: LegacyPromptTemplate
    def __init__(self, user_template: _Optional[_Union[LegacyPromptTemplate, _Mapping]] = ..., model_template: _Optional[_Union[LegacyPromptTemplate, _Mapping]] = ..., system_template: _Optional[_Union[LegacyPromptTemplate, _Mapping]] = ...) -> None: ...

class LlmParameters(_message.Message):
    __slots__ = ("vocab_size", "start_token_id", "start_token", "stop_tokens", "input_output_normalizations", "prompt_template", "prompt_templates")
    class InputOutputNormalization(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INPUT_OUTPUT_NORMALIZATION_UNKNOWN: _ClassVar[LlmParameters.InputOutputNormalization]
        INPUT_OUTPUT_NORMALIZATION_BYTES_TO_UNICODE: _ClassVar[LlmParameters.InputOutputNormalization]
    INPUT_OUTPUT_NORMALIZATION_UNKNOWN: LlmParameters.InputOutputNormalization
    INPUT_OUTPUT_NORMALIZATION_BYTES_TO_UNICODE: LlmParameters.InputOutputNormalization
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    START_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    START_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    INPUT_OUTPUT_NORMALIZATIONS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    vocab_size: int
    start_token_id: int
    start_token: str
    stop_tokens: _containers.RepeatedScalarFieldContainer[str]
    input_output_normalizations: _containers.RepeatedScalarFieldContainer[LlmParameters.InputOutputNormalization]
    prompt_template: LegacyPromptTemplate
    prompt_templates: LegacyPromptTemplates
    def __init__(self, vocab_size: _Optional[int] = ..., start_token_id: _Optional[int] = ..., start_token: _Optional[str] = ..., stop_tokens: _Optional[_Iterable[str]] = ..., input_output_normalizations: _Optional[_Iterable[_Union[LlmParameters.InputOutputNormalization, str]]] = ..., prompt_template: _Optional[_Union[LegacyPromptTemplate, _Mapping]] = ..., prompt_templates: _Optional[_Union[LegacyPromptTemplates, _Mapping]] = ...) -> None: ...
