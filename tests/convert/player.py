"""Runs the signatures of a converted bundle, chosen by hand."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from litert_lm.bundle.open import open_bundle
from litert_lm.executor.native.compiled_model import (
    CompiledModel,
    CompileOptions,
    RunCall,
)
from litert_lm.executor.native.loaded_model import LoadedModel
from litert_lm.executor.native.tensors import TensorBuffer, allocate

MASKED = np.float32(-0.7 * np.finfo(np.float32).max)


class Player:
    """One sequence of a converted model; its caches are as long as `start` says."""

    def __init__(self, data, cache, *, keys=None, threads=1):
        options = CompileOptions(
            num_threads=threads,
            weight_cache=str(cache),
            signatures=None if keys is None else tuple(keys),
        )
        self.compiled = CompiledModel(LoadedModel(data), options)
        self.signatures = self.compiled.signatures

    def start(self, length):
        """Begin anew with empty caches of `length` steps."""
        self.length = length
        self.position = 0
        self.steps = {}
        self.caches = {
            spec.name: TensorBuffer(allocate(self._resized(spec), spec.dtype))
            for spec in self.signatures["decode"].inputs
            if spec.name.startswith("kv_cache_")
        }

    def _resized(self, spec):
        sizes = list(spec.shape)
        sizes[2 if spec.name.startswith("kv_cache_k_") else 3] = self.length
        return tuple(sizes)

    def _step(self, key):
        if key in self.steps:
            return self.steps[key]
        signature = self.compiled.signatures[key]
        for spec in signature.inputs:
            if spec.name == "mask" or spec.name in self.caches:
                self.compiled.resize_input(key, spec.name, self._resized(spec))
        shapes = dict(self.compiled.input_shapes(key))
        new = {
            spec.name: TensorBuffer(allocate(shapes[spec.name], spec.dtype))
            for spec in signature.inputs
            if spec.name not in self.caches
        }
        outputs = {
            spec.name: TensorBuffer(allocate(spec.shape, spec.dtype))
            for spec in signature.outputs
            if spec.name not in self.caches
        }
        call = RunCall(self.compiled, key, self.caches | new, self.caches | outputs)
        self.steps[key] = call, new, outputs
        return self.steps[key]

    def feed(self, key, ids):
        """Run `ids` through signature `key`: logits f32[len(ids), V], or None."""
        call, inputs, outputs = self._step(key)
        count = len(ids)
        assert self.position + inputs["tokens"].array.shape[1] <= self.length
        for name in ("tokens", "input_pos"):
            inputs[name].array.fill(0)
        inputs["tokens"].array[0, :count] = ids
        inputs["input_pos"].array[:count] = self.position + np.arange(count)
        mask = inputs["mask"].array
        mask.fill(MASKED)
        for row in range(count):
            mask[0, 0, row, : self.position + row + 1] = 0
        call()
        self.position += count
        return outputs["logits"].array[0, :count].copy() if outputs else None

    def prefill(self, ids):
        """Fill the caches in chunks of 128 and 32."""
        done = 0
        while done < len(ids):
            left = len(ids) - done
            size = 128 if left >= 128 and "prefill_128" in self.signatures else 32
            self.feed(f"prefill_{size}", ids[done : done + size])
            done += size


@contextmanager
def playing(path, **options):
    """A player of the bundle at `path`, closed at the end."""
    with open_bundle(path) as bundle:
        data = bundle.read(bundle.models["prefill_decode"])
        player = Player(data, path.with_suffix(".cache"), **options)
        try:
            yield player
        finally:
            player.compiled.close()
