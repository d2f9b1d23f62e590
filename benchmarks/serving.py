#!/usr/bin/env python3
"""What a token costs over gRPC, against the Python call on the same model.

The server is a process of its own; both decode with one thread, in turns, so that a
machine whose speed drifts is fair to both. Needs the extra grpc.

    benchmarks/serving.py MODEL --tokens 128 --rounds 10
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc

ROOT = Path(__file__).resolve().parents[1]

sys.path.insert(0, str(ROOT))

from litert_lm import Backend, Engine  # noqa: E402
from litert_lm.serve.schema import (  # noqa: E402
    GenerateRequest,
    GenerateResponse,
    StoppingCriteria,
)

PROMPT = "The history of the lighthouse begins with"
Chunks = Callable[[], Iterable[int]]
"""Gives the number of new tokens of each chunk as it comes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "litert_lm", "serve", arguments.model]
    command += ["--threads", "1", "--grpc-port", "0", "--http-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as made:
        address = [(made.stdout or sys.stdin).readline().split() for _ in range(3)][1][
            1
        ]
        try:
            compare(arguments, address)
        finally:
            made.terminate()


def compare(arguments: argparse.Namespace, address: str) -> None:
    """Measure in turns, print both and the ratio of each pair."""
    one_thread = Backend.CPU(thread_count=1)
    with Engine(arguments.model, one_thread) as engine, channel(address) as server:
        ways = {
            "python": lambda: python_chunks(engine, arguments.tokens),
            "grpc": lambda: grpc_chunks(server, arguments.tokens),
        }
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(arguments.rounds + 1):
            for name, chunks in ways.items():
                measured = measure(chunks)
                if number:
                    seconds[name].append(measured)
    for column, label in enumerate(("first token", "per token")):
        values = {n: [pair[column] for pair in seconds[n]] for n in ways}
        pairs = zip(values["grpc"], values["python"], strict=True)
        ratio = statistics.median(g / p for g, p in pairs)
        best = min(values["grpc"]) / min(values["python"])
        texts = (f"{n} {statistics.median(v) * 1e3:8.3f} ms" for n, v in values.items())
        print(
            f"{label:12} {'  '.join(texts)}  ratio {ratio:.3f}, of the best {best:.3f}"
        )


def measure(chunks: Chunks) -> tuple[float, float]:
    """Seconds to the first token, and between tokens after it."""
    begin = time.perf_counter()
    first, count = 0.0, 0
    for num_tokens in chunks():
        if num_tokens and not first:
            first = time.perf_counter()
            begin_count = num_tokens
        count += num_tokens
    end = time.perf_counter()
    return first - begin, (end - first) / (count - begin_count)


def python_chunks(engine: Engine, num_tokens: int) -> Iterable[int]:
    options = {"max_new_tokens": num_tokens, "ignore_eos": True}
    for chunk in engine.generate_stream(PROMPT, **options):
        yield sum(output.num_tokens for output in chunk.outputs)


def channel(address: str) -> Any:
    return grpc.insecure_channel(address)


def grpc_chunks(server: Any, num_tokens: int) -> Iterable[int]:
    stream = server.unary_stream(
        "/vllm.Generate/GenerateStream",
        GenerateRequest.SerializeToString,
        GenerateResponse.FromString,
    )
    stopping = StoppingCriteria(max_new_tokens=num_tokens, ignore_eos=True)
    for message in stream(GenerateRequest(text=PROMPT, stopping=stopping)):
        yield message.outputs.num_tokens


if __name__ == "__main__":
    main()
