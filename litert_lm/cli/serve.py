"""`litert-lm serve`: one model behind a gRPC and an HTTP port."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from litert_lm.cli import ui
from litert_lm.config import check_count
from litert_lm.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from litert_lm.engine import Engine
    from litert_lm.serve.app import Server
    from litert_lm.serve.options import ServerOptions

__all__ = ["add_parser", "run"]

_PREFIX = "LITERT_LM_"
#: Flag, type, default, metavar, help. Each has a variable of the environment.
_OPTIONS: tuple[tuple[str, type, object, str, str], ...] = (
    ("--host", str, "127.0.0.1", "ADDRESS", "address to listen at"),
    ("--grpc-port", int, 50051, "N", "port of the gRPC services; 0 takes a free one"),
    ("--http-port", int, 8000, "N", "port of /health and /metrics; 0 as above"),
    ("--served-model-name", str, None, "NAME", "what clients may call the model"),
    ("--max-running", int, 8, "N", "requests that run at once"),
    ("--max-queue", int, 128, "N", "requests that wait; more are refused"),
    ("--max-logprobs", int, None, "N", "most candidates per token (default: any)"),
    (
        "--max-new-tokens-default",
        int,
        20,
        "N",
        "length of an answer whose request sets none",
    ),
    ("--threads", int, None, "N", "CPU threads (default: fastest)"),
    ("--api-key", str, None, "KEY", "clients must send 'authorization: Bearer KEY'"),
    ("--tls-cert", str, None, "FILE", "certificate chain in PEM form, for both ports"),
    ("--tls-key", str, None, "FILE", "its private key"),
    ("--grace-seconds", float, 30.0, "S", "what running requests get at the end"),
)


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "serve",
        help="serve a model over gRPC",
        description="Serve a model: gRPC services vllm.Generate and vllm.Inference,"
        " health checks and reflection; over HTTP /health and /metrics. SIGTERM or"
        " Ctrl-C ends it, with exit code 0, once running requests have finished.",
        epilog="Each option can be set in the environment: --grpc-port as"
        " LITERT_LM_GRPC_PORT. The command line wins.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    for flag, kind, default, metavar, text in _OPTIONS:
        shown = "" if default is None else f" (default: {default})"
        parser.add_argument(flag, type=kind, metavar=metavar, help=text + shown)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    values = _values(args)
    _check(values)
    try:
        from litert_lm.serve import app
    except ImportError as error:
        if _is_our_own(error):
            raise
        raise MissingExtraError.of(
            "litert-lm serve", _package(error), "grpc"
        ) from error
    options = _server_options(args.model, values)
    options.tls_context()  # before the model loads
    from litert_lm.hub.resolve import resolve_model

    with ui.progress() as progress:
        path = resolve_model(args.model, progress=progress)
    with ui.progress() as progress:
        server = app.Server(options, _loader(str(path), values, progress))

        def on_ready() -> None:
            progress.close()
            _announce(server, options)

        asyncio.run(app.run(server, on_ready))
    return 0


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _values(args: argparse.Namespace) -> dict[str, Any]:
    """Every option's value, by the name of its attribute."""
    return {
        _name(flag): _value(args, flag, kind, default)
        for flag, kind, default, _, _ in _OPTIONS
    }


def _check(values: dict[str, Any]) -> None:
    """Raise for a number that only shows once the model is loaded."""
    for flag, minimum in (
        ("--max-running", 1),
        ("--max-queue", 0),
        ("--max-logprobs", 0),
        ("--max-new-tokens-default", 1),
        ("--threads", 1),
    ):
        check_count(flag, values[_name(flag)], minimum)


def _value(args: argparse.Namespace, flag: str, kind: type, default: object) -> Any:
    """From the command line, else the environment, else the default."""
    given = getattr(args, _name(flag))
    if given is not None:
        return given
    variable = _PREFIX + _name(flag).upper()
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{variable} must be {'a number' if kind is float else 'a whole number'}, "
            f"got {text!r}."
        ) from error


def _server_options(model: str, values: dict[str, Any]) -> ServerOptions:
    from litert_lm.serve.options import ServerOptions

    name = values["served_model_name"]
    return ServerOptions(
        host=values["host"],
        grpc_port=values["grpc_port"],
        http_port=values["http_port"],
        model_names=(model if name is None else name,),
        api_key=values["api_key"],
        tls_cert=values["tls_cert"],
        tls_key=values["tls_key"],
        grace_seconds=values["grace_seconds"],
    )


def _loader(
    path: str, values: dict[str, Any], progress: Callable[[str, float], None]
) -> Callable[[], Engine]:
    """Opens the engine with the server's limits."""

    def load() -> Engine:
        from litert_lm.config import Backend, GenerateLimits
        from litert_lm.engine import Engine

        progress("Loading the model", 0.0)
        return Engine(
            path,
            backend=Backend.CPU(thread_count=values["threads"]),
            progress=progress,
            max_running=values["max_running"],
            max_waiting=values["max_queue"],
            generate_limits=GenerateLimits(
                max_logprobs=values["max_logprobs"],
                default_max_new_tokens=values["max_new_tokens_default"],
            ),
        )

    return load


def _announce(server: Server, options: ServerOptions) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    scheme = "http" if options.tls_cert is None else "https"
    ui.out(f"Serving {options.model_names[0]}")
    ui.out(f"gRPC {host}:{server.grpc_port}")
    ui.out(f"HTTP {scheme}://{host}:{server.http_port}")
    ui.flush()


def _is_our_own(error: ImportError) -> bool:
    """Whether a part of this package is missing: no extra brings it."""
    return (error.name or "").split(".")[0] == __name__.split(".")[0]


def _package(error: ImportError) -> str:
    """What pip calls the package of a module that is missing."""
    module = (error.name or "").split(".")[0]
    names = {"grpc_health": "grpcio-health-checking", "grpc": "grpcio"}
    names |= {"grpc_reflection": "grpcio-reflection"}
    return names.get(module, module.replace("_", "-") or "grpcio")
