"""``--update``: what came out becomes what is expected, whatever it was."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import EtlError
from etl.config.cases.case_file import Suite, inspect_tests
from etl.plan.query_plan import Plan
from etl.testing import update
from etl.testing.results import Result, result
from etl.testing.yaml_writer import format_scalar

PIPELINE = """\
source: {type: file, path: /nowhere/x.log}
steps:
  - {type: regex, patterns: ['^(?P<a.b>[^,]*),(?P<n>\\d{1,9})?,(?P<c>.*)$']}
sink: {type: console}
"""

lines = st.lists(
    st.text(max_size=8) | st.builds("{},{},{}".format, st.text(max_size=5), st.integers(0, 99), st.text()), max_size=5
)
forms = st.sampled_from(
    ["", "    expect: none\n", "    expect: 3\n", "    expect: [{n: '1'}]\n", "    expect: {steps: {fields: [n], events: []}}\n"]
)
letters = st.sampled_from(
    [
        "",
        "    dead_letters: none\n",
        "    dead_letters: 1\n",
        "    dead_letters: {fields: [at, event], events: []}\n",
        "    dead_letters: []\n",
        "    dead_letters:\n      - {event: x}\n",
    ]
)


def no_spark(plan: Plan, state: Path, drain: bool) -> None:
    raise AssertionError("Spark was asked for")


def suite(path: Path) -> Suite:
    checked = inspect_tests(path)
    assert checked.suite is not None, [str(problem) for problem in checked.problems]
    return checked.suite


def run(path: Path) -> tuple[Suite, Result]:
    read = suite(path)
    return read, result(read, read.cases[0], no_spark)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(lines, forms, letters)
def test_an_updated_test_passes_and_a_second_update_changes_nothing(given: list[str], form: str, dead: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.yaml")
        path.write_text(f"{PIPELINE}tests:\n  one:\n    input: {format_scalar(given)}\n{form}{dead}# end\n", "utf-8")
        read, first = run(path)
        assert first.outcome is not None, first.error

        update.write(str(path), list(update.edits(read, read.cases[0], first.outcome)))

        again, second = run(path)
        assert list(second.lines()) == []
        assert second.outcome is not None
        assert list(update.edits(again, again.cases[0], second.outcome)) == []
        assert path.read_text("utf-8").endswith("# end\n")


def test_what_contains_is_not_made_smaller(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"{PIPELINE}tests: {{one: {{input: ['a,1,b'], expect: {{steps: {{contains: [{{c: x}}]}}}}}}}}\n")
    read, ran = run(path)

    assert not ran.passed
    assert ran.outcome is not None
    assert list(update.edits(read, read.cases[0], ran.outcome)) == []


def test_a_byte_order_mark_and_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    text = f"{PIPELINE}tests:\n  one:\n    input: ['a,1,b']\n    expect: none\n".replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    read, ran = run(path)
    assert ran.outcome is not None

    update.write(str(path), list(update.edits(read, read.cases[0], ran.outcome)))

    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbfsource")
    assert b"input: ['a,1,b']\r\n" in data
    assert run(path)[1].passed


def test_what_cannot_be_written_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("a: {b: 1}\n")

    with pytest.raises(EtlError, match="cannot be written"):
        update.write(str(path), [update.Edit(("a", "]: ["), "x")])

    assert path.read_text() == "a: {b: 1}\n"
