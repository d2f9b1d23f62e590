from litert_lm._proto import token_pb2 as _token_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EmbeddingModelType(_message.Message):
    __slots__ = ("generic_model", "embedding_gemma_v2")
    GENERIC_MODEL_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_GEMMA_V2_FIELD_NUMBER: _ClassVar[int]
    generic_model: GenericEmbeddingModel
    embedding_gemma_v2: EmbeddingGemmaV2
    def __init__(self, generic_model: _Optional[_Union[GenericEmbeddingModel, _Mapping]] = ..., embedding_gemma_v2: _Optional[_Union[EmbeddingGemmaV2, _Mapping]] = ...) -> None: ...

class GenericEmbeddingModel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EmbeddingGemmaV2(_message.Message):
    __slots__ = ("start_of_image_token", "end_of_image_token", "patch_width", "patch_height", "max_num_patches", "pooling_kernel_size", "start_of_audio_token", "end_of_audio_token", "skip_mel_spectrogram_extraction")
    START_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PATCH_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PATCH_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_PATCHES_FIELD_NUMBER: _ClassVar[int]
    POOLING_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    START_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SKIP_MEL_SPECTROGRAM_EXTRACTION_FIELD_NUMBER: _ClassVar[int]
    start_of_image_token: _token_pb2.TokenUnion
    end_of_image_token: _token_pb2.TokenUnion
    patch_width: int
    patch_height: int
    max_num_patches: int
    pooling_kernel_size: int
    start_of_audio_token: _token_pb2.TokenUnion
    end_of_audio_token: _token_pb2.TokenUnion
    skip_mel_spectrogram_extraction: bool
    def __init__(self, start_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., patch_width: _Optional[int] = ..., patch_height: _Optional[int] = ..., max_num_patches: _Optional[int] = ..., pooling_kernel_size: _Optional[int] = ..., start_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., skip_mel_spectrogram_extraction: bool = ...) -> None: ...

class MiniAudioPreprocessorConfig(_message.Message):
    __slots__ = ("sample_rate_hz", "num_channels", "frame_length", "hop_length", "fft_length", "input_scale", "pre_emphasis_factor", "num_mel_bins", "mel_low_hz", "mel_high_hz", "mel_floor", "normalize_mel", "add_floor_to_mel_before_log", "semicausal_padding", "non_zero_hanning", "periodic_hanning", "fft_padding_type", "skip_mel_spectrogram_extraction")
    class FftPaddingType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FFT_PADDING_TYPE_UNSPECIFIED: _ClassVar[MiniAudioPreprocessorConfig.FftPaddingType]
        FFT_PADDING_TYPE_RIGHT: _ClassVar[MiniAudioPreprocessorConfig.FftPaddingType]
        FFT_PADDING_TYPE_CENTER: _ClassVar[MiniAudioPreprocessorConfig.FftPaddingType]
    FFT_PADDING_TYPE_UNSPECIFIED: MiniAudioPreprocessorConfig.FftPaddingType
    FFT_PADDING_TYPE_RIGHT: MiniAudioPreprocessorConfig.FftPaddingType
    FFT_PADDING_TYPE_CENTER: MiniAudioPreprocessorConfig.FftPaddingType
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    NUM_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FRAME_LENGTH_FIELD_NUMBER: _ClassVar[int]
    HOP_LENGTH_FIELD_NUMBER: _ClassVar[int]
    FFT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCALE_FIELD_NUMBER: _ClassVar[int]
    PRE_EMPHASIS_FACTOR_FIELD_NUMBER: _ClassVar[int]
    NUM_MEL_BINS_FIELD_NUMBER: _ClassVar[int]
    MEL_LOW_HZ_FIELD_NUMBER: _ClassVar[int]
    MEL_HIGH_HZ_FIELD_NUMBER: _ClassVar[int]
    MEL_FLOOR_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_MEL_FIELD_NUMBER: _ClassVar[int]
    ADD_FLOOR_TO_MEL_BEFORE_LOG_FIELD_NUMBER: _ClassVar[int]
    SEMICAUSAL_PADDING_FIELD_NUMBER: _ClassVar[int]
    NON_ZERO_HANNING_FIELD_NUMBER: _ClassVar[int]
    PERIODIC_HANNING_FIELD_NUMBER: _ClassVar[int]
    FFT_PADDING_TYPE_FIELD_NUMBER: _ClassVar[int]
    SKIP_MEL_SPECTROGRAM_EXTRACTION_FIELD_NUMBER: _ClassVar[int]
    sample_rate_hz: int
    num_channels: int
    frame_length: int
    hop_length: int
    fft_length: int
    input_scale: float
    pre_emphasis_factor: float
    num_mel_bins: int
    mel_low_hz: float
    mel_high_hz: float
    mel_floor: float
    normalize_mel: bool
    add_floor_to_mel_before_log: bool
    semicausal_padding: bool
    non_zero_hanning: bool
    periodic_hanning: bool
    fft_padding_type: MiniAudioPreprocessorConfig.FftPaddingType
    skip_mel_spectrogram_extraction: bool
    def __init__(self, sample_rate_hz: _Optional[int] = ..., num_channels: _Optional[int] = ..., frame_length: _Optional[int] = ..., hop_length: _Optional[int] = ..., fft_length: _Optional[int] = ..., input_scale: _Optional[float] = ..., pre_emphasis_factor: _Optional[float] = ..., num_mel_bins: _Optional[int] = ..., mel_low_hz: _Optional[float] = ..., mel_high_hz: _Optional[float] = ..., mel_floor: _Optional[float] = ..., normalize_mel: bool = ..., add_floor_to_mel_before_log: bool = ..., semicausal_padding: bool = ..., non_zero_hanning: bool = ..., periodic_hanning: bool = ..., fft_padding_type: _Optional[_Union[MiniAudioPreprocessorConfig.FftPaddingType, str]] = ..., skip_mel_spectrogram_extraction: bool = ...) -> None: ...

class AudioPreprocessorConfig(_message.Message):
    __slots__ = ("miniaudio",)
    MINIAUDIO_FIELD_NUMBER: _ClassVar[int]
    miniaudio: MiniAudioPreprocessorConfig
    def __init__(self, miniaudio: _Optional[_Union[MiniAudioPreprocessorConfig, _Mapping]] = ...) -> None: ...

class EmbeddingMetadata(_message.Message):
    __slots__ = ("embedding_model_type", "bos_token", "eos_token", "audio_preprocessor", "min_input_length", "max_input_length", "min_runtime_version")
    EMBEDDING_MODEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    BOS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AUDIO_PREPROCESSOR_FIELD_NUMBER: _ClassVar[int]
    MIN_INPUT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_INPUT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MIN_RUNTIME_VERSION_FIELD_NUMBER: _ClassVar[int]
    embedding_model_type: EmbeddingModelType
    bos_token: _token_pb2.TokenUnion
    eos_token: _token_pb2.TokenUnion
    audio_preprocessor: AudioPreprocessorConfig
    min_input_length: int
    max_input_length: int
    min_runtime_version: str
    def __init__(self, embedding_model_type: _Optional[_Union[EmbeddingModelType, _Mapping]] = ..., bos_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., eos_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., audio_preprocessor: _Optional[_Union[AudioPreprocessorConfig, _Mapping]] = ..., min_input_length: _Optional[int] = ..., max_input_length: _Optional[int] = ..., min_runtime_version: _Optional[str] = ...) -> None: ...
