from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TrainerSpec(_message.Message):
    __slots__ = ("model_type", "vocab_size", "byte_fallback", "unk_id", "bos_id", "eos_id", "pad_id", "unk_piece", "bos_piece", "eos_piece", "pad_piece")
    class ModelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNIGRAM: _ClassVar[TrainerSpec.ModelType]
        BPE: _ClassVar[TrainerSpec.ModelType]
    UNIGRAM: TrainerSpec.ModelType
    BPE: TrainerSpec.ModelType
    MODEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    BYTE_FALLBACK_FIELD_NUMBER: _ClassVar[int]
    UNK_ID_FIELD_NUMBER: _ClassVar[int]
    BOS_ID_FIELD_NUMBER: _ClassVar[int]
    EOS_ID_FIELD_NUMBER: _ClassVar[int]
    PAD_ID_FIELD_NUMBER: _ClassVar[int]
    UNK_PIECE_FIELD_NUMBER: _ClassVar[int]
    BOS_PIECE_FIELD_NUMBER: _ClassVar[int]
    EOS_PIECE_FIELD_NUMBER: _ClassVar[int]
    PAD_PIECE_FIELD_NUMBER: _ClassVar[int]
    model_type: TrainerSpec.ModelType
    vocab_size: int
    byte_fallback: bool
    unk_id: int
    bos_id: int
    eos_id: int
    pad_id: int
    unk_piece: str
    bos_piece: str
    eos_piece: str
    pad_piece: str
    def __init__(self, model_type: _Optional[_Union[TrainerSpec.ModelType, str]] = ..., vocab_size: _Optional[int] = ..., byte_fallback: bool = ..., unk_id: _Optional[int] = ..., bos_id: _Optional[int] = ..., eos_id: _Optional[int] = ..., pad_id: _Optional[int] = ..., unk_piece: _Optional[str] = ..., bos_piece: _Optional[str] = ..., eos_piece: _Optional[str] = ..., pad_piece: _Optional[str] = ...) -> None: ...

class NormalizerSpec(_message.Message):
    __slots__ = ("name", "add_dummy_prefix", "remove_extra_whitespaces")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADD_DUMMY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    REMOVE_EXTRA_WHITESPACES_FIELD_NUMBER: _ClassVar[int]
    name: str
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    def __init__(self, name: _Optional[str] = ..., add_dummy_prefix: bool = ..., remove_extra_whitespaces: bool = ...) -> None: ...

class ModelProto(_message.Message):
    __slots__ = ("pieces", "trainer_spec", "normalizer_spec")
    class SentencePiece(_message.Message):
        __slots__ = ("piece", "score", "type")
        class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            NORMAL: _ClassVar[ModelProto.SentencePiece.Type]
            UNKNOWN: _ClassVar[ModelProto.SentencePiece.Type]
            CONTROL: _ClassVar[ModelProto.SentencePiece.Type]
            USER_DEFINED: _ClassVar[ModelProto.SentencePiece.Type]
            UNUSED: _ClassVar[ModelProto.SentencePiece.Type]
            BYTE: _ClassVar[ModelProto.SentencePiece.Type]
        NORMAL: ModelProto.SentencePiece.Type
        UNKNOWN: ModelProto.SentencePiece.Type
        CONTROL: ModelProto.SentencePiece.Type
        USER_DEFINED: ModelProto.SentencePiece.Type
        UNUSED: ModelProto.SentencePiece.Type
        BYTE: ModelProto.SentencePiece.Type
        PIECE_FIELD_NUMBER: _ClassVar[int]
        SCORE_FIELD_NUMBER: _ClassVar[int]
        TYPE_FIELD_NUMBER: _ClassVar[int]
        piece: str
        score: float
        type: ModelProto.SentencePiece.Type
        def __init__(self, piece: _Optional[str] = ..., score: _Optional[float] = ..., type: _Optional[_Union[ModelProto.SentencePiece.Type, str]] = ...) -> None: ...
    PIECES_FIELD_NUMBER: _ClassVar[int]
    TRAINER_SPEC_FIELD_NUMBER: _ClassVar[int]
    NORMALIZER_SPEC_FIELD_NUMBER: _ClassVar[int]
    pieces: _containers.RepeatedCompositeFieldContainer[ModelProto.SentencePiece]
    trainer_spec: TrainerSpec
    normalizer_spec: NormalizerSpec
    def __init__(self, pieces: _Optional[_Iterable[_Union[ModelProto.SentencePiece, _Mapping]]] = ..., trainer_spec: _Optional[_Union[TrainerSpec, _Mapping]] = ..., normalizer_spec: _Optional[_Union[NormalizerSpec, _Mapping]] = ...) -> None: ...
