"""Views that no query reads: all their mistakes are warnings, as those of other statements are errors."""

from __future__ import annotations

from pathlib import Path

from etl.catalogue import installed
from etl.config.document.sql_script import read_script
from etl.config.loader import inspect_document

TABLE = "CREATE TABLE t (a INT, b STRING) WITH ('type' = 'inline', 'rows' = '[{\"a\": 1}]');\n"


def problems(text: str) -> list[tuple[int, int, str, str]]:
    """Line, column, severity and message of each problem of a script."""
    checked = inspect_document("job.sql", read_script((TABLE + text).encode(), installed(), Path()))
    return [(one.line, one.column, one.severity, one.message) for one in checked.problems]


def test_all_mistakes_of_a_view_are_found() -> None:
    text = "CREATE VIEW v AS SELECT aa, upperr(b) AS c, b + 1 AS d FROM t WHERE zz > 3;\nSELECT a FROM t;"

    assert problems(text) == [
        (2, 25, "warning", "there is no column 'aa'"),
        (2, 29, "warning", "there is no function 'upperr'"),
        (2, 45, "warning", "argument 1 of flink_add(), x, has to be a number, and this is string"),
        (2, 69, "warning", "there is no column 'zz'"),
    ]


def test_a_view_over_a_wrong_one_is_checked_too() -> None:
    text = "CREATE VIEW v AS SELECT a AS c FROM t WHERE x = 1;\nCREATE VIEW w AS SELECT c, e FROM v;\nSELECT a, f FROM t;"

    assert problems(text) == [
        (2, 45, "warning", "there is no column 'x'"),
        (3, 28, "warning", "there is no column 'e'"),
        (4, 11, "error", "there is no column 'f'"),
    ]


def test_a_right_view_has_none() -> None:
    assert problems("CREATE VIEW v AS SELECT a FROM t;\nCREATE VIEW w AS SELECT a FROM v;\nSELECT a FROM t;") == []
