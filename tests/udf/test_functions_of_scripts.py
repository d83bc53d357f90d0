"""CREATE FUNCTION in scripts: how the code is named, table functions beside rows, mistakes at their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etl.catalogue import installed
from etl.config.loader import inspect
from etl.sql.script import compile_script

CODE = """\
from collections.abc import Iterator
from typing import NamedTuple


class Word(NamedTuple):
    word: str
    length: int


def words(text: str) -> Iterator[Word]:
    for word in text.split():
        yield Word(word, len(word))


def letters(text: str) -> Iterator[str]:
    yield from text


def truncate(text: str) -> str:
    return text[:3]
"""

TABLES = """
CREATE TABLE logs (m STRING) WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
CREATE TABLE out (a STRING, b BIGINT) WITH ('connector' = 'print');
"""


def _compiled(folder: Path, script: str) -> dict[str, Any]:
    """The value of the pipeline file in lower case."""
    (folder / "functions.py").write_text(CODE)
    compiled = compile_script(TABLES + script, installed(), folder)
    assert not compiled.errors, [str(error) for error in compiled.errors]
    return json.loads(json.dumps(compiled.value).lower())


@pytest.mark.parametrize(
    ("how", "entry"),
    [
        ("'functions:words' LANGUAGE PYTHON", {"module": "functions", "function": "words"}),
        ("'functions.words' LANGUAGE PYTHON", {"module": "functions", "function": "words"}),
        ("'functions.py:words' LANGUAGE PYTHON", {"file": "functions.py", "function": "words"}),
        ("'functions.py' LANGUAGE PYTHON", {"file": "functions.py", "function": "f"}),
        ("'words' LANGUAGE PYTHON USING FILE 'functions.py'", {"file": "functions.py", "function": "words"}),
        ("'any:words' LANGUAGE PYTHON USING 'functions.py'", {"file": "functions.py", "function": "words"}),
    ],
)
def test_the_code_is_named_by_file_or_module(tmp_path: Path, how: str, entry: dict[str, str]) -> None:
    value = _compiled(tmp_path, f"CREATE TEMPORARY FUNCTION f AS {how}; INSERT INTO out SELECT m, 1 FROM logs")

    assert value["functions"] == {"f": entry}


WORDS = "CREATE FUNCTION words AS 'functions:words' LANGUAGE PYTHON;"


@pytest.mark.parametrize(
    ("join", "left"),
    [(", LATERAL TABLE(words(m)) AS T(w, n)", {}), (" LEFT JOIN LATERAL TABLE(words(m)) AS T(w, n) ON TRUE", {"empty": "keep"})],
)
def test_a_table_function_stands_beside_rows(tmp_path: Path, join: str, left: dict[str, str]) -> None:
    value = _compiled(tmp_path, f"{WORDS} INSERT INTO out SELECT w, n FROM logs{join}")

    assert value["streams"]["out_rows"]["steps"] == [
        {"type": "set", "fields": {"words_row": "words(m)"}},
        {"type": "unnest", "field": "words_row", **left},
        {"type": "select", "fields": {"a": "cast(words_row.word as string)", "b": "cast(words_row.length as bigint)"}},
    ]


def test_an_own_function_comes_before_one_of_the_dialect(tmp_path: Path) -> None:
    script = "CREATE FUNCTION truncate AS 'functions:truncate' LANGUAGE PYTHON; INSERT INTO out SELECT truncate(m), 1 FROM logs"

    assert _compiled(tmp_path, script)["streams"]["out_rows"]["steps"][-1]["fields"]["a"] == "flink_cast(truncate(m), 'string')"


PYTHON = "LANGUAGE PYTHON;\nINSERT INTO out SELECT f(m), 1 FROM logs"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (f"CREATE FUNCTION f AS 'functions:words' {PYTHON.replace('(m)', '(1)')}", "5: wrong-type: f() takes a text"),
        (f"CREATE FUNCTION f AS 'functions:none' {PYTHON}", "4: bad-function: function 'f': there is no function 'none'"),
        (f"CREATE FUNCTION f AS 'none:f' {PYTHON}", "4: bad-function: there is no module 'none' beside"),
        (f"CREATE FUNCTION f AS 'f' {PYTHON}", "4: bad-function: 'f' names no module"),
        (f"{WORDS}{WORDS}INSERT INTO out SELECT m, 1 FROM logs", "4: duplicate-name: the function 'words' is declared twice"),
        (f"{WORDS}\nINSERT INTO out SELECT w, n FROM logs, LATERAL TABLE(words(m)) AS T(w)", "5: wrong-columns: words() gives 2"),
        (
            "CREATE FUNCTION f AS 'com.acme.F';\nINSERT INTO out SELECT f(m), 1 FROM logs",
            "5: unknown-function: 'f' is the class 'com.acme.F' of Java",
        ),
        (
            "CREATE FUNCTION f AS 'functions:truncate' LANGUAGE PYTHON;\n"
            "INSERT INTO out SELECT a, 1 FROM logs, LATERAL TABLE(f(m)) AS T(a)",
            "5: unsupported-sql: f() gives one value for a row",
        ),
    ],
)
def test_mistakes_have_their_place(tmp_path: Path, script: str, problem: str) -> None:
    (tmp_path / "functions.py").write_text(CODE)
    (tmp_path / "job.sql").write_text(TABLES.removeprefix("\n") + "\n" + script)

    found = [f"{one.line}: {one.code}: {one.message}" for one in inspect(tmp_path / "job.sql", {}).problems]

    assert [one.startswith(problem) for one in found] == [True], found
