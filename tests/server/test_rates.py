"""Rates over the last seconds."""

from __future__ import annotations

import pytest

from etl.receipts import Counts
from etl.server.rates import Rates
from etl.spark.reports.totals import Totals


def test_rates_go_on_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rates, totals = [10_000.0], Rates(), Totals()
    monkeypatch.setattr("etl.server.rates.time.time", lambda: now[0])

    def sample(count: int) -> None:
        for _ in range(count):
            now[0] += 1
            before = totals.read["main"].incoming if totals.read else 0
            totals.read["main"] = Counts(before + 50, before + 50)
            rates.add(totals)

    sample(10)
    assert rates.current()["read_per_second"] == 50
    now[0] -= 3600
    sample(3)
    assert rates.current()["read_per_second"] == 50
    assert rates.history()["time"] == sorted(rates.history()["time"])
    now[0] += 7200
    sample(3)
    assert rates.current()["read_per_second"] == 50
