"""Reads a layout: which signatures of which models make up one step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from litert_lm.bundle.tflite import Signature, Tensor, TfliteModel
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout import ModelLayout, State, Step
from litert_lm.executor.signatures import Call, Feed, Role, classify, input_length
from litert_lm.executor.state_updates import StateUpdate, state_updates

__all__ = ["MAIN", "Updates", "read_layout", "read_updates"]

MAIN = "prefill_decode"
_AUXILIARY = "aux"
_EMBEDDERS = {Role.EMBEDDINGS: "embedder", Role.LAYER_EMBEDDINGS: "per_layer_embedder"}
# The exporter's names of convolution and linear-attention states, which have no
# token axis even where a dimension happens to equal the context.
_RECURRENT_NAME = re.compile(r"_[cr]_\d+$")
_LINEAR_ATTENTION = 5
_LOCAL_TYPES = (3, 4)

Updates = Mapping[tuple[str, str], Mapping[str, StateUpdate]]


def read_updates(models: Mapping[str, TfliteModel]) -> Updates:
    """State updates of every signature, by model type and key.

    Reads all operators: the slow part of reading a layout, worth remembering.
    """
    return {
        (kind, signature.key): state_updates(model, signature)
        for kind, model in models.items()
        for signature in model.signatures
    }


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
    return ModelLayout(
        states=reader.states(longest),
        decode=tuple(decode),
        prefill=tuple(s for s in ordered if s not in decode and s not in verify),
        verify=tuple(verify),
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
        buffers = () if metadata is None else metadata.state_buffers
        self.declared = dict(_declared(buffers))
        self.window = 0
        if metadata is not None:
            self.window = metadata.attention_mask_settings.sliding_window_size
        self.renamed = dict(_renamed(buffers))
        self.all_signatures = [
            (kind, signature)
            for kind, model in models.items()
            for signature in model.signatures
        ]
        self.state_names = frozenset(
            name
            for kind, signature in self.all_signatures
            for name in self.state_outputs(kind, signature).values()
        )
        self.axes = {name: self._axis(name) for name in self.state_names}

    def state_outputs(self, kind: str, signature: Signature) -> dict[str, str]:
        """Output name -> the state it updates, by declaration, graph or equal name."""
        inputs = {tensor.name: tensor for tensor in signature.inputs}
        updates = self.updates[kind, signature.key]
        states = {}
        for output in signature.outputs:
            update = updates.get(output.name)
            names = (
                self.renamed.get(output.name),
                output.name,
                update.source if update else None,
            )
            source = next((name for name in names if name in inputs), None)
            if source is not None and _same_kind(inputs[source], output):
                states[output.name] = source
        return states

    def step(self, signature: Signature) -> Step:
        """The step around one signature of the main model."""
        if signature.key.startswith("test_"):
            raise UnsupportedModelError("a copy for the exporter's own tests")
        length = input_length(signature, self.state_names)
        if length is None:
            raise UnsupportedModelError("no input tells how many tokens it takes")
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
            if tensor.name in self.state_names
        }
        return Step(
            key=signature.key,
            length=length,
            context=self._context(shapes),
            calls=tuple(calls),
            main=position,
            logits=None if logits is None else logits.name,
            num_logits=0 if logits is None else _num_logits(logits),
            shapes=shapes,
        )

    def _call(
        self, kind: str, signature: Signature, length: int, calls: list[Call]
    ) -> Call:
        """A call; the calls that make its inputs are appended to `calls` first."""
        feeds, links, states = [], {}, {}
        for tensor in signature.inputs:
            if tensor.name in self.state_names:
                states[tensor.name] = tensor.name
                continue
            link = self._link(kind, tensor, length, calls)
            if link is not None:
                links[tensor.name] = link
                continue
            feeds.append(self._feed(tensor, length, signature))
        outputs = self.state_outputs(kind, signature)
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
        shapes = {t.name: t.shape for t in signature.inputs if t.name in self.axes}
        context = self._context(shapes)
        rings = {
            shape[axis]
            for name, shape in shapes.items()
            if (axis := self.axes[name]) is not None
            and self._is_local(name, shape, context)
        }
        ring = max(rings, default=0)
        window = self.window or ring
        if not window:
            raise UnsupportedModelError(
                f"input {tensor.name!r} masks a sliding window, and the bundle's "
                "executor metadata does not say how many tokens that is"
            )
        return replace(feed, window=window, ring=ring)

    def _logits(self, signature: Signature, call: Call) -> Tensor | None:
        rest = [t for t in signature.outputs if t.name not in call.states_out]
        named = [tensor for tensor in rest if tensor.name == "logits"]
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
        for kind, other in self.all_signatures:
            slices = [
                tensor.name
                for tensor in other.inputs
                if kind == _AUXILIARY and made.get(tensor.name) == tensor.shape
            ]
            if slices and self.state_outputs(kind, other):
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

    def _context(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        sizes = [
            shape[axis]
            for name, shape in shapes.items()
            if (axis := self.axes[name]) is not None
            and not self._is_declared_local(name)
        ]
        return max(sizes, default=0)

    def states(self, step: Step) -> dict[str, State]:
        """The states by name, shaped as in `step`."""
        dtypes = {
            tensor.name: tensor.dtype
            for _, signature in self.all_signatures
            for tensor in signature.inputs
            if tensor.name in step.shapes
        }
        return {
            name: State(
                name=name,
                shape=shape,
                dtype=dtypes[name],
                axis=self.axes[name],
                is_local=self._is_local(name, shape, step.context),
            )
            for name, shape in step.shapes.items()
        }

    def vocab_size(self, step: Step) -> int:
        """Number of logits of a decode step."""
        outputs = [
            tensor.shape[-1]
            for signature in self.models[MAIN].signatures
            for tensor in signature.outputs
            if signature.key == step.key and tensor.name == step.logits
        ]
        return outputs[0]

    def _is_local(self, name: str, shape: tuple[int, ...], context: int) -> bool:
        axis = self.axes[name]
        if axis is None:
            return False
        return self._is_declared_local(name) or shape[axis] < context

    def _is_declared_local(self, name: str) -> bool:
        buffer = self.declared.get(name)
        return buffer is not None and buffer.type in _LOCAL_TYPES

    def _axis(self, name: str) -> int | None:
        """The token axis: declared, else by the graph, else by comparing shapes."""
        buffer = self.declared.get(name)
        if buffer is not None and buffer.type == _LINEAR_ATTENTION:
            return None
        if buffer is not None and buffer.sequence_axis > 0:
            return int(buffer.sequence_axis)
        for updates in self.updates.values():
            for update in updates.values():
                if update.source == name and update.axis is not None:
                    return update.axis
        return self._compared_axis(name)

    def _compared_axis(self, name: str) -> int | None:
        if _RECURRENT_NAME.search(name):
            return None
        shapes, widths = set(), set()
        for _, signature in self.all_signatures:
            tensors = {tensor.name: tensor for tensor in signature.inputs}
            if name in tensors:
                shapes.add(tensors[name].shape)
                widths |= {t.shape[-1] for t in tensors.values() if "mask" in t.name}
        dims = list(zip(*shapes, strict=False))
        differing = [i for i, sizes in enumerate(dims) if len(set(sizes)) > 1]
        if not differing:
            differing = [i for i, sizes in enumerate(dims) if sizes[0] in widths]
        return differing[0] if len(differing) == 1 else None


def _declared(buffers: Any) -> Iterator[tuple[str, Any]]:
    for buffer in buffers:
        yield buffer.prefill_input_name, buffer
        yield buffer.decode_input_name, buffer


def _renamed(buffers: Any) -> Iterator[tuple[str, str]]:
    for buffer in buffers:
        yield buffer.prefill_output_name, buffer.prefill_input_name
        yield buffer.decode_output_name, buffer.decode_input_name


def _same_kind(source: Tensor, output: Tensor) -> bool:
    return source.type_code == output.type_code and source.shape == output.shape


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


def _num_logits(logits: Tensor) -> int:
    return logits.shape[-2] if len(logits.shape) > 2 else 1


def _per_token(call: Call) -> Call:
    return Call(model=call.model, key=call.key, feeds=call.feeds, per_token=True)


def _without(signature: Signature, names: list[str]) -> Signature:
    inputs = tuple(t for t in signature.inputs if t.name not in names)
    return Signature(signature.key, signature.subgraph, inputs, signature.outputs)
