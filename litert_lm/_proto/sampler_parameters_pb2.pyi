from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SamplerParameters(_message.Message):
    __slots__ = ("type", "k", "p", "temperature", "seed", "backend", "compute_exact_log_probs")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[SamplerParameters.Type]
        TOP_K: _ClassVar[SamplerParameters.Type]
        TOP_P: _ClassVar[SamplerParameters.Type]
        GREEDY: _ClassVar[SamplerParameters.Type]
    TYPE_UNSPECIFIED: SamplerParameters.Type
    TOP_K: SamplerParameters.Type
    TOP_P: SamplerParameters.Type
    GREEDY: SamplerParameters.Type
    class Backend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[SamplerParameters.Backend]
        CPU: _ClassVar[SamplerParameters.Backend]
        GPU: _ClassVar[SamplerParameters.Backend]
    UNSPECIFIED: SamplerParameters.Backend
    CPU: SamplerParameters.Backend
    GPU: SamplerParameters.Backend
    TYPE_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    P_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_EXACT_LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    type: SamplerParameters.Type
    k: int
    p: float
    temperature: float
    seed: int
    backend: SamplerParameters.Backend
    compute_exact_log_probs: bool
    def __init__(self, type: _Optional[_Union[SamplerParameters.Type, str]] = ..., k: _Optional[int] = ..., p: _Optional[float] = ..., temperature: _Optional[float] = ..., seed: _Optional[int] = ..., backend: _Optional[_Union[SamplerParameters.Backend, str]] = ..., compute_exact_log_probs: bool = ...) -> None: ...
