"""One measurement in a fresh process, through the API that all peers share.

Usage: python -P worker.py JOB, with JOB as JSON; the last line written is the answer.
It runs inside a peer's environment, where ``litert_lm`` is that peer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

_WORD = " the"  # one token in the usual vocabularies; the count is checked
_WARM_UP_TOKENS = 8


def main(job: dict[str, Any]) -> dict[str, float]:
    """Do the job's scenario.

    Args:
        job: scenario ("load", "memory" or "speed"), model, threads, cache_dir, options
            (of the CPU backend), engine_options, prompt_tokens, new_tokens,
            short_prompt_tokens and repetitions.
    """
    from litert_lm import Backend, Engine

    options = {"thread_count": job["threads"], **job["options"]}
    begin = time.perf_counter()
    engine = Engine(
        job["model"],
        Backend.CPU(**options),
        cache_dir=job["cache_dir"],
        **job["engine_options"],
    )
    try:
        if job["scenario"] == "load":
            answer(engine, 1, 1)
            return {"load_s": time.perf_counter() - begin}
        if job["scenario"] == "memory":
            answer(engine, job["prompt_tokens"], job["new_tokens"])
            return {"peak_rss_bytes": peak_rss_bytes()}
        return speed(engine, job)
    finally:
        engine.close()


def speed(engine: Any, job: dict[str, Any]) -> dict[str, float]:
    """Median tokens per second of prefill, and of decoding behind a short prompt."""
    answer(engine, job["prompt_tokens"], _WARM_UP_TOKENS)
    prefill, decode = [], []
    for _ in range(job["repetitions"]):
        prefill.append(answer(engine, job["prompt_tokens"], 1)[0])
        decode.append(answer(engine, job["short_prompt_tokens"], job["new_tokens"])[1])
    return {
        "prefill_tokens_per_s": job["prompt_tokens"] / median(prefill),
        "decode_tokens_per_s": job["new_tokens"] / median(decode),
    }


def answer(engine: Any, num_prompt_tokens: int, num_new_tokens: int) -> list[float]:
    """Seconds of prefill and of decode in a session of their own."""
    text = _WORD * num_prompt_tokens
    num_tokens = len(engine.tokenize(text))
    if num_tokens != num_prompt_tokens:
        raise SystemExit(f"{num_prompt_tokens} words are {num_tokens} tokens here")
    with engine.create_session(
        apply_prompt_template=False, max_output_tokens=num_new_tokens
    ) as session:
        begin = time.perf_counter()
        session.run_prefill([text])
        prefilled = time.perf_counter()
        num_pieces = sum(1 for _ in session.run_decode_async())
        end = time.perf_counter()
    if num_pieces != num_new_tokens:
        raise SystemExit(f"{num_pieces} tokens came instead of {num_new_tokens}")
    return [prefilled - begin, end - prefilled]


def peak_rss_bytes() -> int:
    """Most memory this process had resident."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would begin with the peak of the parent process.
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print("\n" + json.dumps(main(json.loads(sys.argv[1]))))
