"""The Nexmark queries that keep state, in YAML, give the results of Flink (q6: of DuckDB) for 100,000 events."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from running import Engine

QUERIES = ("q3", "q4", "q5", "q6", "q7", "q8", "q9", "q11", "q16", "q17", "q18", "q19", "q20")


def _counted(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Counter[str]:
    """How often each row occurs, of the columns with these names; times as Flink writes them."""
    ordered = sorted(names)
    return Counter(repr([_plain(row[name]) for name in ordered]) for row in rows)


def _plain(value: Any) -> Any:
    is_time = value.__class__ is str and value[-1:] == "Z" and value[10:11] == "T"
    return f"{value[:10]} {value[11:23]}" if is_time else value


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.spark
@pytest.mark.slow
def test_results_are_those_of_flink(engine: Engine, acceptance: Path) -> None:
    data, folder = acceptance / "nexmark", engine.etl.folder
    if not data.is_dir():
        pytest.skip(f"there is no {data}")
    (folder / "events.jsonl").write_bytes(gzip.decompress((data / "events.jsonl.gz").read_bytes()))
    pipeline = (Path(__file__).parent / "nexmark.yaml").read_text("utf-8").replace("{here}", str(folder))

    engine(pipeline, drain=True)

    for query in QUERIES:
        [path] = data.glob(f"expected/{query}.*jsonl.gz")
        expected = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        assert _counted(_lines(folder / "out" / f"{query}.json"), expected[0]) == _counted(expected, expected[0]), query
    totals = [json.loads(line) for line in gzip.decompress((data / "expected" / "q12.totals.jsonl.gz").read_bytes()).splitlines()]
    counts = Counter[int]()
    for row in _lines(folder / "out" / "q12.json"):  # windows by the time of reading, of which only the sums are known
        counts[row["bidder"]] += row["bid_count"]
    assert counts == {row["bidder"]: row["bid_count"] for row in totals}
