"""Nexmark scripts that were written for Flink give Flink's results, with another WITH for the results only."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from running import Engine

WHOLE = ("q2", "q3", "q5", "q7", "q8", "q11", "q20")
"""Queries of which all results are stored."""
SAMPLES = ("q1", "q10", "q13", "q21", "q22")
"""Queries of which every 50th result is stored."""


def _script(data: Path, folder: Path) -> str:
    queries = data / "queries"
    texts = [(queries / "ddl_source.sql").read_text("utf-8"), (queries / "ddl_views.sql").read_text("utf-8") + ";"]
    texts += [(queries / f"{query}.sql").read_text("utf-8") + ";" for query in (*WHOLE, *SAMPLES, "q12")]
    script = "\n".join(texts).replace("${NEXMARK_TABLE}", "datagen").replace("${EVENTS}", str(folder / "events.jsonl"))
    script = script.replace("file://${FLINK_HOME}/data/side_input.txt", str(data / "side_input.txt"))
    results = rf"\1WITH ('connector' = 'filesystem', 'path' = '{folder}/out/\2.json', 'format' = 'json');"
    return re.sub(r"(CREATE TABLE nexmark_(q\d+)[^;]*?)WITH \([^;]*;", results, script)


def _counted(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Counter[str]:
    """How often each row occurs, of the columns with these names; times as Flink writes them."""
    return Counter(json.dumps({name: _plain(row.get(name)) for name in sorted(names)}) for row in rows)


def _plain(value: Any) -> Any:
    is_time = isinstance(value, str) and value.endswith("Z") and value[10:11] == "T"
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
    (folder / "nexmark.sql").write_text(_script(data, folder), "utf-8")

    engine.service(folder / "nexmark.sql", once=True, drain=True).finished()

    for query in (*WHOLE, *SAMPLES):
        [path] = data.glob(f"expected/{query}.*jsonl.gz")
        expected = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        found = _counted(_lines(folder / "out" / f"{query}.json"), expected[0])
        wanted = _counted(expected, expected[0])
        assert not wanted - found, query
        assert query in SAMPLES or wanted == found, query
    counts = Counter[int]()
    for row in _lines(folder / "out" / "q12.json"):  # windows by the time of reading, of which only the sums are known
        counts[row["bidder"]] += row["bid_count"]
    totals = [json.loads(line) for line in gzip.decompress((data / "expected" / "q12.totals.jsonl.gz").read_bytes()).splitlines()]
    assert counts == {row["bidder"]: row["bid_count"] for row in totals}
