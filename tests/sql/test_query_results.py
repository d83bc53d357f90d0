"""Forms of queries and the rows that they give: all of them in one script and one run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Engine

LOGS = [
    {"host": "a", "user_name": "ann", "bytes": 10, "tags": "x,y", "t": "2026-01-01 10:00:01"},
    {"host": "b", "user_name": "bob", "bytes": 20, "tags": "", "t": "2026-01-01 10:00:02"},
    {"host": "a", "user_name": "bob", "bytes": 5, "tags": "z", "t": "2026-01-01 10:00:03"},
    {"host": "a", "user_name": "ann", "bytes": 3, "t": "2026-01-01 10:00:04"},
    {"host": "c", "bytes": 7, "t": "2026-01-01 10:00:05"},
    {"host": "a", "user_name": "ann", "bytes": 30, "t": "2026-01-01 10:00:09"},
    {"user_name": "eve", "bytes": 1, "t": "2026-01-01 10:00:10"},
]
RATES = [
    {"name": "a", "rate": 1, "since": "2026-01-01 10:00:00"},
    {"name": "a", "rate": 2, "since": "2026-01-01 10:00:04"},
    {"name": "b", "rate": 9, "since": "2026-01-01 10:00:03"},
]
TABLES = f"""
CREATE TABLE logs (
  host STRING, user_name STRING, bytes BIGINT, tags STRING, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND
) WITH ('type' = 'inline', 'rows' = '{json.dumps(LOGS)}');
CREATE TABLE rates (
  name STRING, rate INT, since TIMESTAMP(3), WATERMARK FOR since AS since, PRIMARY KEY (name) NOT ENFORCED
) WITH ('type' = 'inline', 'rows' = '{json.dumps(RATES)}');
CREATE VIEW counted AS SELECT host, window_time AS wt, count(*) AS n FROM
  TABLE(TUMBLE(TABLE logs, DESCRIPTOR(t), INTERVAL '5' SECOND)) GROUP BY host, window_start, window_end, window_time;
CREATE VIEW last_rates AS SELECT name, rate, since FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY since DESC) AS n FROM rates
) WHERE n = 1;
"""
CASES: Mapping[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("query_results.yaml").read_text("utf-8"))


@pytest.mark.spark
@pytest.mark.slow
def test_queries_give_their_rows(engine: Engine, tmp_path: Path) -> None:
    script = TABLES
    for name, case in CASES.items():
        path = tmp_path / f"{name}.jsonl"
        options = f"'type' = 'file', 'path' = '{path}', 'format' = 'json'"
        script += f"CREATE TABLE {name}_rows ({case['columns']}) WITH ({options}); INSERT INTO {name}_rows {case['query']};\n"
    (tmp_path / "job.sql").write_text(script, "utf-8")

    engine.service(tmp_path / "job.sql", once=True, drain=True).finished()

    found = {name: sorted(([*row.values()] for row in _lines(tmp_path / f"{name}.jsonl")), key=repr) for name in CASES}
    assert found == {name: sorted(case["rows"], key=repr) for name, case in CASES.items()}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []
