from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class TokenUnion(_message.Message):
    __slots__ = ("token_ids", "token_str")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_STR_FIELD_NUMBER: _ClassVar[int]
    token_ids: TokenIds
    token_str: str
    def __init__(self, token_ids: _Optional[_Union[TokenIds, _Mapping]] = ..., token_str: _Optional[str] = ...) -> None: ...
