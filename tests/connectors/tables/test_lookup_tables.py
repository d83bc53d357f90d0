"""Tables from files: types, and rows that cannot be read."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from connectors.lookup_tables.casting import cast_texts
from connectors.lookup_tables.file import FileTable
from connectors.lookup_tables.inline import InlineTable
from etl.api import ComponentError, LookupTable
from etl.config.loader import inspect

CSV = "ip,category,score\n192.0.2.7,scan,90\n198.51.100.1,,x\n"
ROWS = [{"ip": "192.0.2.7", "score": 90}, {"ip": "198.51.100.1", "score": None}]


def rows(table: LookupTable, *columns: str) -> list[Mapping[str, Any]]:
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
        ("t.csv.gz", gzip.compress(CSV.encode(), mtime=0), {}),
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
    assert "2 rows skipped, whose number of fields differs" in caplog.text
    assert "the first, row 4, has 1, not 3, and begins with 'only one'" in caplog.text


def test_a_quote_that_is_not_closed_is_named_with_the_lines_it_takes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = file(tmp_path / "t.csv", CSV + '203.0.113.9,"open\n' + "203.0.113.10,c,7\n203.0.113.11,c,7\n")

    assert rows(table, "ip", "score") == ROWS
    assert "1 row skipped" in caplog.text
    assert "row 4 takes 3 lines because a quote in it is not closed" in caplog.text


WRONG = 'ip,score,note\n\na,1,\nb, ,\n"c\nd",2,\nshort\ne,x\x1b[31m' + "y" * 50 + ",\nf,12 ,\ng,z,\n"


@pytest.mark.parametrize(
    ("name", "text", "options", "line"),
    [
        ("t.csv", WRONG, {}, 8),
        ("t.csv.gz", gzip.compress(WRONG.encode(), mtime=0), {}, 8),
        ("t.csv", WRONG.partition("\n")[2], {"header": ["ip", "score", "note"]}, 7),
        ("t.jsonl", '{"ip":"a"}\n\nbroken\n{"ip":"e","score":"x\\u001b[31m' + "y" * 50 + '"}\n{"ip":"g","score":"z"}', {}, 4),
    ],
    ids=["csv", "packed", "without a header", "json"],
)
def test_values_of_another_type_are_counted_and_the_first_is_shown(
    tmp_path: Path, name: str, text: str | bytes, options: dict[str, Any], line: int, caplog: pytest.LogCaptureFixture
) -> None:
    # when
    found = rows(file(tmp_path / name, text, **options), "ip", "score")

    # then
    assert {row["ip"]: row["score"] for row in found}["e"] is None
    (reason,) = [record.getMessage() for record in caplog.records if "null: " in record.getMessage()]
    shown = "x\\x1b[31m" + "y" * 34 + "…"
    assert reason == (
        f"{tmp_path / name}: 2 values are not of their column's type and count as null: "
        f"the first, in line {line}, column 'score', is '{shown}', not int"
    )


def test_one_value_of_another_type(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parquet.write_table(pa.table({"ip": ["a", "b"], "score": pa.array(["1", "x"], pa.large_string())}), tmp_path / "t.parquet")
    table = FileTable.model_validate({"path": str(tmp_path / "t.parquet"), "key": "ip", "columns": {"score": "int"}})

    assert rows(table, "ip", "score") == [{"ip": "a", "score": 1}, {"ip": "b", "score": None}]
    assert "1 value is not of its column's type and counts as null: the first, in row 2, column 'score', is 'x'" in caplog.text


def test_values_that_fit_are_found_among_many_that_do_not() -> None:
    texts = [str(n) if n % 3 else f"x{n}" for n in range(2000)] + [None, " 7 ", ""]

    found = cast_texts(pa.array(texts), pa.int32())

    assert found.to_pylist() == [n if n % 3 else None for n in range(2000)] + [None, 7, None]


def test_json_lines_broken_in_the_middle_keep_their_good_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = '{"ip":"a","score":1}\n\nno\x07 JSON at all\n{"ip":"b"\n{"ip":"c","score":3}\n'

    assert rows(file(tmp_path / "t.jsonl", text), "ip", "score") == [{"ip": "a", "score": 1}, {"ip": "c", "score": 3}]
    expected = "2 lines are not JSON and are skipped: the first, line 3, begins 'no\\x07 JSON at all'"
    assert any(expected in message for message in caplog.messages)


def test_a_file_without_any_json_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(
        ComponentError, match="cannot be read as JSON lines: 1 line is not JSON and is skipped: the first, line 1"
    ):
        rows(file(tmp_path / "t.jsonl", "<html></html>\n"), "ip")


@pytest.mark.parametrize(
    ("name", "text", "location"),
    [
        ("t.csv", 'ip,score\n\n"a\nb",1\nshort\n,2\n', ":6"),
        ("t.jsonl", '{"ip":"a"}\n\nbroken\n{"score":2}\n', ":4"),
        ("t.csv", 'ip,score\n"a' + "b" * 200_000, ", row 2"),
    ],
)
def test_the_location_of_a_row_is_its_line(tmp_path: Path, name: str, text: str, location: str) -> None:
    assert file(tmp_path / name, text).locate_row(1) == f"{tmp_path / name}{location}"


def test_values_with_newlines_and_quotes_are_one_value(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", 'ip,category\na,"one\ntwo ""x"""\n')

    assert rows(table, "category") == [{"category": 'one\ntwo "x"'}]


@pytest.mark.parametrize(
    ("text", "columns", "reason"),
    [
        (CSV, ["ip", "none"], "has no column 'none'; it has ip, category, score"),
        ("", ["ip"], "has no column"),
        (b"ip\n\xff\xfe\n", ["ip"], "cannot be read as csv"),
    ],
)
def test_errors_describe_what_is_wrong_with_a_file(tmp_path: Path, text: str | bytes, columns: list[str], reason: str) -> None:
    with pytest.raises(ComponentError, match=reason):
        rows(file(tmp_path / "t.csv", text), *columns)


def test_an_error_names_a_missing_file(tmp_path: Path) -> None:
    table = FileTable.model_validate({"path": str(tmp_path / "none.csv"), "key": "ip"})

    (found,) = table.check()  # it may be there when the pipeline runs
    assert (found.code, found.path, found.severity) == ("no-table-file", ("path",), "warning")
    assert [finding.code for finding in table.probe()] == ["unreadable-file"]
    with pytest.raises(ComponentError, match="no such file"):
        rows(table, "ip")


def test_a_version_changes_with_the_file(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", CSV)
    before = table.version()

    assert table.version() == before
    assert file(tmp_path / "t.csv", CSV + "a,b,1\n").version() != before


def test_lint_finds_keys_that_a_file_lacks(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", CSV, key=["ip", "port"])

    assert [(finding.code, finding.path) for finding in table.check()] == [("unknown-column", ("key", 1))]
    assert [f.code for f in FileTable.model_validate({"path": "t.bin", "key": "a"}).check()] == ["unclear-format"]


def test_rows_can_be_in_the_pipeline_file() -> None:
    given = [{"code": 4624, "word": "on", "yes": True}, {"code": "x"}, {"word": "no key"}]
    table = InlineTable.model_validate({"key": "code", "columns": {"code": "int", "yes": "boolean"}, "rows": given})

    assert rows(table, "code", "word", "yes") == [
        {"code": 4624, "word": "on", "yes": True},
        {"code": None, "word": None, "yes": None},
        {"code": None, "word": "no key", "yes": None},
    ]
    assert [(finding.code, finding.path) for finding in table.check()] == [
        ("missing-key", ("rows", 2)),
        ("wrong-type", ("rows", 1, "code")),
    ]
    assert table.names() == ["code", "word", "yes"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("none.csv", ["2:38: no-table-file"]),
        ("t*.csv", ["2:38: no-table-file"]),
        ("${SLUICE_NOWHERE}/t.csv", ["2:39: undefined-env"]),
        ("${SLUICE_NOWHERE:-/none}/t.csv", []),
        ("${SLUICE_HERE}/t.csv", ["2:38: no-table-file"]),
    ],
)
def test_lint_finds_the_use_of_a_missing_table(tmp_path: Path, path: str, found: list[str]) -> None:
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(f"""tables:
  intel: {{type: file, key: ip, path: "{path}"}}
source: {{type: stdin}}
steps:
  - {{type: lookup, table: intel, on: line, add: {{kind: kind}}}}
""")

    problems = inspect(pipeline, {"SLUICE_HERE": str(tmp_path)}).problems

    assert [f"{one.line}:{one.column}: {one.code}" for one in problems if one.code != "unknown-field"] == found
