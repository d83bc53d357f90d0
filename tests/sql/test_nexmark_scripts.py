"""Nexmark scripts that were written for Flink give Flink's results, with another WITH for the results only."""

from __future__ import annotations

import gzip
import hashlib
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
CHANGING = ("q4", "q6", "q9", "q15", "q16", "q17", "q18", "q19")
"""Queries whose results change, of which all are stored; the results of those that are written are folded."""
SAMPLES = ("q0", "q1", "q10", "q13", "q14", "q21", "q22")
"""Queries of which every 50th result is stored."""


COUNT_CHAR = """
import pyarrow as pa
import pyarrow.compute as pc


def count_char(s: pa.StringArray, c: str) -> pa.Int64Array:
    counts = pc.count_substring(s.cast(pa.binary()), c.encode()[:1])
    return pc.fill_null(counts, 0).cast(pa.int64())
"""
"""The function of q14: how many bytes of each text are the first byte of another; 0 for null."""


def _script(data: Path, folder: Path) -> str:
    queries = data / "queries"
    texts = [(queries / "ddl_source.sql").read_text("utf-8"), (queries / "ddl_views.sql").read_text("utf-8") + ";"]
    texts += [(queries / f"{query}.sql").read_text("utf-8") + ";" for query in (*WHOLE, *CHANGING, *SAMPLES, "q12")]
    script = "\n".join(texts).replace("${NEXMARK_TABLE}", "datagen").replace("${EVENTS}", str(folder / "events.jsonl"))
    script = script.replace("file://${FLINK_HOME}/data/side_input.txt", str(data / "side_input.txt"))
    java = "AS 'com.github.nexmark.flink.udf.CountChar'"
    script = script.replace(java, "AS 'count_char' LANGUAGE PYTHON USING FILE 'nexmark.py'")
    results = rf"\1WITH ('connector' = 'filesystem', 'path' = '{folder}/out/\2.json', 'format' = 'json');"
    script = re.sub(r"(CREATE TABLE nexmark_(q\d+)[^;]*?)WITH \([^;]*;", results, script)
    return re.sub(rf"/({'|'.join(CHANGING)})\.json', 'format' = 'json'", r"/\1.json', 'format' = 'debezium-json'", script)


def _counted(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Counter[str]:
    """How often each row occurs, of the columns with these names; times as Flink writes them."""
    ordered = sorted(names)
    return Counter(_key(row, ordered) for row in rows)


def _key(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """The values of a row as a text, in which 1, 1.0 and true differ; a million rows need a quick one."""
    return repr([_plain(row.get(name)) for name in names])


def _plain(value: Any) -> Any:
    is_time = value.__class__ is str and value[-1:] == "Z" and value[10:11] == "T"
    return f"{value[:10]} {value[11:23]}" if is_time else value


def _digest(path: Path, columns: list[str]) -> str:
    """SHA-256 of all rows in the form of the expected results."""
    rows = [{name: _plain(row.get(name)) for name in columns} for row in _lines(path)]
    lines = sorted(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() for row in rows)
    return hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _folded(path: Path, names: Iterable[str]) -> Counter[str]:
    """The rows of a changelog that are left. A row that is removed must be there."""
    found, names = Counter[str](), sorted(names)
    for change in _lines(path):
        text = _key(change["after"] or change["before"], names)
        found[text] += 1 if change["op"] == "c" else -1
        assert found[text] >= 0, change
    return +found


@pytest.mark.spark
@pytest.mark.slow
def test_results_are_those_of_flink(engine: Engine, acceptance: Path) -> None:
    data, folder = acceptance / "nexmark", engine.etl.folder
    if not data.is_dir():
        pytest.skip(f"there is no {data}")
    (folder / "events.jsonl").write_bytes(gzip.decompress((data / "events.jsonl.gz").read_bytes()))
    (folder / "nexmark.py").write_text(COUNT_CHAR, "utf-8")
    (folder / "nexmark.sql").write_text(_script(data, folder), "utf-8")

    engine.service(folder / "nexmark.sql", once=True, drain=True).finished()

    for query in CHANGING:
        [path] = data.glob(f"expected/{query}.*jsonl.gz")
        expected = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        if query == "q6":  # the sink declares the seller as text, and the stored rows have a number
            expected = [{**row, "seller": str(row["seller"])} for row in expected]
        assert _folded(folder / "out" / f"{query}.json", expected[0]) == _counted(expected, expected[0]), query
    for query in (*WHOLE, *SAMPLES):
        [path] = data.glob(f"expected/{query}.*jsonl.gz")
        expected = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        found = _counted(_lines(folder / "out" / f"{query}.json"), expected[0])
        counted = _counted(expected, expected[0])
        assert not counted - found, query
        assert query in SAMPLES or counted == found, query
    results = json.loads((data / "expected" / "results.json").read_text("utf-8"))
    assert _digest(folder / "out" / "q14.json", results["q14"]["columns"]) == results["q14"]["sha256"]
    counts = Counter[int]()
    for row in _lines(folder / "out" / "q12.json"):  # windows by the time of reading, of which only the sums are known
        counts[row["bidder"]] += row["bid_count"]
    totals = [json.loads(line) for line in gzip.decompress((data / "expected" / "q12.totals.jsonl.gz").read_bytes()).splitlines()]
    assert counts == {row["bidder"]: row["bid_count"] for row in totals}
