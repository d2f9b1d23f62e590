"""A benchmark's result as Markdown, JSON values and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from litert_lm.bench.load import LoadTimes
from litert_lm.bench.runner import BenchResult, Row

__all__ = ["to_csv", "to_json", "to_markdown"]

_MEGABYTE = 1e6


def to_markdown(result: BenchResult) -> str:
    """Tables for people."""
    threads = f"{result.num_threads} thread" + "s" * (result.num_threads != 1)
    parts = [
        f"{Path(result.model).name}, {result.size_bytes / _MEGABYTE:.1f} MB, {threads}",
        result.machine.line(),
        _table(
            ("test", "tokens/s", "median", "first token"),
            [_cells(row) for row in result.rows],
        ),
        _table(("load, cache warm", "ms"), list(_load_cells(result.loads))),
        _table(("memory, peak", "MB"), list(_memory_cells(result.loads))),
        _table(("decode step", "us"), list(_step_cells(result))),
        _table(
            ("sampler, 262144 tokens", "us"),
            [
                ("greedy", f"{result.samplers.greedy_us:.0f}"),
                ("top-k 40, top-p 0.95", f"{result.samplers.top_k_top_p_us:.0f}"),
            ],
        ),
    ]
    return "\n\n".join(parts)


def to_json(result: BenchResult) -> dict[str, Any]:
    """Everything, in seconds, microseconds and bytes as the names say."""
    rows = [
        asdict(row)
        | {
            "tokens_per_second_mean": row.mean,
            "tokens_per_second_sd": row.deviation,
            "tokens_per_second_median": row.median,
            "first_token_ms_median": row.first_token_ms,
        }
        for row in result.rows
    ]
    total_s = median(load.total_s for load in result.loads)
    return asdict(result) | {"rows": rows, "load_to_first_token_s_median": total_s}


def to_csv(result: BenchResult) -> str:
    """One line per test."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        (
            "model",
            "size_bytes",
            "threads",
            "test",
            "num_tokens",
            "depth",
            "repetitions",
            "tokens_per_second_mean",
            "tokens_per_second_sd",
            "tokens_per_second_median",
            "first_token_ms_median",
            "load_to_first_token_s_median",
            "peak_rss_bytes",
            *asdict(result.machine),
        )
    )
    writer.writerows(_csv_row(result, row) for row in result.rows)
    return text.getvalue().rstrip("\n")


def _csv_row(result: BenchResult, row: Row) -> tuple[object, ...]:
    first = row.first_token_ms
    return (
        result.model,
        result.size_bytes,
        result.num_threads,
        row.name,
        row.num_tokens,
        row.depth,
        len(row.seconds),
        round(row.mean, 3),
        round(row.deviation, 3),
        round(row.median, 3),
        "" if first is None else round(first, 3),
        round(median(load.total_s for load in result.loads), 4),
        _median_memory(result.loads, lambda load: load.peak_rss_bytes),
        *asdict(result.machine).values(),
    )


def _cells(row: Row) -> tuple[str, ...]:
    first = row.first_token_ms
    return (
        row.name,
        f"{row.mean:.2f} ± {row.deviation:.2f}",
        f"{row.median:.2f}",
        "" if first is None else f"{first:.1f} ms",
    )


def _load_cells(loads: Sequence[LoadTimes]) -> Iterator[tuple[str, str]]:
    def ms(seconds: Callable[[LoadTimes], float]) -> str:
        return f"{1e3 * median(map(seconds, loads)):.1f}"

    yield "imports", ms(lambda load: load.imports_s)
    yield "Engine() to the first token", ms(lambda load: load.total_s)
    yield "- content hash", ms(lambda load: load.hash_s)
    yield "- reading the graph", ms(lambda load: load.graph_s)
    yield "- reading the model in LiteRT", ms(lambda load: load.read_s)
    yield "- tokenizer, beside these", ms(lambda load: load.tokenizer_s)
    yield "- first token", ms(lambda load: load.first_token_s)
    yield "- compilation, part of it", ms(lambda load: load.compile_s)


def _memory_cells(loads: Sequence[LoadTimes]) -> Iterator[tuple[str, str]]:
    for name, of in (
        ("after the first token", lambda load: load.load_rss_bytes),
        ("after the longest tests", lambda load: load.peak_rss_bytes),
    ):
        value = _median_memory(loads, of)
        yield name, "unknown" if value is None else f"{value / _MEGABYTE:.0f}"


def _median_memory(
    loads: Sequence[LoadTimes], of: Callable[[LoadTimes], int | None]
) -> int | None:
    known = [value for value in map(of, loads) if value is not None]
    return round(median(known)) if known else None


def _step_cells(result: BenchResult) -> Iterator[tuple[str, str]]:
    steps = result.steps
    yield "native call", f"{steps.native_us:.0f}"
    yield "sampler", f"{steps.sampler_us:.1f}"
    yield "Python per decode step", f"{steps.python_us:.1f}"
    yield "detokenising", f"{steps.detokenize_us:.1f}"
    yield "chunk building", f"{steps.chunk_us:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up; all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join((first, *others))} |"

    rule = f"| {'-' * widths[0]} |" + "".join(
        f" {'-' * (width - 1)}: |" for width in widths[1:]
    )
    return "\n".join((line(header), rule, *map(line, rows)))
