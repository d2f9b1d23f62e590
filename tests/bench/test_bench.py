"""`litert-lm bench` on a toy, and what its tables hold."""

from __future__ import annotations

import csv
import io
import json
import types
from pathlib import Path
from typing import Any

import pytest

from litert_lm.bench.report import to_csv, to_json, to_markdown
from litert_lm.bench.runner import BenchOptions, BenchResult, Row, run_bench
from litert_lm.cli.main import main
from litert_lm.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def result(toy_llama_bundle: Path, cache_dir: Path) -> BenchResult:
    options = BenchOptions(
        prompt_lengths=(8, 16),
        decode_lengths=(4,),
        depths=(0, 20),
        repetitions=2,
        num_threads=1,
        cache_dir=str(cache_dir),
    )
    return run_bench(toy_llama_bundle, options)


def test_a_row_for_every_length_at_every_depth(result):
    names = [row.name for row in result.rows]
    assert names == ["pp8", "pp16", "tg4", "pp8 @ d20", "pp16 @ d20", "tg4 @ d20"]
    assert all(len(row.seconds) == 2 and row.median > 0 for row in result.rows)


def test_prefill_rows_know_the_time_to_the_first_token(result):
    prefill, decode = result.rows[0], result.rows[2]
    assert prefill.first_token_ms > 1e3 * min(prefill.seconds)
    assert decode.first_token_ms is None


def test_load_time_is_split(result):
    for load in result.loads:
        parts = load.hash_s + load.graph_s + load.read_s
        assert 0 < parts <= load.engine_s < load.total_s
        assert 0 < load.compile_s < load.first_token_s
        assert load.imports_s > 0 and load.tokenizer_s > 0
        assert load.num_threads == 1


def test_peak_memory_is_that_of_the_loading_process(result):
    for load in result.loads:
        assert 10e6 < load.load_rss_bytes <= load.peak_rss_bytes < 1e9


def test_a_step_is_split(result):
    steps = result.steps
    assert all(value > 0 for value in vars(steps).values())


def test_nothing_stays_wrapped(result):
    from litert_lm.executor.native import runtime
    from litert_lm.generate import answers, stream
    from litert_lm.sampling import sampler

    assert answers.make_sampler is sampler.make_sampler
    assert stream.OutputText.push.__name__ == "push"
    assert not isinstance(runtime.litert().run, types.FunctionType)


def test_statistics():
    row = Row(name="tg10", num_tokens=10, depth=0, seconds=(1.0, 2.0, 5.0))
    assert row.rates == [10.0, 5.0, 2.0]
    assert row.median == 5.0
    assert row.mean == pytest.approx(17 / 3)
    assert row.deviation == pytest.approx(4.041, abs=1e-3)


def test_markdown_names_machine_and_tests(result):
    text = to_markdown(result)
    assert result.machine.cpu in text
    assert "| pp8 @ d20 " in text
    assert "Python per decode step" in text


def test_json_is_plain(result):
    values: dict[str, Any] = json.loads(json.dumps(to_json(result)))
    assert values["rows"][0]["tokens_per_second_median"] > 0
    assert values["machine"]["num_cores"] >= 1


def test_csv_has_a_line_per_test(result):
    lines = list(csv.DictReader(io.StringIO(to_csv(result))))
    assert [line["test"] for line in lines] == [row.name for row in result.rows]
    assert float(lines[0]["tokens_per_second_median"]) > 0


def test_the_verb_prints_json(toy_llama_bundle, cache_dir, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir))
    arguments = ["-p", "8", "-n", "0", "-r", "1", "-t", "1", "-o", "json"]
    assert main(["bench", str(toy_llama_bundle), *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["name"] == "pp8"


def test_a_test_beyond_the_context_is_refused(toy_llama_bundle, cache_dir):
    options = BenchOptions(
        prompt_lengths=(126,),
        decode_lengths=(4,),
        depths=(1,),
        repetitions=1,
        cache_dir=str(cache_dir),
    )
    with pytest.raises(InvalidArgumentError, match="context of 129 tokens"):
        run_bench(toy_llama_bundle, options)


@pytest.mark.parametrize("arguments", [["-p", "0", "-n", "0"], ["-r", "0"]])
def test_nothing_to_measure(arguments, toy_llama_bundle, capsys):
    assert main(["bench", str(toy_llama_bundle), *arguments]) == 2
    assert "error:" in capsys.readouterr().err


def test_a_damaged_file_is_told(tmp_path, capsys):
    path = tmp_path / "x.litertlm"
    path.write_bytes(b"no bundle")
    assert main(["bench", str(path), "-t", "1"]) == 4
    assert "error:" in capsys.readouterr().err
