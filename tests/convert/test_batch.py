"""The signature that decodes a token of several sequences."""

from __future__ import annotations

import pytest

from litert_lm.convert import convert
from tests.convert.player import playing
from tests.convert.toys import Toy, write_folder


@pytest.fixture
def toy_bundle(tmp_path):
    path = tmp_path / "toy.litertlm"
    convert(write_folder(tmp_path / "toy", Toy()), path, weights="f32")
    return path


def test_every_sequence_brings_caches_and_a_mask(toy_bundle):
    with playing(toy_bundle) as player:
        one = {spec.name: spec for spec in player.signatures["decode"].inputs}
        four = {spec.name: spec for spec in player.signatures["decode_batch_4"].inputs}
    own = [name for name in one if name not in ("tokens", "input_pos")]
    names = {f"row_{row}_{name}": one[name].shape for row in range(4) for name in own}
    assert {n: four[n].shape for n in four if n.startswith("row_")} == names
    assert four["tokens"].shape == (1, 4)
    assert four["input_pos"].shape == (4,)


def test_all_logits_come_out(toy_bundle):
    with playing(toy_bundle) as player:
        outputs = player.signatures["decode_batch_4"].outputs
    shapes = {spec.name: spec.shape for spec in outputs}
    assert shapes["logits"] == (1, 4, 277)
    assert len(shapes) == 1 + 4 * 4
