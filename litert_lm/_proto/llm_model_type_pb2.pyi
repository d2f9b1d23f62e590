from litert_lm._proto import token_pb2 as _token_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConstraintMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONSTRAINT_MODE_UNSPECIFIED: _ClassVar[ConstraintMode]
    CONSTRAINT_MODE_TEXT_AND_OR: _ClassVar[ConstraintMode]
    CONSTRAINT_MODE_FUNCTION_CALL_ONLY: _ClassVar[ConstraintMode]

class FftPaddingType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FFT_PADDING_TYPE_UNSPECIFIED: _ClassVar[FftPaddingType]
    FFT_PADDING_TYPE_RIGHT: _ClassVar[FftPaddingType]
    FFT_PADDING_TYPE_CENTER: _ClassVar[FftPaddingType]
CONSTRAINT_MODE_UNSPECIFIED: ConstraintMode
CONSTRAINT_MODE_TEXT_AND_OR: ConstraintMode
CONSTRAINT_MODE_FUNCTION_CALL_ONLY: ConstraintMode
FFT_PADDING_TYPE_UNSPECIFIED: FftPaddingType
FFT_PADDING_TYPE_RIGHT: FftPaddingType
FFT_PADDING_TYPE_CENTER: FftPaddingType

class LlmModelType(_message.Message):
    __slots__ = ("generic_model", "gemma3n", "function_gemma", "gemma3", "qwen3", "qwen2p5", "gemma4", "fast_vlm", "lfm2", "minicpm5", "minicpmv4")
    GENERIC_MODEL_FIELD_NUMBER: _ClassVar[int]
    GEMMA3N_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_GEMMA_FIELD_NUMBER: _ClassVar[int]
    GEMMA3_FIELD_NUMBER: _ClassVar[int]
    QWEN3_FIELD_NUMBER: _ClassVar[int]
    QWEN2P5_FIELD_NUMBER: _ClassVar[int]
    GEMMA4_FIELD_NUMBER: _ClassVar[int]
    FAST_VLM_FIELD_NUMBER: _ClassVar[int]
    LFM2_FIELD_NUMBER: _ClassVar[int]
    MINICPM5_FIELD_NUMBER: _ClassVar[int]
    MINICPMV4_FIELD_NUMBER: _ClassVar[int]
    generic_model: GenericModel
    gemma3n: Gemma3N
    function_gemma: FunctionGemma
    gemma3: Gemma3
    qwen3: Qwen3
    qwen2p5: Qwen2p5
    gemma4: Gemma4
    fast_vlm: FastVlm
    lfm2: Lfm2
    minicpm5: MiniCPM5
    minicpmv4: MiniCpmV4
    def __init__(self, generic_model: _Optional[_Union[GenericModel, _Mapping]] = ..., gemma3n: _Optional[_Union[Gemma3N, _Mapping]] = ..., function_gemma: _Optional[_Union[FunctionGemma, _Mapping]] = ..., gemma3: _Optional[_Union[Gemma3, _Mapping]] = ..., qwen3: _Optional[_Union[Qwen3, _Mapping]] = ..., qwen2p5: _Optional[_Union[Qwen2p5, _Mapping]] = ..., gemma4: _Optional[_Union[Gemma4, _Mapping]] = ..., fast_vlm: _Optional[_Union[FastVlm, _Mapping]] = ..., lfm2: _Optional[_Union[Lfm2, _Mapping]] = ..., minicpm5: _Optional[_Union[MiniCPM5, _Mapping]] = ..., minicpmv4: _Optional[_Union[MiniCpmV4, _Mapping]] = ...) -> None: ...

class GenericModel(_message.Message):
    __slots__ = ("image_enabled", "audio_enabled", "delimiter_regex", "image_token_regex", "audio_token_regex", "image_tensor_height", "image_tensor_width", "patch_width", "patch_height", "max_num_patches", "pooling_kernel_size", "start_of_image_token", "end_of_image_token", "image_prefix", "image_suffix", "add_image_end", "skip_mel_spectrogram_extraction", "audio_sample_rate_hz", "audio_num_channels", "audio_frame_length", "audio_hop_length", "audio_fft_length", "audio_input_scale", "audio_pre_emphasis_factor", "audio_num_mel_bins", "audio_mel_low_hz", "audio_mel_high_hz", "audio_mel_floor", "audio_normalize_mel", "audio_add_floor_to_mel_before_log", "audio_semicausal_padding", "audio_non_zero_hanning", "audio_periodic_hanning", "audio_fft_padding_type", "start_of_audio_token", "end_of_audio_token", "audio_prefix", "audio_suffix", "add_audio_end")
    IMAGE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    AUDIO_ENABLED_FIELD_NUMBER: _ClassVar[int]
    DELIMITER_REGEX_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TOKEN_REGEX_FIELD_NUMBER: _ClassVar[int]
    AUDIO_TOKEN_REGEX_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PATCH_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PATCH_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_PATCHES_FIELD_NUMBER: _ClassVar[int]
    POOLING_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    START_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IMAGE_PREFIX_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    ADD_IMAGE_END_FIELD_NUMBER: _ClassVar[int]
    SKIP_MEL_SPECTROGRAM_EXTRACTION_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    AUDIO_NUM_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FRAME_LENGTH_FIELD_NUMBER: _ClassVar[int]
    AUDIO_HOP_LENGTH_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FFT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    AUDIO_INPUT_SCALE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_PRE_EMPHASIS_FACTOR_FIELD_NUMBER: _ClassVar[int]
    AUDIO_NUM_MEL_BINS_FIELD_NUMBER: _ClassVar[int]
    AUDIO_MEL_LOW_HZ_FIELD_NUMBER: _ClassVar[int]
    AUDIO_MEL_HIGH_HZ_FIELD_NUMBER: _ClassVar[int]
    AUDIO_MEL_FLOOR_FIELD_NUMBER: _ClassVar[int]
    AUDIO_NORMALIZE_MEL_FIELD_NUMBER: _ClassVar[int]
    AUDIO_ADD_FLOOR_TO_MEL_BEFORE_LOG_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SEMICAUSAL_PADDING_FIELD_NUMBER: _ClassVar[int]
    AUDIO_NON_ZERO_HANNING_FIELD_NUMBER: _ClassVar[int]
    AUDIO_PERIODIC_HANNING_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FFT_PADDING_TYPE_FIELD_NUMBER: _ClassVar[int]
    START_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AUDIO_PREFIX_FIELD_NUMBER: _ClassVar[int]
    AUDIO_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    ADD_AUDIO_END_FIELD_NUMBER: _ClassVar[int]
    image_enabled: bool
    audio_enabled: bool
    delimiter_regex: str
    image_token_regex: str
    audio_token_regex: str
    image_tensor_height: int
    image_tensor_width: int
    patch_width: int
    patch_height: int
    max_num_patches: int
    pooling_kernel_size: int
    start_of_image_token: _token_pb2.TokenUnion
    end_of_image_token: _token_pb2.TokenUnion
    image_prefix: str
    image_suffix: str
    add_image_end: bool
    skip_mel_spectrogram_extraction: bool
    audio_sample_rate_hz: int
    audio_num_channels: int
    audio_frame_length: int
    audio_hop_length: int
    audio_fft_length: int
    audio_input_scale: float
    audio_pre_emphasis_factor: float
    audio_num_mel_bins: int
    audio_mel_low_hz: float
    audio_mel_high_hz: float
    audio_mel_floor: float
    audio_normalize_mel: bool
    audio_add_floor_to_mel_before_log: bool
    audio_semicausal_padding: bool
    audio_non_zero_hanning: bool
    audio_periodic_hanning: bool
    audio_fft_padding_type: FftPaddingType
    start_of_audio_token: _token_pb2.TokenUnion
    end_of_audio_token: _token_pb2.TokenUnion
    audio_prefix: str
    audio_suffix: str
    add_audio_end: bool
    def __init__(self, image_enabled: bool = ..., audio_enabled: bool = ..., delimiter_regex: _Optional[str] = ..., image_token_regex: _Optional[str] = ..., audio_token_regex: _Optional[str] = ..., image_tensor_height: _Optional[int] = ..., image_tensor_width: _Optional[int] = ..., patch_width: _Optional[int] = ..., patch_height: _Optional[int] = ..., max_num_patches: _Optional[int] = ..., pooling_kernel_size: _Optional[int] = ..., start_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., image_prefix: _Optional[str] = ..., image_suffix: _Optional[str] = ..., add_image_end: bool = ..., skip_mel_spectrogram_extraction: bool = ..., audio_sample_rate_hz: _Optional[int] = ..., audio_num_channels: _Optional[int] = ..., audio_frame_length: _Optional[int] = ..., audio_hop_length: _Optional[int] = ..., audio_fft_length: _Optional[int] = ..., audio_input_scale: _Optional[float] = ..., audio_pre_emphasis_factor: _Optional[float] = ..., audio_num_mel_bins: _Optional[int] = ..., audio_mel_low_hz: _Optional[float] = ..., audio_mel_high_hz: _Optional[float] = ..., audio_mel_floor: _Optional[float] = ..., audio_normalize_mel: bool = ..., audio_add_floor_to_mel_before_log: bool = ..., audio_semicausal_padding: bool = ..., audio_non_zero_hanning: bool = ..., audio_periodic_hanning: bool = ..., audio_fft_padding_type: _Optional[_Union[FftPaddingType, str]] = ..., start_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., audio_prefix: _Optional[str] = ..., audio_suffix: _Optional[str] = ..., add_audio_end: bool = ...) -> None: ...

class Gemma3N(_message.Message):
    __slots__ = ("start_of_image_token", "end_of_image_token", "image_tensor_height", "image_tensor_width", "start_of_audio_token", "end_of_audio_token")
    START_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    START_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    start_of_image_token: _token_pb2.TokenUnion
    end_of_image_token: _token_pb2.TokenUnion
    image_tensor_height: int
    image_tensor_width: int
    start_of_audio_token: _token_pb2.TokenUnion
    end_of_audio_token: _token_pb2.TokenUnion
    def __init__(self, start_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., image_tensor_height: _Optional[int] = ..., image_tensor_width: _Optional[int] = ..., start_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ...) -> None: ...

class FunctionGemma(_message.Message):
    __slots__ = ("code_fence_start", "code_fence_end", "syntax_type", "escape_fence_strings", "tool_code_regex", "open_quote", "close_quote", "function_response_start", "use_template_for_fc_format", "constraint_mode")
    CODE_FENCE_START_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_END_FIELD_NUMBER: _ClassVar[int]
    SYNTAX_TYPE_FIELD_NUMBER: _ClassVar[int]
    ESCAPE_FENCE_STRINGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CODE_REGEX_FIELD_NUMBER: _ClassVar[int]
    OPEN_QUOTE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_QUOTE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_RESPONSE_START_FIELD_NUMBER: _ClassVar[int]
    USE_TEMPLATE_FOR_FC_FORMAT_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_MODE_FIELD_NUMBER: _ClassVar[int]
    code_fence_start: str
    code_fence_end: str
    syntax_type: str
    escape_fence_strings: bool
    tool_code_regex: str
    open_quote: str
    close_quote: str
    function_response_start: str
    use_template_for_fc_format: bool
    constraint_mode: ConstraintMode
    def __init__(self, code_fence_start: _Optional[str] = ..., code_fence_end: _Optional[str] = ..., syntax_type: _Optional[str] = ..., escape_fence_strings: bool = ..., tool_code_regex: _Optional[str] = ..., open_quote: _Optional[str] = ..., close_quote: _Optional[str] = ..., function_response_start: _Optional[str] = ..., use_template_for_fc_format: bool = ..., constraint_mode: _Optional[_Union[ConstraintMode, str]] = ...) -> None: ...

class Gemma3(_message.Message):
    __slots__ = ("start_of_image_token", "end_of_image_token", "image_tensor_height", "image_tensor_width")
    START_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    start_of_image_token: _token_pb2.TokenUnion
    end_of_image_token: _token_pb2.TokenUnion
    image_tensor_height: int
    image_tensor_width: int
    def __init__(self, start_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., image_tensor_height: _Optional[int] = ..., image_tensor_width: _Optional[int] = ...) -> None: ...

class Qwen3(_message.Message):
    __slots__ = ("code_fence_start", "code_fence_end", "escape_fence_strings", "tool_code_regex")
    CODE_FENCE_START_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_END_FIELD_NUMBER: _ClassVar[int]
    ESCAPE_FENCE_STRINGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CODE_REGEX_FIELD_NUMBER: _ClassVar[int]
    code_fence_start: str
    code_fence_end: str
    escape_fence_strings: bool
    tool_code_regex: str
    def __init__(self, code_fence_start: _Optional[str] = ..., code_fence_end: _Optional[str] = ..., escape_fence_strings: bool = ..., tool_code_regex: _Optional[str] = ...) -> None: ...

class Qwen2p5(_message.Message):
    __slots__ = ("code_fence_start", "code_fence_end", "escape_fence_strings", "tool_code_regex")
    CODE_FENCE_START_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_END_FIELD_NUMBER: _ClassVar[int]
    ESCAPE_FENCE_STRINGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CODE_REGEX_FIELD_NUMBER: _ClassVar[int]
    code_fence_start: str
    code_fence_end: str
    escape_fence_strings: bool
    tool_code_regex: str
    def __init__(self, code_fence_start: _Optional[str] = ..., code_fence_end: _Optional[str] = ..., escape_fence_strings: bool = ..., tool_code_regex: _Optional[str] = ...) -> None: ...

class Gemma4(_message.Message):
    __slots__ = ("start_of_image_token", "end_of_image_token", "start_of_audio_token", "end_of_audio_token", "code_fence_start", "code_fence_end", "syntax_type", "escape_fence_strings", "tool_code_regex", "open_quote", "close_quote", "function_response_start", "constraint_mode", "patch_width", "patch_height", "max_num_patches", "pooling_kernel_size", "skip_mel_spectrogram_extraction", "merge_patches")
    START_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    START_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_AUDIO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_START_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_END_FIELD_NUMBER: _ClassVar[int]
    SYNTAX_TYPE_FIELD_NUMBER: _ClassVar[int]
    ESCAPE_FENCE_STRINGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CODE_REGEX_FIELD_NUMBER: _ClassVar[int]
    OPEN_QUOTE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_QUOTE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_RESPONSE_START_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_MODE_FIELD_NUMBER: _ClassVar[int]
    PATCH_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PATCH_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_PATCHES_FIELD_NUMBER: _ClassVar[int]
    POOLING_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    SKIP_MEL_SPECTROGRAM_EXTRACTION_FIELD_NUMBER: _ClassVar[int]
    MERGE_PATCHES_FIELD_NUMBER: _ClassVar[int]
    start_of_image_token: _token_pb2.TokenUnion
    end_of_image_token: _token_pb2.TokenUnion
    start_of_audio_token: _token_pb2.TokenUnion
    end_of_audio_token: _token_pb2.TokenUnion
    code_fence_start: str
    code_fence_end: str
    syntax_type: str
    escape_fence_strings: bool
    tool_code_regex: str
    open_quote: str
    close_quote: str
    function_response_start: str
    constraint_mode: ConstraintMode
    patch_width: int
    patch_height: int
    max_num_patches: int
    pooling_kernel_size: int
    skip_mel_spectrogram_extraction: bool
    merge_patches: bool
    def __init__(self, start_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., start_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_audio_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., code_fence_start: _Optional[str] = ..., code_fence_end: _Optional[str] = ..., syntax_type: _Optional[str] = ..., escape_fence_strings: bool = ..., tool_code_regex: _Optional[str] = ..., open_quote: _Optional[str] = ..., close_quote: _Optional[str] = ..., function_response_start: _Optional[str] = ..., constraint_mode: _Optional[_Union[ConstraintMode, str]] = ..., patch_width: _Optional[int] = ..., patch_height: _Optional[int] = ..., max_num_patches: _Optional[int] = ..., pooling_kernel_size: _Optional[int] = ..., skip_mel_spectrogram_extraction: bool = ..., merge_patches: bool = ...) -> None: ...

class FastVlm(_message.Message):
    __slots__ = ("image_tensor_height", "image_tensor_width")
    IMAGE_TENSOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    image_tensor_height: int
    image_tensor_width: int
    def __init__(self, image_tensor_height: _Optional[int] = ..., image_tensor_width: _Optional[int] = ...) -> None: ...

class Lfm2(_message.Message):
    __slots__ = ("start_of_image_token", "end_of_image_token", "patch_width", "patch_height", "max_num_patches", "pooling_kernel_size", "image_tensor_height", "image_tensor_width", "normalization_mean", "normalization_std", "normalization_rescale_factor", "code_fence_start", "code_fence_end", "escape_fence_strings")
    START_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_OF_IMAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PATCH_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PATCH_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_PATCHES_FIELD_NUMBER: _ClassVar[int]
    POOLING_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_TENSOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    NORMALIZATION_MEAN_FIELD_NUMBER: _ClassVar[int]
    NORMALIZATION_STD_FIELD_NUMBER: _ClassVar[int]
    NORMALIZATION_RESCALE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_START_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_END_FIELD_NUMBER: _ClassVar[int]
    ESCAPE_FENCE_STRINGS_FIELD_NUMBER: _ClassVar[int]
    start_of_image_token: _token_pb2.TokenUnion
    end_of_image_token: _token_pb2.TokenUnion
    patch_width: int
    patch_height: int
    max_num_patches: int
    pooling_kernel_size: int
    image_tensor_height: int
    image_tensor_width: int
    normalization_mean: _containers.RepeatedScalarFieldContainer[float]
    normalization_std: _containers.RepeatedScalarFieldContainer[float]
    normalization_rescale_factor: float
    code_fence_start: str
    code_fence_end: str
    escape_fence_strings: bool
    def __init__(self, start_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., end_of_image_token: _Optional[_Union[_token_pb2.TokenUnion, _Mapping]] = ..., patch_width: _Optional[int] = ..., patch_height: _Optional[int] = ..., max_num_patches: _Optional[int] = ..., pooling_kernel_size: _Optional[int] = ..., image_tensor_height: _Optional[int] = ..., image_tensor_width: _Optional[int] = ..., normalization_mean: _Optional[_Iterable[float]] = ..., normalization_std: _Optional[_Iterable[float]] = ..., normalization_rescale_factor: _Optional[float] = ..., code_fence_start: _Optional[str] = ..., code_fence_end: _Optional[str] = ..., escape_fence_strings: bool = ...) -> None: ...

class MiniCPM5(_message.Message):
    __slots__ = ("code_fence_start", "code_fence_end", "escape_fence_strings", "tool_code_regex")
    CODE_FENCE_START_FIELD_NUMBER: _ClassVar[int]
    CODE_FENCE_END_FIELD_NUMBER: _ClassVar[int]
    ESCAPE_FENCE_STRINGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CODE_REGEX_FIELD_NUMBER: _ClassVar[int]
    code_fence_start: str
    code_fence_end: str
    escape_fence_strings: bool
    tool_code_regex: str
    def __init__(self, code_fence_start: _Optional[str] = ..., code_fence_end: _Optional[str] = ..., escape_fence_strings: bool = ..., tool_code_regex: _Optional[str] = ...) -> None: ...

class MiniCpmV4(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
