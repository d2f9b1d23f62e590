"""`litert-lm show`: what is in a bundle, read from the file alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from litert_lm.cli import ui

if TYPE_CHECKING:
    from litert_lm.bundle import Bundle
    from litert_lm.bundle.tflite_types import Signature, Tensor

__all__ = ["add_parser", "run"]

_MAX_VALUE_CHARS = 100


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "show",
        help="show what is in a model file",
        description="Show a bundle's sections, metadata and signatures, and what is"
        " suspicious in it.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Describe one model."""
    from litert_lm.bundle import open_bundle
    from litert_lm.hub.resolve import resolve_model

    with ui.progress() as progress:
        path = resolve_model(args.model, progress=progress)
    with open_bundle(path) as bundle:
        description = _describe(bundle)
    description["model"] = _model(path)
    if args.json:
        ui.out_json(description)
    else:
        for line in _lines(description):
            ui.out(line)
    return 0


def _describe(bundle: Bundle) -> dict[str, Any]:
    """The bundle as plain values; `metadata` is None where it has none for an LLM."""
    metadata, findings = _metadata(bundle)
    version = ".".join(map(str, bundle.version)) if bundle.version else None
    return {
        "path": str(bundle.path),
        "size": bundle.path.stat().st_size,
        "format": bundle.format,
        "version": version,
        "sections": [
            {
                "index": section.index,
                "type": section.type_name,
                "model_type": section.model_type,
                "begin": section.begin,
                "end": section.end,
                "size": section.size,
                "items": dict(section.items),
            }
            for section in bundle.sections
        ],
        "metadata": metadata,
        "signatures": list(_signatures(bundle)),
        "lint": findings,
    }


def _model(path: Path) -> dict[str, Any]:
    """What the model is and can do."""
    from litert_lm.enums import LiteRtLmModality
    from litert_lm.model_info import ModelInfo

    info = ModelInfo(path)
    inputs = asdict(info.input_modalities)
    llm = info.llm
    return {
        "kind": info.model_type.name.lower(),
        "inputs": [name for name, is_taken in inputs.items() if is_taken],
        "max_context_tokens": info.max_context_tokens,
        "backends": info.supported_backends_for_modality(LiteRtLmModality.TEXT),
        "supports_thinking": llm is not None and llm.supports_thinking(),
        "supports_function_calling": llm is not None
        and llm.supports_function_calling(),
    }


def _metadata(bundle: Bundle) -> tuple[dict[str, Any] | None, list[dict[str, str]]]:
    from litert_lm.bundle import SectionType
    from litert_lm.bundle.lint import lint
    from litert_lm.bundle.metadata import resolve
    from litert_lm.chat.template import render
    from litert_lm.tokenizer import load_tokenizer

    if all(s.data_type != SectionType.LLM_METADATA for s in bundle.sections):
        return None, []
    stored = bundle.llm_metadata
    tokenizer = load_tokenizer(*bundle.tokenizer_section())
    config = resolve(stored, tokenizer)
    findings = lint(stored, config, tokenizer, render)
    return asdict(config), [asdict(finding) for finding in findings]


def _signatures(bundle: Bundle) -> Iterator[dict[str, Any]]:
    from litert_lm.bundle.tflite import read_tflite

    for role, section in bundle.models.items():
        model = read_tflite(bundle.read(section), f"{bundle.path}, {section}")
        for signature in model.signatures:
            yield _signature(role, signature)


def _signature(role: str, signature: Signature) -> dict[str, Any]:
    return {
        "model_type": role,
        "name": signature.key,
        "inputs": [_tensor(tensor) for tensor in signature.inputs],
        "outputs": [_tensor(tensor) for tensor in signature.outputs],
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "type": tensor.element_type.name,
        "shape": list(tensor.shape),
    }


def _lines(description: dict[str, Any]) -> Iterator[str]:
    """The description for people, one line each."""
    megabytes = description["size"] / 1e6
    version = description["version"] or ""
    kind = f"{description['format']} {version}".rstrip()
    yield f"{description['path']}  ({megabytes:.1f} MB, {kind})"
    yield from ("", "Sections")
    for section in description["sections"]:
        role = section["model_type"] or ""
        yield f"  {section['type']:24} {role:24} {section['size']:>12,} bytes"
    yield from ("", "Model")
    for name, value in description["model"].items():
        yield f"  {name:24} {_brief(value)}"
    if description["metadata"]:
        yield from ("", "Metadata")
        for name, value in description["metadata"].items():
            yield f"  {name:24} {_brief(value)}"
    yield from ("", "Signatures")
    for signature in description["signatures"]:
        num_in, num_out = len(signature["inputs"]), len(signature["outputs"])
        name = f"{signature['model_type']}/{signature['name']}"
        yield f"  {name:40} {num_in} inputs, {num_out} outputs"
    yield from ("", "Lint")
    for finding in description["lint"]:
        yield f"  {finding['code']}: {finding['message']}"
    if not description["lint"]:
        yield "  nothing suspicious"


def _brief(value: object) -> str:
    text = repr(value)
    if len(text) <= _MAX_VALUE_CHARS:
        return text
    return f"{text[:_MAX_VALUE_CHARS]}... ({len(text)} characters)"
