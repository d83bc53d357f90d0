"""Filebeat's cases through the recipes: whole events equal what Elastic's modules made of the same lines.

Rows stand in ``filebeat_rows_a.py`` and so on, one module a group of recipes; `filebeat_case.Row` says what a row has.
What a case lacks: ``pytest tests/recipes/test_filebeat.py -k postgresql -s``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from filebeat_case import Compared, Row, compared

pytestmark = pytest.mark.slow

GROUPS = ("filebeat_rows_a", "filebeat_rows_b", "filebeat_rows_c")

ONE_LINE_FLOOR = 0.90
MULTILINE_FLOOR = 0.85
SHOWN = 3
"""Differing events of a case that are printed."""


def _rows() -> Sequence[Row]:
    here = Path(__file__).parent
    groups = [name for name in GROUPS if (here / f"{name}.py").is_file()]
    return [row for name in groups for row in importlib.import_module(name).ROWS]


ROWS = _rows()
FILESETS = sorted({row.fileset for row in ROWS})


@cache
def outcomes(folder: Path, fileset: str) -> Sequence[Compared]:
    """All cases of a fileset that a row takes."""
    index = json.loads((folder / "index.json").read_text())
    rows = [(entry, next((row for row in ROWS if row.takes(entry["log"])), None)) for entry in index]
    return [compared(folder, entry, row) for entry, row in rows if row and row.fileset == fileset]


def share(cases: Sequence[Compared]) -> float:
    return sum(case.equal for case in cases) / max(1, sum(case.expected for case in cases))


def all_listed(cases: Sequence[Compared]) -> bool:
    """Whether every event that differs does so for a reason on record; a fileset of few events may then be under the floor."""
    return all(f"{case.log}@{offset}" in case.row.exceptions for case in cases for offset in case.wrong)


def shown(case: Compared) -> None:
    print(case)
    for offset, fields in list(case.wrong.items())[:SHOWN]:
        print(f"  at {offset}:", *(f"{name}: expected {a!r}, found {b!r}" for name, a, b in fields), sep="\n    ")


@pytest.mark.parametrize("fileset", FILESETS)
def test_a_fileset_s_events_are_equal(acceptance: Path, fileset: str) -> None:
    cases = outcomes(acceptance / "filebeat", fileset)
    for case in cases:
        shown(case)

    one_line, multiline = ([case for case in cases if case.one_line is kind] for kind in (True, False))
    assert not one_line or share(one_line) >= ONE_LINE_FLOOR or all_listed(one_line)
    assert not multiline or share(multiline) >= MULTILINE_FLOOR or all_listed(multiline)


def test_all_cases_together(acceptance: Path) -> None:
    cases = [case for fileset in FILESETS for case in outcomes(acceptance / "filebeat", fileset)]
    one_line, multiline = ([case for case in cases if case.one_line is kind] for kind in (True, False))
    for name, group in (("one line", one_line), ("multiline", multiline)):
        print(
            f"{name}: {sum(case.equal for case in group)} of {sum(case.expected for case in group)} events in {len(group)} cases"
        )

    assert share(one_line) >= ONE_LINE_FLOOR
    assert share(multiline) >= MULTILINE_FLOOR


def test_what_differs_on_purpose_is_listed_with_its_reason(acceptance: Path) -> None:
    cases = [case for fileset in FILESETS for case in outcomes(acceptance / "filebeat", fileset)]
    for case in cases:
        listed = {int(key.rpartition("@")[2]) for key in case.row.exceptions if key.startswith(f"{case.log}@")}
        assert listed <= {*case.wrong}, f"{case.log}: these are equal now: {sorted(listed - {*case.wrong})}"


def test_events_of_another_recipe_are_not_equal(acceptance: Path) -> None:
    folder = acceptance / "filebeat"
    entry = next(
        case for case in json.loads((folder / "index.json").read_text()) if case["log"] == "redis/log/redis-windows-2.4.6.log"
    )

    other = compared(folder, entry, Row("redis/log", "mongodb"))
    nearly = compared(folder, entry, Row("redis/log", "redis", no_time=True))  # the process id is one too many

    assert (other.equal, nearly.equal, other.expected) == (0, 0, 34)
