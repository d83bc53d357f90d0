"""Tables are read in their types, whatever is wrong with some of their rows."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from connectors.lookup_tables.file import FileTable
from connectors.lookup_tables.inline import InlineTable
from etl.api import ComponentError, Table

CSV = "ip,category,score\n192.0.2.7,scan,90\n198.51.100.1,,x\n"
ROWS = [{"ip": "192.0.2.7", "score": 90}, {"ip": "198.51.100.1", "score": None}]


def rows(table: Table, *columns: str) -> list[Mapping[str, Any]]:
    return [row for batch in table.read(columns) for row in batch.to_pylist()]


def file(path: Path, text: str | bytes, **options: Any) -> FileTable:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return FileTable.model_validate({"path": str(path), "key": "ip", "columns": {"score": "int"}, **options})


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("t.csv", CSV, {}),
        ("t.tsv", CSV.replace(",", "\t"), {}),
        ("t.csv", "\ufeff" + CSV, {}),
        ("t.csv", CSV.replace("\n", "\r\n"), {}),
        ("t.data", CSV.replace(",", ";"), {"format": "csv", "delimiter": ";"}),
        ("t.csv.gz", gzip.compress(CSV.encode()), {}),
        ("t.txt", CSV.partition("\n")[2], {"header": ["ip", "category", "score"]}),
        ("t.jsonl", '{"ip":"192.0.2.7","score":90}\n{"score":"x","ip":"198.51.100.1"}', {}),
    ],
)
def test_rows_are_read(tmp_path: Path, name: str, text: str | bytes, options: dict[str, Any]) -> None:
    assert rows(file(tmp_path / name, text, **options), "ip", "score") == ROWS


def test_parquet_is_read(tmp_path: Path) -> None:
    columns = {"ip": pa.array(["192.0.2.7"]).dictionary_encode(), "score": pa.array([90], pa.int8()), "more": pa.array([1.5])}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = FileTable.model_validate({"path": str(tmp_path / "t.parquet"), "key": "ip", "columns": {"score": "int"}})

    assert rows(table, "ip", "score") == ROWS[:1]
    assert table.names() == ["ip", "score", "more"]


def test_a_csv_file_broken_in_the_middle_keeps_its_good_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = file(tmp_path / "t.csv", CSV + "only one\n" + "1,2,3,4\n" + "203.0.113.9,c,7\n")

    assert rows(table, "ip", "score")[-1] == {"ip": "203.0.113.9", "score": 7}
    assert "2 rows left out for another number of fields" in caplog.text
    assert "the first, row 4, has 1, not 3, and begins 'only one'" in caplog.text


def test_a_quote_that_is_not_closed_is_named_with_the_lines_it_takes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = file(tmp_path / "t.csv", CSV + '203.0.113.9,"open\n' + "203.0.113.10,c,7\n203.0.113.11,c,7\n")

    assert rows(table, "ip", "score") == ROWS
    assert "1 row left out" in caplog.text
    assert "row 4 takes 3 lines, for a quote in it is not closed" in caplog.text


def test_values_with_newlines_and_quotes_are_one_value(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", 'ip,category\na,"one\ntwo ""x"""\n')

    assert rows(table, "category") == [{"category": 'one\ntwo "x"'}]


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        (CSV, ["ip", "none"], "has no column 'none'; it has ip, category, score"),
        ("", ["ip"], "has no column"),
        (b"ip\n\xff\xfe\n", ["ip"], "cannot be read as csv"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str | bytes, columns: list[str], said: str) -> None:
    with pytest.raises(ComponentError, match=said):
        rows(file(tmp_path / "t.csv", text), *columns)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    table = FileTable.model_validate({"path": str(tmp_path / "none.csv"), "key": "ip"})

    assert list(table.check()) == []  # it may be there when the pipeline runs
    assert [finding.code for finding in table.probe()] == ["unreadable-file"]
    with pytest.raises(ComponentError, match="no such file"):
        rows(table, "ip")


def test_a_version_changes_with_the_file(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", CSV)
    before = table.version()

    assert table.version() == before
    assert file(tmp_path / "t.csv", CSV + "a,b,1\n").version() != before


def test_keys_that_a_file_has_not_are_found_by_lint(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", CSV, key=["ip", "port"])

    assert [(finding.code, finding.path) for finding in table.check()] == [("unknown-column", ("key", 1))]
    assert [f.code for f in FileTable.model_validate({"path": "t.bin", "key": "a"}).check()] == ["unclear-format"]


def test_rows_stand_in_the_pipeline_file() -> None:
    given = [{"code": 4624, "word": "on", "yes": True}, {"code": "x"}, {"word": "no key"}]
    table = InlineTable.model_validate({"key": "code", "columns": {"code": "int", "yes": "boolean"}, "rows": given})

    assert rows(table, "code", "word", "yes") == [
        {"code": 4624, "word": "on", "yes": True},
        {"code": None, "word": None, "yes": None},
        {"code": None, "word": "no key", "yes": None},
    ]
    assert [finding.path for finding in table.check()] == [("rows", 2)]
    assert table.names() == ["code", "word", "yes"]
