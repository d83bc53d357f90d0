"""Scripts of RocketMQ Streams' SQL, as its documents and tests have them, plan here, or are refused for what cannot exist here.

Many are parts of a page: a test adds what the page leaves out (a table that is only read, a query of a table that is only
declared, a file's path) and mends what its print broke (``_ source``, quotes of a word processor, ``...``). It puts files in
place of connectors, and Python in place of functions in Java, which do not exist here.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from etl.config.loader import inspect

REFUSED = {
    "old_stream_function_3": "declares a function and has no query: lint warns",
    "old_stream_source_mqtt_2": "goes by a column that is not there",
    "old_stream_dim_file_2": "names a table data_source, which it does not have",
    "old_stream_dim_mysql_4": "names a table data_source, which it does not have",
    "old_stream_sink_es_2": "a type is misspelt: varbianary",
    "s201_deployment_standalone_1": "CAST(x) has no type",
    "s201_stream_dim_odps_2": "commas are missing between columns",
}
"""Scripts that do not plan when they are completed, and why."""

NO_CONNECTOR = ("datahub", "mqtt", "odps", "random", "sls", "tt")
"""Connectors that exist in no engine, or not here; the rest of their scripts is planned with a file."""

FUNCTIONS = """
from collections.abc import Iterator
from typing import TypedDict

class Row(TypedDict):
    a: str
    b: str
    c: str

def time_function() -> str:
    return ""

def getcurrenttime() -> str:
    return ""

def stringlengthudf(text: str) -> int:
    return len(text)

def parseudtf(content: str) -> Iterator[Row]:
    yield Row(a=content, b="", c="")
"""
"""Python in place of functions in Java."""

MAX_ADDITIONS = 60


def _mended(text: str) -> str:
    text = re.sub(r"^\s*\.\.\.\s*$", "", text, flags=re.MULTILINE)
    text = text.replace("\u89e3\u6790\u8bed\u53e5", "%{WORD:a} %{WORD:b} %{WORD:c}")  # the word "pattern"
    text = re.sub(r"'\s*,\s*,", "',", text)
    text = re.sub(r"filePath\s*=\s*''", "filePath = 'in.jsonl'", text)
    text = re.sub(r"tableName\s*=\s*''", "tableName = 't'", text)
    text = re.sub(r"url\s*=\s*''", "url = 'jdbc:mysql://host/d'", text)
    text = re.sub(r"type\s*=\s*'rds',?\s*\)", "type = 'rds', url = 'jdbc:mysql://host/d', tableName = 't')", text)
    return re.sub(r"type\s*=\s*'(file|flie)',?\s*\)", "type = 'file', filePath = 'in.jsonl')", text)


def _with_python(text: str) -> str:
    """The script with functions in Python in place of those in Java."""
    names = [name for name in ("time_function", "getcurrenttime", "stringlengthudf", "parseudtf") if name in text.lower()]
    declared = "".join(f"CREATE FUNCTION {name} AS 'functions.py:{name}' LANGUAGE PYTHON;\n" for name in names)
    return declared + re.sub(
        r"create\s+function\s+(time_function|getCurrentTime|stringLengthUdf)\s+as\s+'[^']*';?", "", text, flags=re.IGNORECASE
    )


def _with_files(text: str) -> str:
    """The script with files in place of connectors that do not exist here."""
    of = "|".join(NO_CONNECTOR)
    return re.sub(rf"type\s*=\s*'({of})'[^)]*\)", "type = 'file', filePath = 'other.jsonl')", text)


def _completed(path: Path, folder: Path) -> list[str]:
    """The errors that stay, as ``code: message``, after the script was given what it leaves out."""
    script = folder / path.name
    (folder / "functions.py").write_text(FUNCTIONS, "utf-8")
    body = _with_python(_with_files(_mended(path.read_text("utf-8"))))
    tables: dict[str, list[str]] = {}
    errors: list[str] = []
    for _ in range(MAX_ADDITIONS):
        declared = "".join(_declaration(name, columns, body) for name, columns in tables.items())
        script.write_text(f"{declared}\n{body}", "utf-8")
        problems = [one for one in inspect(script).problems if one.severity == "error" or one.code == "missing-sink"]
        errors = [f"{one.code}: {one.message}" for one in problems]
        if not problems or not _complete(errors[0], tables, body):
            break
        if errors[0].startswith("missing-sink"):
            body = f"{body.rstrip().rstrip(';')};\n{_query(body, tables)}"
    return errors


def _declaration(name: str, columns: list[str], body: str) -> str:
    is_sink = re.search(rf"insert\s+into\s+`?{name}\b", body, re.IGNORECASE)
    listed = ", ".join(
        f"`{column}` {'BIGINT' if re.search(rf'sum.(t.)?{column}.', body, re.IGNORECASE) else 'STRING'}"
        for column in columns or ["a"]
    )
    times = [one for one in columns if re.search(rf"(TUMBLE|HOP|SESSION)\w*\s*\(\s*{one}\b", body, re.IGNORECASE)]
    if times:
        listed = listed.replace(f"{times[0]}` STRING", f"{times[0]}` TIMESTAMP") + f", WATERMARK FOR {times[0]} AS {times[0]}"
    options = "type = 'print'" if is_sink else f"type = 'file', filePath = '{name}.jsonl'"
    return f"CREATE TABLE `{name}` ({listed}) WITH ({options});\n"


def _complete(error: str, tables: dict[str, list[str]], text: str) -> bool:
    """Add a table or column that an error misses; whether there is something to try again."""
    if found := re.search(r"there is no table '(\w+)'", error):
        tables[found[1]] = []
        return True
    if found := re.search(r"'(\w+)' has no column '(\w+)'", error):
        tables.setdefault(found[1], []).append(found[2])
        return True
    if tables and (found := re.search(r"there is no column '(?:\w+\.)?(\w+)'", error)):
        readable = [columns for name, columns in tables.items() if not re.search(rf"into\s+`?{name}\b", text, re.IGNORECASE)]
        columns = next((columns for columns in readable if found[1] not in columns), None)
        if columns is not None:
            columns.append(found[1])
        return columns is not None
    return error.startswith("missing-sink") and re.search(r"create\s+(table|view)", text, re.IGNORECASE) is not None


def _query(text: str, tables: dict[str, list[str]]) -> str:
    """Statements that use all tables and views of a script: sinks are written, others read."""
    found = re.findall(r"create\s+table\s+`?(\w+)`?\s*\(.*?type\s*=\s*'(\w+)'", text, re.IGNORECASE | re.DOTALL)
    found += [(name, "view") for name in re.findall(r"create\s+view\s+`?(\w+)", text, re.IGNORECASE)]
    queries = []
    for name, type_ in found:
        if type_ in ("print", "es", "db", "rds"):
            tables.setdefault("read_here", ["a"])
            queries.append(f"INSERT INTO `{name}` SELECT * FROM read_here;")
        else:
            queries.append(f"SELECT * FROM `{name}`;")
    return "\n".join(queries)


@pytest.mark.slow
def test_scripts_plan(acceptance: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = sorted((acceptance / "rsql" / "sql").glob("*.sql"))
    wrong = {}
    for path in scripts:
        for name in re.findall(r"'(dipper[.\w]+)'", path.read_text("utf-8")):
            url = "mysql://host/d" if name.endswith("url") else "host"
            monkeypatch.setenv(re.sub(r"\W", "_", name).upper(), url)
        errors = _completed(path, tmp_path)
        if bool(errors) != (path.stem in REFUSED):
            wrong[path.stem] = errors

    assert not wrong, "\n".join(f"{name}: {errors}" for name, errors in wrong.items())
    assert len(scripts) == 83
