"""Measurements in a fresh process, through the API that all peers share.

Usage: python -P worker.py JOB, with JOB as JSON. Each answer is a line of JSON. The
scenario "speed" says {} when it is warm, and then answers each line that it reads,
"prefill" or "decode"; the others give one answer.

It runs inside a peer's environment, where ``litert_lm`` is that peer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WORD = " the"  # one token in the usual vocabularies; the count is checked
_WARM_UP_TOKENS = 8


def main(job: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Do the job's scenario; gives the answers.

    Args:
        job: scenario ("load", "memory" or "speed"), model, threads, cache_dir, options
            (of the CPU backend), engine_options, prompt_tokens, new_tokens and
            short_prompt_tokens.
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
            yield {"load_s": time.perf_counter() - begin}
        elif job["scenario"] == "memory":
            answer(engine, job["prompt_tokens"], job["new_tokens"])
            yield {"peak_rss_bytes": peak_rss_bytes()}
        else:
            yield from speed(engine, job)
    finally:
        engine.close()


def speed(engine: Any, job: dict[str, Any]) -> Iterator[dict[str, float]]:
    """Tokens per second of prefill, or of decoding behind a short prompt, as asked."""
    num_prompt, num_short = job["prompt_tokens"], job["short_prompt_tokens"]
    num_new = job["new_tokens"]
    for count in (num_prompt, num_short):
        answer(engine, count, _WARM_UP_TOKENS)
    yield {}
    for line in sys.stdin:
        if line.strip() == "prefill":
            seconds = answer(engine, num_prompt, 1)[0]
            yield {"prefill_tokens_per_s": num_prompt / seconds}
        else:
            seconds = answer(engine, num_short, num_new)[1]
            yield {"decode_tokens_per_s": num_new / seconds}


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
    for found in main(json.loads(sys.argv[1])):
        print("\n" + json.dumps(found), flush=True)
