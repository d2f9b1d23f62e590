"""Save a session, and let another go on from there without reading the prompt again."""

import tempfile
import time
from pathlib import Path

from litert_lm import Engine, SamplerConfig
from litert_lm.hub import resolve_model

TEXT = "The quick brown fox jumps over the lazy dog. " * 40
OPTIONS = {"sampler_config": SamplerConfig(temperature=0.0), "max_output_tokens": 8}


def main() -> None:
    with (
        Engine(resolve_model("smollm2-135m-instruct")) as engine,
        tempfile.TemporaryDirectory() as folder,
    ):
        path = Path(folder, "fox.safetensors")
        session = engine.create_session(**OPTIONS)
        begin = time.perf_counter()
        session.run_prefill([TEXT + "The quick"])
        print(f"read in {time.perf_counter() - begin:.2f} s")

        session.save(path)
        print(f"saved {path.stat().st_size / 1e6:.0f} MB")

        begin = time.perf_counter()
        loaded = engine.load_session(path, **OPTIONS)
        print(f"loaded in {time.perf_counter() - begin:.2f} s")

        answers = [each.run_decode().texts[0] for each in (session, loaded)]
        assert answers[0] == answers[1]
        print(answers[1])


if __name__ == "__main__":
    main()
