from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttentionMaskType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTENTION_MASK_TYPE_UNSPECIFIED: _ClassVar[AttentionMaskType]
    ATTENTION_MASK_TYPE_CAUSAL: _ClassVar[AttentionMaskType]
    ATTENTION_MASK_TYPE_BIDIRECTIONAL: _ClassVar[AttentionMaskType]
    ATTENTION_MASK_TYPE_VISION_BIDIRECTIONAL: _ClassVar[AttentionMaskType]
ATTENTION_MASK_TYPE_UNSPECIFIED: AttentionMaskType
ATTENTION_MASK_TYPE_CAUSAL: AttentionMaskType
ATTENTION_MASK_TYPE_BIDIRECTIONAL: AttentionMaskType
ATTENTION_MASK_TYPE_VISION_BIDIRECTIONAL: AttentionMaskType

class StateBuffer(_message.Message):
    __slots__ = ("prefill_input_name", "prefill_output_name", "decode_input_name", "decode_output_name", "policy", "type", "sequence_axis", "minimum_sequence_length", "maximum_sequence_length")
    class Policy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        POLICY_DEFAULT: _ClassVar[StateBuffer.Policy]
    POLICY_DEFAULT: StateBuffer.Policy
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[StateBuffer.Type]
        TYPE_GLOBAL_KEY_CACHE: _ClassVar[StateBuffer.Type]
        TYPE_GLOBAL_VALUE_CACHE: _ClassVar[StateBuffer.Type]
        TYPE_LOCAL_KEY_CACHE: _ClassVar[StateBuffer.Type]
        TYPE_LOCAL_VALUE_CACHE: _ClassVar[StateBuffer.Type]
        TYPE_LINEAR_ATTENTION: _ClassVar[StateBuffer.Type]
    TYPE_UNSPECIFIED: StateBuffer.Type
    TYPE_GLOBAL_KEY_CACHE: StateBuffer.Type
    TYPE_GLOBAL_VALUE_CACHE: StateBuffer.Type
    TYPE_LOCAL_KEY_CACHE: StateBuffer.Type
    TYPE_LOCAL_VALUE_CACHE: StateBuffer.Type
    TYPE_LINEAR_ATTENTION: StateBuffer.Type
    PREFILL_INPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    PREFILL_OUTPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    DECODE_INPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    DECODE_OUTPUT_NAME_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_AXIS_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_SEQUENCE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_SEQUENCE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    prefill_input_name: str
    prefill_output_name: str
    decode_input_name: str
    decode_output_name: str
    policy: StateBuffer.Policy
    type: StateBuffer.Type
    sequence_axis: int
    minimum_sequence_length: int
    maximum_sequence_length: int
    def __init__(self, prefill_input_name: _Optional[str] = ..., prefill_output_name: _Optional[str] = ..., decode_input_name: _Optional[str] = ..., decode_output_name: _Optional[str] = ..., policy: _Optional[_Union[StateBuffer.Policy, str]] = ..., type: _Optional[_Union[StateBuffer.Type, str]] = ..., sequence_axis: _Optional[int] = ..., minimum_sequence_length: _Optional[int] = ..., maximum_sequence_length: _Optional[int] = ...) -> None: ...

class AttentionMaskSettings(_message.Message):
    __slots__ = ("attention_mask_type", "local_attention_mask_type", "sliding_window_size")
    ATTENTION_MASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_ATTENTION_MASK_TYPE_FIELD_NUMBER: _ClassVar[int]
    SLIDING_WINDOW_SIZE_FIELD_NUMBER: _ClassVar[int]
    attention_mask_type: AttentionMaskType
    local_attention_mask_type: AttentionMaskType
    sliding_window_size: int
    def __init__(self, attention_mask_type: _Optional[_Union[AttentionMaskType, str]] = ..., local_attention_mask_type: _Optional[_Union[AttentionMaskType, str]] = ..., sliding_window_size: _Optional[int] = ...) -> None: ...

class LlmExecutorMetadata(_message.Message):
    __slots__ = ("max_history_size", "state_buffers", "attention_mask_settings")
    MAX_HISTORY_SIZE_FIELD_NUMBER: _ClassVar[int]
    STATE_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_MASK_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    max_history_size: int
    state_buffers: _containers.RepeatedCompositeFieldContainer[StateBuffer]
    attention_mask_settings: AttentionMaskSettings
    def __init__(self, max_history_size: _Optional[int] = ..., state_buffers: _Optional[_Iterable[_Union[StateBuffer, _Mapping]]] = ..., attention_mask_settings: _Optional[_Union[AttentionMaskSettings, _Mapping]] = ...) -> None: ...

class ExecutorMetadata(_message.Message):
    __slots__ = ("llm_executor_metadata",)
    LLM_EXECUTOR_METADATA_FIELD_NUMBER: _ClassVar[int]
    llm_executor_metadata: LlmExecutorMetadata
    def __init__(self, llm_executor_metadata: _Optional[_Union[LlmExecutorMetadata, _Mapping]] = ...) -> None: ...
