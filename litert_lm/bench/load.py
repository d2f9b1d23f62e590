"""Load time and peak memory, measured in fresh processes.

The module is its own child process: it loads the model, answers once and writes one
line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from litert_lm import errors
from litert_lm.bench.machine import peak_rss_bytes
from litert_lm.bench.timing import CallTimer
from litert_lm.bench.workload import answer, new_session, prompt_ids

__all__ = ["LoadJob", "LoadTimes", "measure_load"]


@dataclass(frozen=True, kw_only=True)
class LoadJob:
    """What a fresh process does: load, answer one token, then prefill and decode.

    Attributes:
        model_path: the bundle.
        num_threads: None is the engine's own choice.
        cache_dir: as for Engine.
        num_prompt_tokens, num_new_tokens: of the answer that the peak memory holds.
    """

    model_path: str
    num_threads: int | None
    cache_dir: str | None
    num_prompt_tokens: int
    num_new_tokens: int


@dataclass(frozen=True, kw_only=True)
class LoadTimes:
    """Seconds of one load with a warm cache, and the memory it took.

    Attributes:
        imports_s: importing the engine, numpy included.
        engine_s: all of `Engine()`. Of this:
        hash_s: looking up the content hash.
        graph_s: reading the graph's signatures and states.
        read_s: reading of the model by LiteRT.
        tokenizer_s: loading the tokenizer, at the same time.
        first_token_s: from there to the first token of a prompt of one token. Of this:
        compile_s: compilation of decoding by LiteRT.
        load_rss_bytes: peak memory until then.
        peak_rss_bytes: peak memory of the whole job.
        num_threads: threads of a model run.
    """

    imports_s: float
    engine_s: float
    hash_s: float
    graph_s: float
    read_s: float
    tokenizer_s: float
    first_token_s: float
    compile_s: float
    load_rss_bytes: int | None
    peak_rss_bytes: int | None
    num_threads: int

    @property
    def total_s(self) -> float:
        """From `Engine()` to the first token, imports excluded."""
        return self.engine_s + self.first_token_s


def measure_load(job: LoadJob) -> LoadTimes:
    """Do the job in a fresh process.

    Raises:
        LiteRtLmError: what the process met.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(path for path in sys.path if path)]
    child = subprocess.run(
        [sys.executable, "-P", "-m", __name__, json.dumps(asdict(job))],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = child.stdout.splitlines()
    try:
        answer = json.loads(lines[-1])
        if "error" not in answer:
            return LoadTimes(**answer)
        kind, message = answer["error"]
    except (IndexError, TypeError, ValueError) as error:
        detail = (child.stderr.strip().splitlines() or ["no output"])[-1]
        raise errors.ExecutionError(
            f"The process that measures loading failed ({detail}); run `litert-lm run` "
            "on the model to see why."
        ) from error
    raise getattr(errors, kind)(message)


def main(argument: str) -> None:
    """Do a job given as JSON; write its times, or the error, to standard output."""
    try:
        answered: dict[str, Any] = asdict(_work(LoadJob(**json.loads(argument))))
    except errors.LiteRtLmError as error:
        answered = {"error": [type(error).__name__, str(error)]}
    sys.stdout.write("\n" + json.dumps(answered) + "\n")


def _work(job: LoadJob) -> LoadTimes:
    begin = time.perf_counter()
    from litert_lm.engine import Engine

    imports_s = time.perf_counter() - begin
    begin = time.perf_counter()
    with _timed_parts() as timers:
        engine = Engine(**_engine_options(job))
        engine_s = time.perf_counter() - begin
        begin = time.perf_counter()
        answer(new_session(engine), [0], 1)
        first_token_s = time.perf_counter() - begin
    num_threads = timers["compile"].arguments[-1].num_threads
    timers["compile"].arguments = ()  # they hold a model that is to be freed
    with engine:
        load_rss_bytes = peak_rss_bytes()
        ids = prompt_ids(job.num_prompt_tokens, engine.executor.vocab_size)
        answer(new_session(engine), ids, job.num_new_tokens)
    return LoadTimes(
        imports_s=imports_s,
        engine_s=engine_s,
        first_token_s=first_token_s,
        load_rss_bytes=load_rss_bytes,
        peak_rss_bytes=peak_rss_bytes(),
        num_threads=num_threads,
        **{f"{name}_s": timer.seconds for name, timer in timers.items()},
    )


def _engine_options(job: LoadJob) -> dict[str, Any]:
    from litert_lm.config import Backend

    return {
        "model_path": job.model_path,
        "backend": Backend.CPU(thread_count=job.num_threads),
        "cache_dir": job.cache_dir,
    }


@contextmanager
def _timed_parts() -> Iterator[dict[str, CallTimer]]:
    from litert_lm import texts
    from litert_lm.executor import opening
    from litert_lm.executor.native.cache_dir import CacheDirectory
    from litert_lm.executor.native.compiled_model import CompiledModel
    from litert_lm.executor.native.loaded_model import LoadedModel

    names = ("hash", "graph", "read", "tokenizer", "compile")
    timers = {name: CallTimer() for name in names}
    parts: tuple[tuple[str, Any, str], ...] = (
        ("hash", CacheDirectory, "content_hash"),
        ("graph", opening, "read_tflite"),
        ("graph", opening, "read_layout"),
        ("read", LoadedModel, "__init__"),
        ("compile", CompiledModel, "__init__"),
        ("tokenizer", texts, "_load_tokenizer"),
    )
    with ExitStack() as stack:
        for name, owner, attribute in parts:
            stack.enter_context(timers[name].measure(owner, attribute))
        yield timers


if __name__ == "__main__":
    main(sys.argv[1])
