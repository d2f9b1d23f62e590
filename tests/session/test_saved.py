"""Sessions that are saved and loaded: they go on bit for bit, or are refused."""

from __future__ import annotations

import json
import os
import random

import numpy as np
import pytest

from litert_lm import SamplerConfig
from litert_lm.bundle import atomic
from litert_lm.errors import (
    InvalidArgumentError,
    LiteRtLmError,
    SavedStateError,
    SessionStateError,
    StorageError,
)
from tests.fixtures.hybrid_bundle import LAYOUTS

FIRST, LATER = [1, 20, 33, 7, 40, 11, 58, 9, 25], [12, 30, 3, 50, 17]


def said(session, prompt, count=20):
    response = session.generate(
        prompt, max_new_tokens=count, ignore_eos=True, output_logprobs=True
    )
    return response.outputs[0].token_ids, response.outputs[0].logprobs


GREEDY = SamplerConfig(temperature=0.0)


@pytest.fixture
def saved(llama, tmp_path):
    """A saved session of the toy llama, and its file."""
    session, path = llama.create_session(), tmp_path / "session.safetensors"
    said(session, FIRST)
    session.save(path)
    return session, path


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_a_loaded_session_goes_on_bit_for_bit(
    layout, open_engine, make_hybrid_bundle, tmp_path
):
    path = make_hybrid_bundle(**LAYOUTS[layout])
    session = open_engine(path).create_session()
    said(session, FIRST)
    session.save(tmp_path / "session")
    loaded = open_engine(path).load_session(tmp_path / "session")
    assert loaded.token_ids == session.token_ids
    assert said(loaded, LATER, 40) == said(session, LATER, 40)


def test_the_real_model_goes_on_bit_for_bit(open_engine, shared_dir, tmp_path):
    path = shared_dir / "bundles" / "smollm2-135m-int8.litertlm"
    session = open_engine(path).create_session(sampler_config=GREEDY)
    said(session, "The capital of France is")
    session.save(tmp_path / "session")
    loaded = open_engine(path).load_session(tmp_path / "session", sampler_config=GREEDY)
    assert said(loaded, " And of Spain?") == said(session, " And of Spain?")


def test_a_seeded_session_draws_on(open_engine, toy_llama_bundle, tmp_path):
    config = SamplerConfig(temperature=1.3, seed=5)
    session = open_engine(toy_llama_bundle).create_session(sampler_config=config)
    said(session, FIRST)
    session.save(tmp_path / "session")
    loaded = open_engine(toy_llama_bundle).load_session(
        tmp_path / "session", sampler_config=config
    )
    assert said(loaded, LATER) == said(session, LATER)


def test_texts_go_on_where_they_were(echoing, tmp_path):
    engine = echoing()
    session = engine.create_session()
    session.run_prefill(["hi"])
    session.save(tmp_path / "session")
    loaded = engine.load_session(tmp_path / "session")
    assert loaded.run_decode().texts == session.run_decode().texts
    loaded.rewind(0)
    loaded.run_prefill(["hi"])
    session.rewind(0)
    session.run_prefill(["hi"])
    assert loaded.token_ids == session.token_ids


def test_an_empty_session_can_be_saved(llama, tmp_path):
    llama.create_session().save(tmp_path / "session")
    loaded = llama.load_session(tmp_path / "session")
    assert said(loaded, FIRST) == said(llama.create_session(), FIRST)


def test_the_library_of_the_format_reads_the_file(saved):
    safetensors = pytest.importorskip("safetensors.numpy")
    session, path = saved
    tensors = safetensors.load_file(path)
    assert tuple(tensors["token_ids"]) == session.token_ids
    assert tensors["state.kv_cache_k_0"].dtype == np.float32
    assert 28 in tensors["state.kv_cache_k_0"].shape


def test_saving_again_replaces_the_file(saved, llama):
    session, path = saved
    said(session, LATER)
    session.save(str(path))
    assert llama.load_session(path).token_ids == session.token_ids
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_of_another_model(saved, open_engine, make_llama_bundle):
    other = open_engine(make_llama_bundle(max_num_tokens=100))
    with pytest.raises(SavedStateError, match="another model"):
        other.load_session(saved[1])


def test_a_longer_context_than_the_engine_has(saved, open_engine, toy_llama_bundle):
    engine = open_engine(toy_llama_bundle, max_num_tokens=20)
    with pytest.raises(SavedStateError, match=r"29 tokens.*20"):
        engine.load_session(saved[1])


@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.5, 0.9, 0.9999])
def test_a_cut_file(saved, llama, part):
    data = saved[1].read_bytes()
    saved[1].write_bytes(data[: int(len(data) * part)])
    with pytest.raises(SavedStateError, match="damaged"):
        llama.load_session(saved[1])


def test_any_altered_byte_is_noticed(saved, llama):
    data, chance = saved[1].read_bytes(), random.Random(3)
    length = int.from_bytes(data[:8], "little")
    blanks = len(data[8 : 8 + length]) - len(data[8 : 8 + length].rstrip())
    places = [chance.randrange(length + 8 - blanks) for _ in range(150)]
    places += [chance.randrange(length + 8, len(data)) for _ in range(50)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        saved[1].write_bytes(damaged)
        with pytest.raises(SavedStateError):
            llama.load_session(saved[1])


def changed(path, change):
    """Rewrite the header by `change` and leave all else."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def setting(*keys):
    """setting(*path, value): a change of a header."""
    *path, last, value = keys

    def change(header):
        place = header
        for key in path:
            place = place[key]
        place[last] = value

    return change


META, K = "__metadata__", "state.kv_cache_k_0"


@pytest.mark.parametrize(
    "change",
    [
        setting(META, "version", "2"),
        setting(META, "format", "pt"),
        setting(META, "num_stored", "-1"),
        setting(META, "num_stored", "99999999999999"),
        setting(META, "num_stored", "9" * 5000),
        setting(META, "num_stored", 3),
        setting(META, "cache_length", "100000000"),
        setting(META, "cache_length", "-1"),
        setting(META, "cache_reserved", "1000000000"),
        setting(META, "turns", "[[0, 1]]"),
        setting(META, []),
        setting(K, "dtype", "F16"),
        setting(K, "dtype", ["F32"]),
        setting(K, "shape", [1 << 40, 1 << 40]),
        setting(K, "shape", [1, 2]),
        setting(K, "data_offsets", [0, 1 << 62]),
        setting(K, "data_offsets", [-4, 4]),
        setting(K, None),
        setting("token_ids", "shape", [1 << 50]),
        setting("token_ids", "shape", [[1]]),
        setting("token_ids", None),
        setting("more", {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}),
    ],
)
def test_absurd_headers(saved, llama, change):
    changed(saved[1], change)
    with pytest.raises(SavedStateError, match="session"):
        llama.load_session(saved[1])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (60000).to_bytes(8, "little") + b"[" * 60000,
    ],
)
def test_files_that_are_no_sessions(llama, tmp_path, data):
    path = tmp_path / "session"
    path.write_bytes(data)
    with pytest.raises(SavedStateError, match="session"):
        llama.load_session(path)


def test_things_that_are_no_files(llama, tmp_path):
    with pytest.raises(StorageError, match="gone"):
        llama.load_session(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(LiteRtLmError):
            llama.load_session(path)
        with pytest.raises(StorageError):
            llama.create_session().save(path)


@pytest.mark.parametrize("path", ["", "a\0b", None, 3, b"x", "\ud800"])
def test_wrong_paths(llama, path):
    with pytest.raises(InvalidArgumentError, match="path"):
        llama.load_session(path)
    with pytest.raises(InvalidArgumentError, match="path"):
        llama.create_session().save(path)


def test_a_name_that_is_too_long(llama, tmp_path):
    for use in (llama.load_session, llama.create_session().save):
        with pytest.raises(StorageError, match="too long"):
            use(tmp_path / ("x" * 300))


def test_ctrl_c_as_the_file_is_made_leaves_nothing(saved, monkeypatch):
    session, path = saved
    make = os.open

    def interrupted(*args):
        os.close(make(*args))
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.save(path)
    monkeypatch.undo()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_full_disk_leaves_what_was_there(saved, llama, monkeypatch):
    session, path = saved
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "write", full)
    with pytest.raises(StorageError, match="No space"):
        session.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    said(session, LATER)


def test_a_session_that_was_not_loaded_takes_no_place(saved, llama):
    saved[1].write_bytes(saved[1].read_bytes()[:-1])
    with pytest.raises(SavedStateError):
        llama.load_session(saved[1])
    assert said(llama.create_session(), FIRST)[0]


def test_closed_sessions_cannot_be_saved(saved):
    session, path = saved
    session.close()
    with pytest.raises(SessionStateError, match="closed"):
        session.save(path)


def test_nan_in_a_file_with_right_checks_is_read_as_it_is(saved, llama):
    """Whoever can compute the checksum may say what he likes; nothing breaks."""
    session, _ = saved
    cache = session._sequence.cache
    cache.array("kv_cache_k_0")[...] = np.nan
    session.save(saved[1])
    loaded = llama.load_session(saved[1])
    with pytest.raises(LiteRtLmError):
        said(loaded, LATER)
