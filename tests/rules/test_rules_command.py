"""``etl rules``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from etl.cli.rules import command

OWN = """\
name: root
where: user_name = 'root'
tests:
  - event: {user_name: root}
  - {event: {user_name: guest}, matches: false}
---
name: wide
where: cast(a as double) > cast(b as double)
"""

SIGMA = """\
title: Shell
id: 5a0a5a52-3a2b-4d7c-9f53-0c2f3a7a9d11
logsource: {category: process_creation, product: linux}
detection:
  selection: {Image|endswith: /sh, Args|re: '\\w+'}
  condition: selection
tests:
  - event: {Image: /bin/sh, Args: x}
  - event: {Image: /bin/ls, Args: x}
---
title: Broken
logsource: {category: test}
detection:
  selection: {f|shout: a}
  condition: selection
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.yml").write_text(OWN)
    (tmp_path / "sigma.yml").write_text(SIGMA)
    return tmp_path


def etl(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_check_lists_what_is_loaded_and_what_is_not(folder: Path) -> None:
    # when
    shown_text = etl("check", str(folder), "--columns", "Image, user_name, a, b")

    # then
    assert shown_text.exit_code == 1
    assert f"{folder}/sigma.yml:14: 'Broken': " in shown_text.output
    assert "3 rules loaded, 1 problem," in shown_text.output
    assert "the stream has no field 'Args', which 1 rule asks for" in shown_text.output
    assert "slower: " in shown_text.output


UNREADABLE = """\
name: open
where: a = 'x' and
---
name: unknown function
where: frobnicate(a)
---
name: number
where: length(a) + 1
---
name: typed by nobody yet
where: a > 3 and b like '%x' and ip_in(c, '10.0.0.0/8')
"""


def test_check_reports_sql_that_is_wrong_for_any_stream(folder: Path) -> None:
    # given
    file = folder / "sql.yml"
    file.write_text(UNREADABLE)

    # when
    shown_text, known = etl("check", str(file)), etl("check", str(file), "--columns", "a,b")

    # then
    assert f"{file}:2: 'open': something is missing beside 'and'" in shown_text.output
    assert f"{file}:5: 'unknown function': there is no function 'frobnicate'" in shown_text.output
    assert f"{file}:8: 'number': a condition is needed" in shown_text.output
    assert "1 rule loaded, 3 problems," in shown_text.output
    assert f"{file}:11: 'typed by nobody yet': there is no field 'c' here" in known.output


def test_an_event_without_fields_is_an_event(folder: Path) -> None:
    # given
    file = folder / "none.yml"
    file.write_text("name: nobody\nwhere: message is null\ntests: [{event: {}}, {event: {message: x}, matches: false}]\n")

    # when
    shown_text = etl("test", str(file))

    # then
    assert (shown_text.exit_code, shown_text.output) == (0, "2 tests of 1 rule, 0 failed\n")


def test_check_ends_with_one_when_it_is_strict(folder: Path) -> None:
    assert etl("check", str(folder), "--strict").exit_code == 1
    assert etl("check", str(folder / "own.yml"), "--strict").exit_code == 0


def test_check_reports_rules_for_other_log_sources(folder: Path) -> None:
    assert "linux" in etl("check", str(folder), "--fields", "sigma/windows.yml").output


def test_tests_of_rules_are_run(folder: Path) -> None:
    # when
    good, bad = etl("test", str(folder / "own.yml")), etl("test", str(folder))

    # then
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert "2 tests of 2 rules, 0 failed" in good.output
    assert f"{folder}/sigma.yml:1: 'Shell', test 2: it does not fire" in bad.output


def test_wrong_use_is_reported(folder: Path) -> None:
    (folder / "empty").mkdir()
    assert "no files of rules there" in etl("check", str(folder / "empty")).output
    assert "built in are sigma/windows.yml" in etl("check", str(folder), "--fields", "sigma/mac.yml").output
