"""Figures of a server for Prometheus; names as vLLM's, under ``litert_lm_``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from litert_lm.errors import CancelledError
from litert_lm.generate.response import FinishReason, GenerateResponse

if TYPE_CHECKING:
    from litert_lm.engine import Engine

__all__ = ["Metrics", "RequestFigures"]

_LABELS = ("model_name",)
_FIRST_TOKEN_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
_TOKEN_BUCKETS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05),
    *(0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5),
)


class Metrics:
    """A registry of its own, so that servers in one process do not mix.

    Args:
        model_name: value of the label ``model_name``.
    """

    def __init__(self, model_name: str) -> None:
        self._registry = CollectorRegistry()
        self._model_name = model_name
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens read.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated.")
        self._finished = Counter(
            "litert_lm_request_success",
            "Sequences that ended, by finish reason.",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )
        self.finished: dict[FinishReason, Counter] = {
            reason: self._finished.labels(model_name, reason.name.lower())
            for reason in FinishReason
            if reason is not FinishReason.NOT_FINISHED
        }
        self.failed = self._counter("request_failure", "Requests that failed.")
        self.first_token = self._histogram(
            "time_to_first_token_seconds",
            "From a request's arrival to its first token.",
            _FIRST_TOKEN_BUCKETS,
        )
        self.per_token = self._histogram(
            "time_per_output_token_seconds",
            "Between tokens of one request.",
            _TOKEN_BUCKETS,
        )
        self.whole = self._histogram(
            "e2e_request_latency_seconds",
            "From a request's arrival to its end.",
            _FIRST_TOKEN_BUCKETS,
        )

    def watch(self, engine: Engine) -> None:
        """Also show what the engine counts, as it stands when it is asked for."""
        self._registry.register(_EngineFigures(engine, self._model_name))

    @contextmanager
    def request(self) -> Iterator[RequestFigures]:
        """Take the figures of one request, from its arrival on."""
        figures = RequestFigures(self)
        try:
            yield figures
        except CancelledError:  # counted among the sequences that ended
            raise
        except BaseException:
            self.failed.inc()
            raise
        finally:
            figures.end()

    def text(self, accept: str) -> tuple[str, bytes]:
        """Content type and body of all figures, in a form that `accept` allows."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)

    def _counter(self, name: str, text: str) -> Counter:
        made = Counter(f"litert_lm_{name}", text, _LABELS, registry=self._registry)
        return made.labels(self._model_name)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        made = Histogram(
            f"litert_lm_{name}",
            text,
            _LABELS,
            registry=self._registry,
            buckets=buckets,
        )
        return made.labels(self._model_name)


class RequestFigures:
    """Times and counts of one request, told chunk by chunk."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._arrived_s = self._last_s = time.perf_counter()
        self._has_token = False

    def add(self, chunk: GenerateResponse) -> None:
        """Count what a chunk brings."""
        metrics = self._metrics
        if chunk.prompt_info is not None:
            metrics.prompt_tokens.inc(chunk.prompt_info.num_prompt_tokens)
        for output in chunk.outputs:
            if output.num_tokens:
                self._count_tokens(output.num_tokens)
            if output.finish_info is not None:
                metrics.finished[output.finish_info.finish_reason].inc()

    def _count_tokens(self, num_tokens: int) -> None:
        now_s = time.perf_counter()
        seconds, self._last_s = now_s - self._last_s, now_s
        self._metrics.generation_tokens.inc(num_tokens)
        if self._has_token:
            self._metrics.per_token.observe(seconds / num_tokens)
        else:
            self._has_token = True
            self._metrics.first_token.observe(seconds)

    def end(self) -> None:
        """The request has ended, in whatever way."""
        self._metrics.whole.observe(time.perf_counter() - self._arrived_s)


class _EngineFigures(Collector):
    """What an engine counts by itself."""

    def __init__(self, engine: Engine, model_name: str) -> None:
        self._engine = engine
        self._model_name = model_name

    def collect(self) -> Iterator[Metric]:
        scheduler = self._engine.scheduler
        for name, text, value in (
            ("num_requests_running", "Requests that run.", scheduler.num_running),
            ("num_requests_waiting", "Requests that wait.", scheduler.num_waiting),
        ):
            gauge = GaugeMetricFamily(f"litert_lm_{name}", text, labels=_LABELS)
            gauge.add_metric([self._model_name], value)
            yield gauge
        yield from self._prefix_cache()

    def _prefix_cache(self) -> Iterator[Metric]:
        counts = self._engine.prefix_cache.counts
        for name, text, value in (
            ("queries", "Prompt tokens looked up.", counts.num_query_tokens),
            ("hits", "Prompt tokens found.", counts.num_hit_tokens),
        ):
            counter = CounterMetricFamily(
                f"litert_lm_prefix_cache_{name}", text, labels=_LABELS
            )
            counter.add_metric([self._model_name], value)
            yield counter
