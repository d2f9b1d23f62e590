"""Engine: one bundle opened once, from which sessions are made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from litert_lm._proto import executor_metadata_pb2, llm_metadata_pb2  # noqa: F401
from litert_lm.bundle import open_bundle
from litert_lm.bundle.metadata import Channel
from litert_lm.config import (
    Backend,
    GenerateLimits,
    Progress,
    SamplerConfig,
    check_count,
    check_flag,
    no_progress,
)
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.executor.executor import Executor
from litert_lm.executor.opening import ExecutorOptions, known_facts, open_executor
from litert_lm.first_load import first_load
from litert_lm.generate.chunk_iterator import ChunkIterator
from litert_lm.generate.engine_requests import EngineRequests
from litert_lm.generate.kv_transfer import KVTransfers
from litert_lm.generate.prefix_budget import default_prefix_bytes
from litert_lm.generate.prefix_cache import PrefixCache
from litert_lm.generate.request import GenerateRequest, Prompt
from litert_lm.generate.request_runner import RequestRunner
from litert_lm.generate.response import GenerateResponse, join
from litert_lm.generate.scheduler import Scheduler
from litert_lm.heap import trim_heap
from litert_lm.interfaces import AbstractEngine
from litert_lm.not_yet import backend_of, check_all_unset, check_unset
from litert_lm.reply_config import ConstrainedDecodingConfig, ThinkingConfig
from litert_lm.session import Session
from litert_lm.texts import load_texts

if TYPE_CHECKING:
    from litert_lm.chat.tools.tool import Tool, ToolEventHandler
    from litert_lm.conversation.conversation import Conversation
    from litert_lm.conversation.saved import SavedConversation
    from litert_lm.conversation.settings import ConversationSettings

__all__ = ["Engine"]

_TRANSFER_SHARE = 4  # exported states against the prefix cache, in memory
_CPU = Backend.CPU()


class Engine(AbstractEngine):
    """A model bundle ready to run. A context manager.

    Args:
        model_path: a .litertlm or .task file.
        backend: where it runs; the class instead of an instance means its defaults.
        max_num_tokens: limit on prompt and answer together; None is the bundle's.
        cache_dir: folder for packed weights: None is ``$XDG_CACHE_HOME/litert_lm``, ""
            the folder of the model, ":memory" and ":nocache" write no weights.
        enable_benchmark: accepted; times are always kept.
        progress: called with (stage, fraction) while a model that was never loaded here
            is read and examined.
        max_running: requests that run at once; None for no limit.
        max_waiting: requests that wait for that; None for no limit.
        generate_limits: what requests may ask for, and what they get unasked.
        prefix_cache_bytes: most memory for the entries of prompts that may come again;
            0 keeps none, None up to eight full contexts or a sixteenth of the memory.
            It is taken as prompts come.
        max_num_images, vision_backend, audio_backend, lora_rank_config,
        activation_data_type, use_ringbuffers_local_attention, enable_ynnpack,
        enable_speculative_decoding: of the official package; not supported, so only
            None and False are accepted.

    Attributes:
        backend: as given, or the default.
        config: what the bundle says about its model, tokens as ids.
        tokenizer: of the bundle.
        executor: what sessions run the model with.
        prefix_cache: what they share of prompts that begin alike.
        scheduler: admits requests within the limits.
        model_hash: SHA-256 of the bundle, in hexadecimal.
        init_seconds: how long opening took.

    Raises:
        ModelNotFoundError, ModelFileError, UnsupportedModelError: the file.
        BackendError: the backend.
        StorageError: the cache directory.
        InvalidArgumentError: any other argument.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        backend: Backend | type[Backend] = _CPU,
        max_num_tokens: int | None = None,
        max_num_images: int | None = None,
        cache_dir: str | None = None,
        vision_backend: Backend | type[Backend] | None = None,
        audio_backend: Backend | type[Backend] | None = None,
        lora_rank_config: object | None = None,
        activation_data_type: object | None = None,
        enable_benchmark: bool = False,
        use_ringbuffers_local_attention: bool | None = None,
        enable_ynnpack: bool | None = None,
        *,
        enable_speculative_decoding: bool | None = None,
        progress: Progress | None = None,
        max_running: int | None = None,
        max_waiting: int | None = None,
        generate_limits: GenerateLimits | None = None,
        prefix_cache_bytes: int | None = None,
    ) -> None:
        check_all_unset(locals())
        begin = time.perf_counter()
        check_count("max_num_tokens", max_num_tokens, minimum=1)
        check_count("prefix_cache_bytes", prefix_cache_bytes, minimum=0)
        if progress is not None and not callable(progress):
            raise InvalidArgumentError(
                f"progress must be callable, got {shown(progress)}."
            )
        self.model_path = os.fspath(model_path)
        self.max_num_tokens, self.cache_dir = max_num_tokens, cache_dir
        self.generate_limits = GenerateLimits.checked(generate_limits)
        self.scheduler = Scheduler(max_running=max_running, max_waiting=max_waiting)
        self.backend = backend_of(backend)
        self._bundle = open_bundle(model_path)
        try:
            self._open(cache_dir, max_num_tokens, progress or no_progress)
        except BaseException:
            self._bundle.close()
            raise
        self._take_requests(prefix_cache_bytes)
        self.init_seconds = time.perf_counter() - begin

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the model. Sessions of the engine raise SessionStateError from then on.

        Waits for a model call that is running; closing twice is harmless.
        """
        self.executor.close()
        self.prefix_cache.close()
        self._transfers.close()
        self._bundle.close()

    def create_session(
        self,
        *,
        apply_prompt_template: bool = True,
        sampler_config: SamplerConfig | None = None,
        max_output_tokens: int | None = None,
        lora_config: object | None = None,
        enable_speculative_decoding: bool | None = None,
    ) -> Session:
        """An empty session.

        Args:
            apply_prompt_template: put the bundle's prompt affixes around texts.
            sampler_config: sampling; fields left None come from the bundle.
            max_output_tokens: limit on each answer.
            lora_config, enable_speculative_decoding: not supported, None or False.
        """
        self.executor.check_open()
        check_unset("lora_config", lora_config)
        check_unset("enable_speculative_decoding", enable_speculative_decoding)
        check_flag("apply_prompt_template", apply_prompt_template)
        return Session(
            self.executor,
            self.tokenizer,
            self.config,
            runner=self._requests.runner,
            init_seconds=self.init_seconds,
            apply_prompt_template=apply_prompt_template,
            sampler_config=sampler_config,
            max_output_tokens=max_output_tokens,
            prefix_cache=self.prefix_cache,
            model_hash=self.model_hash,
        )

    def create_conversation(
        self,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Callable[..., Any] | Tool] | None = None,
        tool_event_handler: ToolEventHandler | None = None,
        automatic_tool_calling: bool = True,
        extra_context: Mapping[str, Any] | None = None,
        filter_channel_content_from_kv_cache: bool | None = None,
        thinking_config: ThinkingConfig | None = None,
        sampler_config: SamplerConfig | None = None,
        system_message: str | None = None,
        constrained_decoding_config: ConstrainedDecodingConfig | None = None,
        lora_config: object | None = None,
        max_output_tokens: int | None = None,
        chat_template: str | None = None,
        enable_speculative_decoding: bool | None = None,
        channels: Sequence[Channel | Mapping[str, object]] | str | None = None,
        context_overflow: str = "error",
        max_tool_rounds: int = 10,
        max_parallel_tools: int = 1,
    ) -> Conversation:
        """A chat with the model.

        Args:
            sampler_config: sampling; fields left None come from the bundle.
            lora_config, enable_speculative_decoding: not supported, None or False.
            messages, tools, ...: see ConversationSettings.

        Raises:
            InvalidArgumentError: a wrong argument.
        """
        given = locals()
        check_unset("lora_config", lora_config)
        check_unset("enable_speculative_decoding", enable_speculative_decoding)
        from litert_lm.conversation.settings import ConversationSettings

        names = ConversationSettings.__dataclass_fields__
        settings = ConversationSettings(**{name: given[name] for name in names})
        session = self.create_session(sampler_config=sampler_config)
        return self._conversation(session, settings)

    def load_conversation(
        self,
        path: str | os.PathLike[str],
        *,
        tools: Sequence[Callable[..., Any] | Tool] | None = None,
        tool_event_handler: ToolEventHandler | None = None,
        sampler_config: SamplerConfig | None = None,
    ) -> Conversation:
        """A chat that goes on where the one stood that `Conversation.save` wrote.

        Args:
            path: the file.
            tools, tool_event_handler, sampler_config: as in `create_conversation`; they
                are not part of the file. All other arguments are.

        Raises:
            SavedStateError: damaged, no conversation, of another model, or too long.
            StorageError: the file cannot be read.
            InvalidArgumentError: any other argument.
        """
        from litert_lm.conversation.saved import read_conversation

        session = self.create_session(sampler_config=sampler_config)
        texts, ids = session._load(path), session.token_ids
        saved = read_conversation(path, texts, ids, tools, tool_event_handler)
        return self._conversation(session, saved.settings, saved)

    def _conversation(
        self,
        session: Session,
        settings: ConversationSettings,
        saved: SavedConversation | None = None,
    ) -> Conversation:
        from litert_lm.conversation.conversation import Conversation

        return Conversation(
            session,
            self.tokenizer,
            self.config,
            settings,
            context_length=self.executor.context_length,
            vocab_size=self.executor.vocab_size,
            saved=saved,
        )

    def load_session(
        self,
        path: str | os.PathLike[str],
        *,
        apply_prompt_template: bool = True,
        sampler_config: SamplerConfig | None = None,
        max_output_tokens: int | None = None,
    ) -> Session:
        """A session that goes on where the one stood that `Session.save` wrote.

        Its answers are those that the saved one would give, bit for bit, on the same
        machine with the same number of threads.

        Args:
            path: the file.
            apply_prompt_template, sampler_config, max_output_tokens: as in
                `create_session`; they are not part of the file. With the same seed a
                random sequence goes on from its place.

        Raises:
            SavedStateError: damaged, of another model, or longer than the context.
            StorageError: the file cannot be read.
            InvalidArgumentError: any other argument.
        """
        session = self.create_session(
            apply_prompt_template=apply_prompt_template,
            sampler_config=sampler_config,
            max_output_tokens=max_output_tokens,
        )
        session._load(path)
        return session

    def generate(self, prompt: Prompt, **options: object) -> GenerateResponse:
        """Answer one prompt in a context of its own.

        Text is put behind a BOS and not into the bundle's prompt template. Any number
        of threads may call this at once.

        Args:
            prompt: text, or token ids taken verbatim.
            **options: fields of GenerateRequest. Unset ones come from the bundle;
                ``max_new_tokens`` from generate_limits.

        Raises:
            TypeError: an option that does not exist.
            InvalidArgumentError: a wrong value, or a prompt that does not fit.
            QueueFullError: too many requests wait.
            NoTokenLeftError: constraints forbid every token at some step.
        """
        return join(self.generate_stream(prompt, **options))

    def generate_stream(
        self, prompt: Prompt, **options: object
    ) -> ChunkIterator[GenerateResponse]:
        """Answer one prompt in chunks: first the prompt's info, then one per token.

        Arguments are checked at once. Closing the iterator, also from another thread,
        ends generation.
        """
        self.executor.check_open()
        return self._requests.stream(GenerateRequest.from_options(prompt, options))

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text; nothing is added."""
        return self.tokenizer.encode(text)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        """Text of token ids, special tokens included."""
        return self.tokenizer.decode(token_ids)

    @property
    def bos_token_id(self) -> int | None:
        """The id that begins every context, or None."""
        return self.config.bos_id

    @property
    def eos_token_ids(self) -> list[list[int]]:
        """The id sequences that end an answer."""
        return [list(sequence) for sequence in self.config.stop_sequences]

    def _take_requests(self, prefix_cache_bytes: int | None) -> None:
        """Make what requests share."""
        if prefix_cache_bytes is None:
            prefix_cache_bytes = default_prefix_bytes(self.executor)
        self.prefix_cache = PrefixCache(self.executor, prefix_cache_bytes)
        self._transfers = KVTransfers(
            self.model_hash, prefix_cache_bytes // _TRANSFER_SHARE
        )
        model = self.executor, self.tokenizer, self.config
        runner = RequestRunner(
            *model,
            limits=self.generate_limits,
            scheduler=self.scheduler,
            transfers=self._transfers,
        )
        self._requests = EngineRequests(runner, *model, self.prefix_cache)

    def _open(
        self, cache_dir: str | None, max_num_tokens: int | None, progress: Progress
    ) -> None:
        """Load the tokenizer on a thread while LiteRT reads the model."""
        metadata = self._bundle.llm_metadata
        options = ExecutorOptions(
            accelerator=self.backend.get_name(),
            num_threads=getattr(self.backend, "thread_count", None),
            cache_dir=cache_dir,
            max_num_tokens=max_num_tokens,
            default_max_num_tokens=metadata.max_num_tokens,
            huge_pages=getattr(self.backend, "huge_pages", False),
        )
        facts = known_facts(self._bundle, options, first_load, progress)
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(load_texts, self._bundle, cache_dir)
            self.executor: Executor = open_executor(self._bundle, options, facts)
            self.executor.load()
            self.tokenizer, self.config, self.model_hash = loading.result()
        trim_heap()
        self.executor.pad_id = self.config.pad_id
