"""Reads a layout: which signatures of which models make up one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from litert_lm.bundle.tflite import Signature, Tensor, TfliteModel
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout import ModelLayout, Step
from litert_lm.executor.signatures import (
    Call,
    Feed,
    Role,
    batch_size,
    classify,
    input_length,
)
from litert_lm.executor.state_reader import StateReader, Updates

__all__ = ["MAIN", "read_layout"]

MAIN = "prefill_decode"
_AUXILIARY = "aux"
_EMBEDDERS = {Role.EMBEDDINGS: "embedder", Role.LAYER_EMBEDDINGS: "per_layer_embedder"}


def read_layout(
    models: Mapping[str, TfliteModel], updates: Updates, metadata: Any = None
) -> ModelLayout:
    """The layout of a bundle's models.

    Args:
        models: model type -> model; "prefill_decode" is required.
        updates: what `read_updates` gives for these models.
        metadata: LlmExecutorMetadata of the bundle, or None.

    Raises:
        UnsupportedModelError: no decode step can be made; says why.
    """
    if MAIN not in models:
        raise UnsupportedModelError(
            f"The bundle has no {MAIN} model, only {', '.join(models) or 'none'}; "
            "use a bundle of a text generation model."
        )
    reader = _Reader(models, updates, metadata)
    steps, skipped = [], {}
    for signature in models[MAIN].signatures:
        try:
            steps.append(reader.step(signature))
        except UnsupportedModelError as error:
            skipped[signature.key] = str(error)
    return _assemble(steps, reader, skipped)


def _assemble(
    steps: list[Step], reader: _Reader, skipped: Mapping[str, str]
) -> ModelLayout:
    ordered = sorted(steps, key=lambda step: (step.length, step.context))
    decode = [step for step in ordered if step.length == 1 and step.logits]
    verify = [s for s in ordered if s.length > 1 and s.num_logits == s.length]
    if not decode:
        reasons = "; ".join(f"{key}: {why}" for key, why in skipped.items())
        raise UnsupportedModelError(
            "The model has no signature that decodes one token to logits. "
            f"{reasons or 'Export it with a decode signature.'}"
        )
    longest = max(decode, key=lambda step: step.context)
    alien = {s.key for s in ordered if s.shapes.keys() != longest.shapes.keys()}
    skipped = {**skipped, **dict.fromkeys(alien, "it has other states than decoding")}
    usable = [step for step in ordered if step.key not in alien]
    return ModelLayout(
        states=reader.state.states(longest, max(step.batch for step in usable)),
        decode=tuple(s for s in usable if s in decode),
        prefill=tuple(s for s in usable if s not in decode and s not in verify),
        verify=tuple(s for s in usable if s in verify),
        context_length=longest.context,
        vocab_size=reader.vocab_size(longest),
        skipped=skipped,
    )


class _Reader:
    """Reads steps; holds what all steps of a model share."""

    def __init__(
        self, models: Mapping[str, TfliteModel], updates: Updates, metadata: Any
    ) -> None:
        self.models = models
        self.updates = updates
        self.state = StateReader(models, updates, metadata)
        self.all_signatures = self.state.all_signatures

    def step(self, signature: Signature) -> Step:
        """The step around one signature of the main model."""
        if signature.key.startswith("test_"):
            raise UnsupportedModelError("a copy for the exporter's own tests")
        length = input_length(signature, self.state.names)
        if length is None:
            raise UnsupportedModelError("no input tells how many tokens it takes")
        batch = batch_size(signature, length, self.state.names)
        calls: list[Call] = []
        main = self._call(MAIN, signature, length, calls)
        calls.append(main)
        position = len(calls) - 1
        logits = self._logits(signature, main)
        self._append_updates(signature, length, calls, position)
        self._check_written(signature, calls)
        shapes = {
            tensor.name: tensor.shape
            for tensor in signature.inputs
            if tensor.name in self.state.names
        }
        return Step(
            key=signature.key,
            length=length,
            context=self.state.context(shapes),
            calls=tuple(calls),
            main=position,
            logits=None if logits is None else logits.name,
            num_logits=0 if logits is None else _num_logits(logits),
            shapes=shapes,
            batch=batch,
        )

    def _call(
        self, kind: str, signature: Signature, length: int, calls: list[Call]
    ) -> Call:
        """A call; the calls that make its inputs are appended to `calls` first."""
        batch = batch_size(signature, length, self.state.names)
        feeds, links, states = [], {}, {}
        for tensor in signature.inputs:
            if tensor.name in self.state.names:
                states[tensor.name] = tensor.name
                continue
            link = self._link(kind, tensor, length, calls)
            if link is not None:
                links[tensor.name] = link
                continue
            feed = self._feed(_one_of(batch, tensor), length, signature)
            repeats = batch if feed.shape != tensor.shape else 1
            feeds.append(replace(feed, shape=tensor.shape, batch=repeats))
        outputs = self.state.state_outputs(kind, signature)
        updates = self.updates[kind, signature.key]
        in_place = {
            state
            for name, state in outputs.items()
            if name in updates
            and updates[name].in_place
            and updates[name].source == state
        }
        return Call(
            model=kind,
            key=signature.key,
            feeds=tuple(feeds),
            links=links,
            states_in=states,
            states_out=outputs,
            in_place=frozenset(in_place),
        )

    def _link(
        self, kind: str, tensor: Tensor, length: int, calls: list[Call]
    ) -> tuple[int, str] | None:
        """Where an input comes from, when another model makes it."""
        if kind != MAIN:
            return None
        for source, signature, output in self._producers(tensor, length):
            for position, call in enumerate(calls):
                if (call.model, call.key) == (source, signature.key):
                    return position, output.name
            per_token = output.shape != tensor.shape
            inner = self._call(source, signature, 1 if per_token else length, calls)
            calls.append(_per_token(inner) if per_token else inner)
            return len(calls) - 1, output.name
        return None

    def _producers(
        self, tensor: Tensor, length: int
    ) -> Iterator[tuple[str, Signature, Tensor]]:
        embedder = _EMBEDDERS.get(classify(tensor, length))
        wanted = [tensor.shape]
        if embedder is not None and length > 1:
            wanted.append((1, 1, *tensor.shape[2:]))
        for shape in wanted:
            for kind, signature in self.all_signatures:
                for output in signature.outputs:
                    named = kind == _AUXILIARY and output.name == tensor.name
                    if not (named or kind == embedder):
                        continue
                    if output.shape == shape and output.type_code == tensor.type_code:
                        yield kind, signature, output

    def _feed(self, tensor: Tensor, length: int, signature: Signature) -> Feed:
        feed = _plain_feed(tensor, length)
        if feed.role is not Role.LOCAL_MASK:
            return feed
        ring = self.state.ring(signature)
        window = self.state.window or ring
        if not window:
            raise UnsupportedModelError(
                f"input {tensor.name!r} masks a sliding window, and the bundle's "
                "executor metadata does not say how many tokens that is"
            )
        return replace(feed, window=window, ring=ring)

    def _logits(self, signature: Signature, call: Call) -> Tensor | None:
        rest = [t for t in signature.outputs if t.name not in call.states_out]
        named = [tensor for tensor in rest if tensor.name == "logits"]
        for tensor in named:
            if not tensor.shape or tensor.element_type.name != "float32":
                raise UnsupportedModelError(
                    f"output 'logits' is {tensor.element_type.name}"
                    f"{list(tensor.shape)}, and a float32 vector is needed"
                )
        taken = self._slice_names()
        others = [t for t in rest if t.name not in taken and len(t.shape) in (2, 3)]
        return next(iter(named or others), None)

    def _slice_names(self) -> frozenset[str]:
        """Inputs of auxiliary models: what the main model hands on to them."""
        return frozenset(
            tensor.name
            for kind, signature in self.all_signatures
            if kind == _AUXILIARY
            for tensor in signature.inputs
        )

    def _append_updates(
        self, signature: Signature, length: int, calls: list[Call], main: int
    ) -> None:
        """The call that writes the main model's new cache slices into the states."""
        made = {tensor.name: tensor.shape for tensor in signature.outputs}
        caches = {tensor.name: tensor.shape for tensor in signature.inputs}
        for kind, other in self.all_signatures:
            slices = [
                tensor.name
                for tensor in other.inputs
                if kind == _AUXILIARY and made.get(tensor.name) == tensor.shape
            ]
            fits = all(caches.get(t.name, t.shape) == t.shape for t in other.inputs)
            if slices and fits and self.state.state_outputs(kind, other):
                call = self._update_call(kind, other, length, slices, main)
                calls.append(call)
                return

    def _update_call(
        self, kind: str, other: Signature, length: int, slices: list[str], main: int
    ) -> Call:
        call = self._call(kind, _without(other, slices), length, [])
        links = {name: (main, name) for name in slices}
        return Call(
            model=kind,
            key=other.key,
            feeds=call.feeds,
            links=links,
            states_in=call.states_in,
            states_out=call.states_out,
            in_place=call.in_place,
        )

    def _check_written(self, signature: Signature, calls: list[Call]) -> None:
        read = {name for call in calls for name in call.states_in}
        written = {name for call in calls for name in call.states_out.values()}
        if read - written:
            raise UnsupportedModelError(
                f"nothing updates the states {', '.join(sorted(read - written))}"
            )

    def vocab_size(self, step: Step) -> int:
        """Number of logits of a decode step."""
        outputs = [
            tensor.shape[-1]
            for signature in self.models[MAIN].signatures
            for tensor in signature.outputs
            if signature.key == step.key and tensor.name == step.logits
        ]
        return outputs[0]


def _plain_feed(tensor: Tensor, length: int) -> Feed:
    role = classify(tensor, length)
    if role is Role.UNKNOWN:
        raise UnsupportedModelError(
            f"input {tensor.name!r} {tensor.element_type.name}{list(tensor.shape)} has "
            "no known meaning"
        )
    if role in _EMBEDDERS:
        raise UnsupportedModelError(
            f"input {tensor.name!r} takes embeddings {list(tensor.shape)}, and the "
            f"bundle has no {_EMBEDDERS[role]} that makes them"
        )
    return Feed(tensor.name, role, tensor.shape, tensor.dtype)


def _one_of(batch: int, tensor: Tensor) -> Tensor:
    """An input as it would be for a batch of one."""
    if batch > 1 and len(tensor.shape) > 1 and tensor.shape[0] == batch:
        return tensor._replace(shape=(1, *tensor.shape[1:]))
    return tensor


def _num_logits(logits: Tensor) -> int:
    return logits.shape[-2] if len(logits.shape) > 2 else 1


def _per_token(call: Call) -> Call:
    return Call(model=call.model, key=call.key, feeds=call.feeds, per_token=True)


def _without(signature: Signature, names: list[str]) -> Signature:
    inputs = tuple(t for t in signature.inputs if t.name not in names)
    return Signature(signature.key, signature.subgraph, inputs, signature.outputs)
