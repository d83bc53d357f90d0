"""Scripts of RocketMQ Streams' SQL give the rows that its documents and its engine give."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Engine

OTHERWISE = {
    "tumble_concat_agg": "a column that is declared BIGINT and holds texts is an error of the event",
    "tumble_late_record": "events are late after the micro-batch that moves the watermark, not within it",
    "where_equals_text": "a column that is declared VARCHAR is a text, also where the JSON has a number",
}
"""Cases whose rows are others, and why."""


def _script(case: Mapping[str, Any], folder: Path) -> str:
    """The case's script, which reads and writes files of a folder."""
    text = str(case["script"])
    for name, rows in case["input"].items():
        (folder / name).write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), "utf-8")
        text = text.replace(f"'{name}'", f"'{folder / name}'")
    return text


def _plain(value: Any) -> str:
    """A value as text, times without their zone, numbers whatever their type."""
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[T ]", value):
        return value.replace("T", " ").removesuffix("Z").split(".")[0]
    return repr(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How often each row occurs; null and a missing field are equal, and the order of fields is free."""
    return Counter(json.dumps({name: _plain(row[name]) for name in sorted(row) if row[name] is not None}) for row in rows)


def _after_changes(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are left of a changelog: each change with its kind in ``_kind``."""
    left: list[dict[str, Any]] = []
    for row in rows:
        plain = {name: value for name, value in row.items() if name != "_kind"}
        if row.get("_kind", "+I") in ("+I", "+U"):
            left.append(plain)
        elif plain in left:
            left.remove(plain)
    return left


def _latest(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of rows that replace each other, the last of each key: the fields that tell all expected rows apart."""
    names = list(expected[0])
    sizes = range(1, len(names) + 1)
    key = next(
        names[:size]
        for size in sizes
        if len({tuple(str(row.get(one)) for one in names[:size]) for row in expected}) == len(expected)
    )
    return list({tuple(str(row.get(name)) for name in key): row for row in rows}.values())


@pytest.mark.spark
@pytest.mark.slow
def test_rows_are_those_of_the_documents(engine: Engine, acceptance: Path, tmp_path: Path) -> None:
    if not (acceptance / "rsql").is_dir():
        pytest.skip(f"there is no {acceptance / 'rsql'}")
    wrong = {}
    for path in sorted((acceptance / "rsql" / "cases").glob("*.yaml")):
        case = yaml.safe_load(path.read_text("utf-8"))
        if case["name"] in OTHERWISE:
            continue
        folder = tmp_path / case["name"]
        folder.mkdir()
        (folder / "job.sql").write_text(_script(case, folder), "utf-8")
        drain = () if "WATERMARK" in case["script"] else ("--drain",)
        ran = engine.run(folder / "job.sql", "--state", folder / "state", "--once", *drain)
        rows = _after_changes(json.loads(line) for line in ran.out.splitlines())
        expected, allowed = _counted(case["expected"]), _counted(case.get("may_follow") or [])
        changes = "EMIT" in case["script"] or (
            not re.search("TUMBLE|HOP|SESSION", case["script"]) and "GROUP BY" in case["script"].upper()
        )
        found = _counted(_latest(rows, [*case["expected"], *(case.get("may_follow") or [])]) if changes else rows)
        if expected - found or found - expected - allowed:
            wrong[case["name"]] = sorted((expected - found).items()), sorted((found - expected - allowed).items())
    assert not wrong, "\n".join(f"{name}: missing {missing}, more {more}" for name, (missing, more) in wrong.items())
