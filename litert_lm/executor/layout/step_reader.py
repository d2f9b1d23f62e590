"""Reads steps: which calls of which models make up one pass over some tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from litert_lm.bundle.tflite import Signature, Tensor, TfliteModel
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout.checks import (
    check_batch,
    check_fixed,
    check_mask,
    described,
    is_cache,
    unknown_input,
)
from litert_lm.executor.layout.layout import State, Step, state_shape
from litert_lm.executor.layout.signatures import (
    MASKS,
    Call,
    Feed,
    Role,
    batch_size,
    classify,
    input_length,
)
from litert_lm.executor.layout.state_reader import StateReader, Updates

__all__ = ["MAIN", "StepReader"]

MAIN = "prefill_decode"
_AUXILIARY = "aux"
_EMBEDDERS = {Role.EMBEDDINGS: "embedder", Role.LAYER_EMBEDDINGS: "per_layer_embedder"}


class StepReader:
    """Reads steps; holds what all steps of a model share.

    Args:
        models: model type -> model.
        updates: what `read_updates` gives for these models.
        metadata: LlmExecutorMetadata of the bundle, or None.
    """

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
            raise UnsupportedModelError(
                "no input tells how many tokens it takes, such as token ids int32[1, L]"
            )
        check_fixed(signature)
        calls: list[Call] = []
        main = self._call(MAIN, signature, length, calls)
        calls.append(main)
        position = len(calls) - 1
        logits = self._logits(signature, main)
        self._append_updates(signature, length, calls, position)
        self._check_written(signature, calls)
        states = self.state.inputs(signature)
        shapes = {name: tensor.shape for name, tensor in states.items()}
        batch = batch_size(signature, length, self.state.names)
        check_batch(batch, states.values(), logits)
        masks = [feed.shape[-1] for feed in main.feeds if feed.role is Role.MASK]
        return Step(
            key=signature.key,
            length=length,
            context=self.state.context(shapes) or max(masks, default=0),
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
            feeds.append(self._own_feed(tensor, batch, length, signature))
        outputs = self.state.state_outputs(kind, signature)
        return Call(
            model=kind,
            key=signature.key,
            feeds=tuple(feeds),
            links=links,
            states_in=states,
            states_out=outputs,
            in_place=self._in_place(kind, signature, outputs),
        )

    def _own_feed(
        self, tensor: Tensor, batch: int, length: int, signature: Signature
    ) -> Feed:
        """How the host fills an input, the same for each sequence of a batch."""
        feed = self._feed(_one_of(batch, tensor), length, signature)
        repeats = batch if feed.shape != tensor.shape else 1
        feed = replace(feed, shape=tensor.shape, batch=repeats)
        if feed.role in MASKS:
            check_mask(feed, length, self.state.mask_width(signature))
        return feed

    def _in_place(
        self, kind: str, signature: Signature, outputs: Mapping[str, str]
    ) -> frozenset[str]:
        """The states that a call may update where they are, of those it puts out."""
        updates = self.updates[kind, signature.key]
        return frozenset(
            state
            for name, state in outputs.items()
            if name in updates
            and updates[name].in_place
            and updates[name].source == state
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
        feed = _plain_feed(tensor, length, signature.outputs)
        if feed.role is not Role.LOCAL_MASK:
            return feed
        ring = self.state.ring(signature)
        window = self.state.window or ring
        if not window:
            raise UnsupportedModelError(
                f"input {described(tensor)} masks a sliding window, and the bundle has "
                "no executor metadata that tells its sliding_window_size"
            )
        return replace(feed, window=window, ring=ring)

    def _logits(self, signature: Signature, call: Call) -> Tensor | None:
        rest = [t for t in signature.outputs if t.name not in call.states_out]
        named = [tensor for tensor in rest if tensor.name == "logits"]
        for tensor in named:
            if not _is_vector(tensor):
                raise UnsupportedModelError(
                    f"output {described(tensor)} must be a vector, float32[1, 1, V]"
                )
        taken = self._slice_names()
        others = [
            tensor
            for tensor in rest
            if tensor.name not in taken
            and len(tensor.shape) in (2, 3)
            and _is_vector(tensor)
        ]
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
        states = self.state.inputs(signature)
        for call in calls:
            for name in (*call.states_in.values(), *call.states_out.values()):
                if name not in states:
                    raise UnsupportedModelError(
                        f"the {call.model} model's {call.key!r} keeps a state {name!r} "
                        "that is no input here; export both together"
                    )
        written = {name for call in calls for name in call.states_out.values()}
        for name, tensor in states.items():
            if name not in written:
                raise UnsupportedModelError(
                    f"nothing updates the state {described(tensor)}; it must be an "
                    "output as well, or be written by an auxiliary model"
                )

    def vocab_size(self, step: Step) -> int:
        """Number of logits of a decode step."""
        outputs = self._main(step).outputs
        return next(t.shape[-1] for t in outputs if t.name == step.logits)

    def states(self, decode: Step, batch: int) -> dict[str, State]:
        """The states by name, shaped as in `decode` but for `batch` sequences."""
        tensors = self.state.inputs(self._main(decode))
        return self.state.states(tensors, decode.context, batch)

    def alien(self, step: Step, states: Mapping[str, State]) -> str | None:
        """How a step's states differ from those of decoding; None if they do not."""
        found = self.state.inputs(self._main(step))
        if found.keys() != states.keys():
            return "it has other states than decoding"
        for name, state in states.items():
            wanted = state_shape(state, step.context, step.batch)
            if found[name].shape != wanted or found[name].dtype != state.dtype:
                return (
                    f"its state {described(found[name])} is not {state.dtype}"
                    f"{list(wanted)} as for decoding"
                )
        return None

    def _main(self, step: Step) -> Signature:
        signatures = self.models[MAIN].signatures
        return next(s for s in signatures if s.key == step.key)


def _plain_feed(tensor: Tensor, length: int, outputs: Sequence[Tensor]) -> Feed:
    role = classify(tensor, length)
    if role is Role.UNKNOWN or (role is Role.MASK and is_cache(tensor)):
        raise UnsupportedModelError(unknown_input(tensor, length, outputs))
    if role in _EMBEDDERS:
        raise UnsupportedModelError(
            f"input {described(tensor)} comes from another model, and the bundle has "
            f"no {_EMBEDDERS[role]} with such an output; use a bundle that has one"
        )
    return Feed(tensor.name, role, tensor.shape, tensor.dtype)


def _one_of(batch: int, tensor: Tensor) -> Tensor:
    """An input as it would be for a batch of one."""
    if batch > 1 and len(tensor.shape) > 1 and tensor.shape[0] == batch:
        return tensor._replace(shape=(1, *tensor.shape[1:]))
    return tensor


def _is_vector(tensor: Tensor) -> bool:
    return bool(tensor.shape) and tensor.element_type.name == "float32"


def _num_logits(logits: Tensor) -> int:
    return logits.shape[-2] if len(logits.shape) > 2 else 1


def _per_token(call: Call) -> Call:
    return Call(model=call.model, key=call.key, feeds=call.feeds, per_token=True)


def _without(signature: Signature, names: list[str]) -> Signature:
    inputs = tuple(t for t in signature.inputs if t.name not in names)
    return Signature(signature.key, signature.subgraph, inputs, signature.outputs)
