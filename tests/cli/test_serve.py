"""`litert-lm serve`: flags, environment, messages, and how the process ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

grpc = pytest.importorskip("grpc", reason="needs the extra grpc")

from tests.fixtures.conformance import conformance_bundle  # noqa: E402
from tests.serve.client import Client, joined  # noqa: E402
from tests.serve.requests import request  # noqa: E402

ROOT = Path(__file__).parents[2]
FREE_PORTS = ("--grpc-port", "0", "--http-port", "0")
Command = Callable[..., Any]


@pytest.fixture(scope="module")
def model(save_bundle: Callable[..., Path]) -> Path:
    return save_bundle(["conformance"], conformance_bundle)


@pytest.fixture
def serve(model: Path) -> Iterator[Callable[..., Any]]:
    """serve(*arguments, **environment): (process, gRPC address, HTTP address)."""
    processes = []

    def begin(*arguments: str, **environment: str) -> Any:
        command = [sys.executable, "-m", "litert_lm", "serve", str(model)]
        process = subprocess.Popen(
            [*command, *FREE_PORTS, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=os.environ | environment,
        )
        processes.append(process)
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(3)]
        return process, lines[1][1], lines[2][1]

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_it_serves_until_sigterm_and_finishes_what_runs(serve: Any) -> None:
    process, grpc_address, http_address = serve("--served-model-name", "toy")
    with urllib.request.urlopen(f"{http_address}/health") as reply:
        assert reply.status == 200
    with grpc.insecure_channel(grpc_address) as channel:
        client = Client(channel)
        fields = {"model": "toy", "ignore_eos": True, "max_new_tokens": 120}
        expected = client.generate(**fields)
        call = client.streamed(request(**fields))
        first = next(call)
        process.send_signal(signal.SIGTERM)
        assert joined([first, *call]) == expected
    assert process.wait(30) == 0


def test_the_environment_sets_options_and_flags_win(serve: Any) -> None:
    _, address, _ = serve(
        "--max-new-tokens-default",
        "5",
        LITERT_LM_SERVED_MODEL_NAME="mine",
        LITERT_LM_MAX_NEW_TOKENS_DEFAULT="9",
        LITERT_LM_API_KEY="k",
        LITERT_LM_MAX_LOGPROBS="1",
    )
    metadata = [("authorization", "Bearer k")]
    with grpc.insecure_channel(address) as channel:
        message = request(model="mine", ignore_eos=True)
        answer = Client(channel).unary(message, metadata=metadata)
        assert answer.outputs.num_tokens == 5
        message.response.output_candidates.top_n = 2
        message.response.output_logprobs = True
        with pytest.raises(grpc.RpcError, match="candidates"):
            Client(channel).unary(message, metadata=metadata)


def test_a_port_in_use_is_an_argument_error(command: Command, model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        done = command("serve", model, "--http-port", "0", "--grpc-port", port)
    assert done.code == 2
    assert re.search(f"grpc_port {port} .*in use", done.err)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["--tls-key", "key.pem"], 2, "tls_cert"),
        (["--tls-cert", "/no/cert", "--tls-key", "/no/key"], 1, "/no/"),
        (["--grpc-port", "99999"], 2, "grpc_port"),
        (["--max-running", "0"], 2, "--max-running"),
        (["--max-queue", "-1"], 2, "--max-queue"),
    ],
)
def test_wrong_flags(
    command: Command, model: Path, arguments: list[str], code: int, word: str
) -> None:
    done = command("serve", model, *arguments)
    assert (done.code, done.out) == (code, "")
    assert word in done.err


def test_a_wrong_variable_is_named(
    command: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_LM_GRPC_PORT", "many")
    done = command("serve", model)
    assert done.code == 2
    assert "LITERT_LM_GRPC_PORT" in done.err and "'many'" in done.err


def test_a_model_that_is_none_ends_the_server(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "x.litertlm"
    path.write_bytes(b"no model")
    done = command("serve", path, *FREE_PORTS)
    assert done.code == 4


def serve_without(module: str, model: Path) -> subprocess.CompletedProcess[str]:
    script = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from litert_lm.cli.main import main\n"
        "sys.exit(main(['serve', sys.argv[1]]))\n"
    )
    command = [sys.executable, "-c", script, str(model)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_without_the_extra_there_is_a_pip_line(model: Path) -> None:
    done = serve_without("grpc", model)
    assert done.returncode == 1
    assert 'pip install "pylitert-lm[grpc]"' in done.stderr
    assert 'in a clone pip install ".[grpc]".' in done.stderr


def test_a_part_of_the_package_is_no_extra(model: Path) -> None:
    done = serve_without("litert_lm.serve.metrics", model)
    assert done.returncode != 0
    assert "litert_lm.serve.metrics" in done.stderr and "pip install" not in done.stderr


@pytest.mark.usefixtures("homes")
def test_the_example_prints_an_answer(serve: Any) -> None:
    _, address, _ = serve()
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "grpc_client.py", address],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_example_tells_why_it_has_no_answer() -> None:
    example = ROOT / "examples" / "grpc_client.py"
    done = subprocess.run(
        [sys.executable, example, "127.0.0.1:1"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("127.0.0.1:1: ") and done.stderr.endswith(".\n")
