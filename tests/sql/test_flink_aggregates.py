"""Aggregates of scripts give Flink's results: all of the acceptance data over the same rows in one query."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flink_values import same
from running import Engine

OTHERWISE = {
    "ARRAY_AGG(i)": "collected values leave out nulls, so that ARRAY_AGG is refused",
    "ARRAY_AGG(DISTINCT s)": "collected values leave out nulls, so that ARRAY_AGG is refused",
    "JSON_ARRAYAGG(s NULL ON NULL)": "collected values leave out nulls",
    "PERCENTILE(i, ARRAY[0.0, 0.5, 1.0])": "one share at a time",
    "AVG(CAST(i AS DECIMAL(10, 2)))": "an average of decimals has four digits more, as in Spark",
    "STDDEV_SAMP(CAST(i AS DECIMAL(10, 2)))": "a deviation is a DOUBLE",
    "SUM(CAST(9223372036854775807 AS BIGINT) + 0 * i)": "a sum beyond BIGINT is null instead of another number",
}
"""Aggregates with another result, and why."""


def _plain(value: Any) -> Any:
    """Maps as sorted pairs, texts of numbers and times in one form."""
    if isinstance(value, dict):
        return sorted(([key, one] for key, one in value.items()), key=str)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return sorted([[str(key), one] for key, one in value], key=str)
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d.*", value):
        return value.replace("T", " ").split(".")[0].removesuffix("Z")
    return float(value) if isinstance(value, str) and re.fullmatch(r"-?\d+\.\d+", value) else value


@pytest.mark.spark
@pytest.mark.slow
def test_aggregates_are_as_in_flink(engine: Engine, acceptance: Path, tmp_path: Path) -> None:
    if not (acceptance / "flink_functions").is_dir():
        pytest.skip(f"there is no {acceptance / 'flink_functions'}")
    lines = (acceptance / "flink_functions" / "statements.jsonl").read_text("utf-8").splitlines()
    cases = {}
    rows = ""
    for case in map(json.loads, lines):
        if case["group"] == "aggregate" and "value" in case:
            call, _, rows = case["sql"].removeprefix("SELECT ").partition(" FROM ")
            cases[call] = case["value"][0][0]
    chosen = [call for call in cases if call not in OTHERWISE]
    assert len(chosen) > 45
    columns = ",\n".join(f"{call} AS c{number}" for number, call in enumerate(chosen))
    (tmp_path / "job.sql").write_text(f"SELECT {columns}\nFROM {rows}", "utf-8")

    ran = engine.run(tmp_path / "job.sql", "--state", tmp_path / "state", "--once", "--drain")

    found = json.loads(ran.out.splitlines()[-1])
    wrong = {
        call: (found.get(f"c{number}"), cases[call])
        for number, call in enumerate(chosen)
        if not same(_plain(found.get(f"c{number}")), _plain(cases[call]))
    }
    assert wrong == {}
