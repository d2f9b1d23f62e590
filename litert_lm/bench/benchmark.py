"""Benchmark: the official package's measurement of one prefill and one decode."""

from __future__ import annotations

from dataclasses import dataclass

from litert_lm.config import check_count
from litert_lm.engine import Engine
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.interfaces import AbstractBenchmark
from litert_lm.results import BenchmarkInfo

__all__ = ["Benchmark"]


@dataclass
class Benchmark(AbstractBenchmark):
    """Times one prompt and its answer; `litert-lm bench` measures more.

    Args:
        model_path, backend, max_num_tokens, cache_dir: as for Engine.
        prefill_tokens: length of the prompt; it is repeated or cut to that.
        decode_tokens: length of the answer; stop tokens do not end it.
        prompt: its text.
    """

    def run(self) -> BenchmarkInfo:
        """The times.

        Raises:
            InvalidArgumentError: a wrong argument, or more tokens than fit.
        """
        check_count("prefill_tokens", self.prefill_tokens, minimum=1)
        check_count("decode_tokens", self.decode_tokens, minimum=1)
        with Engine(
            self.model_path,
            self.backend,
            self.max_num_tokens,
            cache_dir=self.cache_dir,
            activation_data_type=self.activation_data_type,
            use_ringbuffers_local_attention=self.use_ringbuffers_local_attention,
            enable_ynnpack=self.enable_ynnpack,
            enable_speculative_decoding=self.enable_speculative_decoding,
            prefix_cache_bytes=0,
        ) as engine:
            return self._measure(engine)

    def _measure(self, engine: Engine) -> BenchmarkInfo:
        ids = engine.tokenize(self.prompt)
        if not ids:
            raise InvalidArgumentError(f"prompt has no tokens: {shown(self.prompt)}.")
        repeated = ids * -(-self.prefill_tokens // len(ids))
        with engine.create_session() as session:
            session.generate(
                repeated[: self.prefill_tokens],
                max_new_tokens=self.decode_tokens,
                ignore_eos=True,
            )
            return session.get_benchmark_info()
