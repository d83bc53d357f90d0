"""``${NAME}`` and env files."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.api import EtlError
from etl.config.document.parser import parse
from etl.config.environment import read_env_file, substitute
from etl.config.report import Report

ENV = {"A": "1", "EMPTY": "", "YAML": "[x]: {", "BYTES": "a\udcff"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("x${A}y${A}", "x1y1"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${NONE:-}", ""),
        ("${NONE:-a b}", "a b"),
        ("${A:?needed}", "1"),
        ("$${A}", "${A}"),
        ("$A {A} $", "$A {A} $"),
        ("${YAML}", "[x]: {"),
    ],
)
def test_values(text: str, expected: str) -> None:
    report = Report("f", parse(""))

    assert substitute([text, 5], ENV, report) == [expected, 5]
    assert report.problems == []


@pytest.mark.parametrize(
    ("text", "column", "code", "message"),
    [
        ("a: x ${NONE}", 6, "undefined-env", "the environment has no 'NONE'"),
        ("a: ' ${NONE:?set it}'", 6, "undefined-env", "the environment has no 'NONE': set it"),
        ("a: ${EMPTY:?set it}", 4, "undefined-env", "the environment has no 'EMPTY': set it"),
        ("a: x ${BYTES}", 6, "bad-env", "the value of 'BYTES' in the environment is not UTF-8"),
        ("a: ok ${1X}", 7, "bad-env", "'${' begins no ${NAME}, ${NAME:-default} or ${NAME:?message}"),
    ],
)
def test_problems(text: str, column: int, code: str, message: str) -> None:
    document = parse(text)
    report = Report("f", document)

    substitute(document.value, ENV, report)

    assert [(p.line, p.column, p.code, p.path, p.message) for p in report.problems] == [(1, column, code, "$.a", message)]


def test_env_file(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text('# comment\n\nA=1\nexport B = two words # comment\nC=\'a # b $X\'\nD="x\\n\\"y\\"" # end\nE=\nF=a#b\n')

    assert read_env_file(file) == {"A": "1", "B": "two words", "C": "a # b $X", "D": 'x\n"y"', "E": "", "F": "a#b"}


@pytest.mark.parametrize("line", ["no equals", "1A=x", "A='open-sesame", 'A="x" open-sesame'])
def test_bad_env_files_name_the_line_and_not_the_value(tmp_path: Path, line: str) -> None:
    file = tmp_path / ".env"
    file.write_text(f"OK=1\n{line}\n")

    with pytest.raises(EtlError, match=r"\.env:2: ") as raised:
        read_env_file(file)

    assert "open-sesame" not in str(raised.value)
