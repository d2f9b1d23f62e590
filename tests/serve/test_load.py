"""Ten seconds of many clients, a third of whose requests are cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.load.clients import Load, Report
from tests.load.process import ServerProcess


def test_no_answer_is_lost_or_mixed(model_path: Path) -> None:
    with ServerProcess(str(model_path), max_running=4) as server:
        load = Load(server, num_clients=32, seconds=10, warm_up=0.4, seed=1)
        report = asyncio.run(load.run())
    assert not report.faults(), list(report.lines())
    assert min(report.counts["done"], report.counts["cancelled"]) > 50


def report_of(*served: tuple[float, float]) -> Report:
    return Report(served=list(served))


def test_the_report_sees_who_was_overtaken() -> None:
    assert report_of((0, 1), (2, 3), (2.1, 2.9)).num_overtaken == 0
    assert report_of((0, 5), (2, 3), (6, 7)).num_overtaken == 1


def test_the_report_sees_growth() -> None:
    flat = [(float(n), 1000) for n in range(40)]
    grown = [(float(n), 1000 + 5 * n) for n in range(40)]
    assert Report(rss_kib=flat, warm_s=10).growth == 0
    assert "memory" in "".join(Report(rss_kib=grown, warm_s=10).faults())
