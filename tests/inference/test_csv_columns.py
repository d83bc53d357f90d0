"""Delimited values without a header: what is a table, and what its columns are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.config import check
from etl.inference.csv_columns import find_csv_table
from etl.inference.pipeline_file import pipeline_text
from etl.inference.sample import open_sample
from etl.inference.search import find_matches

LINES = [
    f"2026-11-20 06:25:{n:02},web0{n % 3},10.0.0.{n},GET,/shop/{n},{(200, 404)[n % 2]},{n * 7},{n}.5,true" for n in range(30)
]


def test_columns_get_names_and_types_by_what_is_in_them() -> None:
    table = find_csv_table(LINES)

    assert table is not None
    assert table.names == (
        "timestamp",
        "host.hostname",
        "source.ip",
        "http.request.method",
        "url.path",
        "http.response.status_code",
        "column7",
        "column8",
        "column9",
    )
    assert table.types == {
        "http.response.status_code": "int",
        "column7": "bigint",
        "column8": "double",
        "column9": "boolean",
    }
    assert table.time_format == "iso8601"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_distinguished(delimiter: str) -> None:
    table = find_csv_table([f"x{n}{delimiter}{n}{delimiter}10.0.0.{n}{delimiter}" for n in range(9)])

    assert table is not None
    assert table.delimiter == delimiter
    assert table.names[1:3] == ("column2", "source.ip")


def test_quoted_sentences_with_commas_are_values() -> None:
    table = find_csv_table([f'{n},"a word, and another, said {n}",10.0.0.{n}' for n in range(9)])

    assert table is not None
    assert table.names == ("column1", "column2", "source.ip")


def test_blanks_after_delimiters_are_left_out() -> None:
    table = find_csv_table([f"{n}, 10.0.0.{n}, 192.0.2.{n}" for n in range(9)])

    assert table is not None
    assert (table.names, table.trim) == (("column1", "source.ip", "destination.ip"), True)


@pytest.mark.parametrize(
    "lines",
    [
        [f"2026-11-20 06:25:{n:02},123 INFO the cache, as it was, is warm" for n in range(9)],
        [f"2026-11-20 06:25:{n:02},123 INFO started{',' * (n % 4)} well" for n in range(9)],
        ["one,two,three"] * 9,
        ["1,2,3"],
        ['"open, 1, 2'] * 9,
    ],
)
def test_what_is_no_table_is_left_to_others(lines: list[str]) -> None:
    assert find_csv_table(lines) is None


@pytest.mark.slow
def test_a_file_without_a_header_becomes_a_pipeline_with_csv(tmp_path: Path) -> None:
    origin = tmp_path / "a.csv"
    origin.write_text("\n".join(LINES) + "\n")

    with open_sample(origin) as sample:
        best = find_matches(sample)[0]
        text = pipeline_text(best, origin)

    assert (best.candidate.name, best.rate) == ("csv", 1.0)
    assert "names: [timestamp, host.hostname, source.ip," in text
    assert "{type: timestamp, formats: [iso8601]}" in text
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    assert check([file]) == []


def test_a_file_with_a_header_keeps_its_names(tmp_path: Path) -> None:
    origin = tmp_path / "a.csv"
    origin.write_text("when,host,ip,method,path,status,bytes,seconds,ok\n" + "\n".join(LINES) + "\n")

    with open_sample(origin) as sample:
        best = find_matches(sample)[0]

    assert best.candidate.options["header"] == "when,host,ip,method,path,status,bytes,seconds,ok"
