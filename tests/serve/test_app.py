"""The server's life: loading, health, metrics, keys, TLS, draining."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from litert_lm.errors import InvalidArgumentError, LiteRtLmError, StorageError
from litert_lm.serve.options import ServerOptions
from tests.serve.client import Client, RunningServer, failure_of, joined
from tests.serve.requests import request

SERVING, NOT_SERVING = 1, 2


def fetch(server: RunningServer, path: str, **options: Any) -> tuple[int, str]:
    url = f"{options.pop('scheme', 'http')}://127.0.0.1:{server.server.http_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=10, **options) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def health(channel: grpc.Channel, service: str = "") -> int:
    check = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return int(check(health_pb2.HealthCheckRequest(service=service)).status)


@pytest.mark.parametrize("service", ["", "vllm.Generate", "vllm.Inference"])
def test_a_loaded_server_is_healthy(server: RunningServer, service: str) -> None:
    assert health(server.channel, service) == SERVING
    assert fetch(server, "/health") == (200, '{"status": "serving"}\n')


def test_a_loading_server_is_not(start: Callable[..., RunningServer]) -> None:
    goes_on = threading.Event()
    server = start(before_load=goes_on.wait)
    try:
        assert health(server.channel) == NOT_SERVING
        assert fetch(server, "/health")[0] == 503
        assert server.client.code() == "UNAVAILABLE"
        assert server.client.code(model="nope") == "NOT_FOUND"
    finally:
        goes_on.set()
    server.wait_until_loaded()
    assert health(server.channel) == SERVING
    assert server.client.generate()


def test_metrics_count_what_happens(start: Callable[..., RunningServer]) -> None:
    server = start()
    answer = server.client.generate(ignore_eos=True, max_new_tokens=7)
    server.client.failure(temperature=9.0)
    status, text = fetch(server, "/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    label = '{model_name="toy"}'
    assert status == 200
    assert answer.prompt_info.num_prompt_tokens == 3
    for name, value in (
        ("prompt_tokens_total", 3),
        ("generation_tokens_total", 7),
        ("request_failure_total", 1),
        ("time_to_first_token_seconds_count", 1),
        ("time_per_output_token_seconds_count", 6),
        ("num_requests_running", 0),
        ("num_requests_waiting", 0),
    ):
        assert float(values[f"litert_lm_{name}{label}"]) == value, name
    ended = 'request_success_total{finished_reason="length",model_name="toy"}'
    assert float(values[f"litert_lm_{ended}"]) == 1
    assert f"litert_lm_prefix_cache_queries_total{label}" in values


def test_a_cancelled_request_is_no_failure(start: Callable[..., RunningServer]) -> None:
    server = start(step_seconds=0.01)
    call = server.client.streamed(request(ignore_eos=True, max_new_tokens=100))
    next(call)
    call.cancel()
    ended = 'request_success_total{finished_reason="aborted",model_name="toy"} 1.0'
    until_s = time.monotonic() + 20.0
    while ended not in (text := fetch(server, "/metrics")[1]):
        assert time.monotonic() < until_s, text
        time.sleep(0.01)
    assert 'request_failure_total{model_name="toy"} 0.0' in fetch(server, "/metrics")[1]


def test_openmetrics_on_request(server: RunningServer) -> None:
    url = f"http://127.0.0.1:{server.server.http_port}/metrics"
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=accept)) as reply:
        assert reply.read().endswith(b"# EOF\n")


def test_other_pages_and_methods_are_refused(server: RunningServer) -> None:
    assert fetch(server, "/nope")[0] == 404
    assert fetch(server, "/health", data=b"x")[0] == 405


@pytest.mark.parametrize("key", ["", "wrong", "Bearer wrong", "secret"])
def test_without_the_key_nothing_runs(keyed: RunningServer, key: str) -> None:
    for call in (keyed.client.unary, keyed.client.streamed):
        metadata = [("authorization", key)] if key else []
        failure = failure_of(lambda c=call, m=metadata: _each(c(request(), metadata=m)))
        assert failure.code is grpc.StatusCode.UNAUTHENTICATED


def _each(reply: Any) -> Any:
    return reply if hasattr(reply, "__next__") else [reply]


@pytest.fixture(scope="module")
def keyed(start: Callable[..., RunningServer]) -> RunningServer:
    return start(api_key="secret")


def test_with_the_key_all_runs(keyed: RunningServer) -> None:
    metadata = [("authorization", "Bearer secret")]
    assert keyed.client.unary(request(), metadata=metadata).outputs.num_tokens
    assert list(keyed.client.streamed(request(), metadata=metadata))
    assert health(keyed.channel) == SERVING


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Paths of a self-signed certificate for localhost and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the program openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj"]
    command += ["/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        [*command, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    return cert, key


def test_both_ports_speak_tls(
    start: Callable[..., RunningServer], certificate: tuple[str, str]
) -> None:
    cert, key = certificate
    server = start(tls_cert=cert, tls_key=key)
    credentials = grpc.ssl_channel_credentials(Path(cert).read_bytes())
    address = f"localhost:{server.server.grpc_port}"
    with grpc.secure_channel(address, credentials) as channel:
        assert Client(channel).generate().outputs.num_tokens
    context = ssl.create_default_context(cafile=cert)
    assert fetch(server, "/health", scheme="https", context=context)[0] == 200


def options(**values: Any) -> ServerOptions:
    return ServerOptions(**{"model_names": ("toy",), **values})


@pytest.mark.parametrize(
    ("values", "kind", "word"),
    [
        ({"tls_cert": "a.pem"}, InvalidArgumentError, "tls_key"),
        ({"tls_key": "a.pem"}, InvalidArgumentError, "tls_cert"),
        ({"tls_cert": "/no/a", "tls_key": "/no/b"}, StorageError, "/no/"),
        ({"grpc_port": 70000}, InvalidArgumentError, "grpc_port"),
        ({"http_port": -1}, InvalidArgumentError, "http_port"),
        ({"model_names": ("",)}, InvalidArgumentError, "name"),
        ({"api_key": ""}, InvalidArgumentError, "api_key"),
        ({"api_key": "clé"}, InvalidArgumentError, "api_key"),
        ({"host": ""}, InvalidArgumentError, "host"),
        ({"grace_seconds": -1.0}, InvalidArgumentError, "grace_seconds"),
    ],
)
def test_wrong_options_say_which(
    values: dict[str, Any], kind: type[LiteRtLmError], word: str
) -> None:
    with pytest.raises(kind, match=word):
        options(**values).tls_context()


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text("no PEM")
    paths = {f"tls_{name}": str(tmp_path / name) for name in ("cert", "key")}
    with pytest.raises(InvalidArgumentError, match="PEM"):
        options(**paths).tls_context()


@pytest.mark.parametrize("name", ["grpc_port", "http_port"])
def test_a_port_in_use_is_named(server: RunningServer, name: str) -> None:
    used = getattr(server.server, name)
    ports = {"grpc_port": 0, "http_port": 0, name: used}
    with pytest.raises(InvalidArgumentError, match=f"{name} {used}.*in use"):
        RunningServer(options(**ports), lambda: None)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no\.such\.host\.invalid"):
        RunningServer(
            options(host="no.such.host.invalid", grpc_port=0, http_port=0), lambda: None
        )


def test_reflection_knows_all_services_and_their_files(server: RunningServer) -> None:
    info = server.channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    ask = reflection_pb2.ServerReflectionRequest
    listed, found = info(
        iter([ask(list_services=""), ask(file_containing_symbol="vllm.Generate")])
    )
    names = {service.name for service in listed.list_services_response.service}
    assert {"vllm.Generate", "vllm.Inference", "grpc.health.v1.Health"} <= names
    files = found.file_descriptor_response.file_descriptor_proto
    read = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in files]
    assert {file.package for file in read} == {"vllm", "google.protobuf"}


def test_a_draining_server_finishes_what_runs(
    start: Callable[..., RunningServer],
) -> None:
    server = start(step_seconds=0.01)
    fields = {"ignore_eos": True, "max_new_tokens": 40, "output_token_ids": True}
    expected = server.client.generate(**fields)
    call = server.client.streamed(request(**fields))
    first = next(call)
    server.begin_stop()
    assert joined([first, *call]) == expected
    with grpc.insecure_channel(f"127.0.0.1:{server.server.grpc_port}") as channel:
        assert Client(channel).failure().code is grpc.StatusCode.UNAVAILABLE
    server.wait()


def test_a_drain_does_not_wait_for_who_watches_the_health(
    start: Callable[..., RunningServer],
) -> None:
    server = start(grace_seconds=50.0)
    watch = server.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    states = watch(health_pb2.HealthCheckRequest())
    assert next(states).status == SERVING
    server.begin_stop()
    assert next(states).status == NOT_SERVING
    began_s = time.monotonic()
    server.wait()
    assert time.monotonic() - began_s < 20.0


def test_a_drain_ends_after_its_grace(start: Callable[..., RunningServer]) -> None:
    server = start(step_seconds=0.05, grace_seconds=0.2)
    call = server.client.streamed(request(ignore_eos=True, max_new_tokens=120))
    next(call)
    server.begin_stop()
    server.wait()
    assert failure_of(lambda: call).code in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
    )


@pytest.mark.parametrize("path", ["unary", "streamed"])
def test_an_answer_too_large_is_told(
    server: RunningServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert_lm.serve.vllm_grpc.MAX_RESPONSE_BYTES", 200)
    fields = {"output_logprobs": True, "output_candidates": {"all": True}}
    call = getattr(server.client, path)
    failure = failure_of(lambda: _each(call(request(**fields))))
    assert failure.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "200" in failure.details


def test_a_slow_reader_holds_up_only_itself(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert_lm.serve.vllm_grpc._MAX_WAITING_BYTES", 2000)
    fields = {"output_logprobs": True, "output_candidates": {"all": True}}
    fields |= {"ignore_eos": True, "max_new_tokens": 100}
    expected = server.client.stream(**fields)
    slow = server.client.streamed(request(**fields))
    first = next(slow)
    assert server.client.generate()
    assert joined([first, *slow]) == joined(expected)


def test_a_fault_of_ours_is_internal_and_in_the_log(
    start: Callable[..., RunningServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    engine = server.server._served.engine
    engine.generate_stream = lambda *_, **__: 1 / 0
    assert server.client.code() == "INTERNAL"
    assert "ZeroDivisionError" in caplog.text
    assert "division" not in server.client.failure().details
