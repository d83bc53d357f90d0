"""`etl list patterns` and `etl describe` of a pattern."""

from __future__ import annotations

import pytest

from etl.cli import main as main_module


def etl(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main_module.main(list(arguments))
    return int(ended.value.code or 0)


def test_list_shows_name_file_and_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("list", "patterns") == 0

    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert ["SYSLOGBASE", "core", "ecs-v1, legacy"] in rows
    assert ["ZEEK_CONN", "zeek", "ecs-v1"] in rows
    assert len(rows) == len({name for name, _, _ in rows}) > 350
    assert not [name for name, _, _ in rows if name.startswith("_")]


def test_list_is_narrowed_by_name_file_or_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("list", "patterns", "haproxyuri") == 0
    assert etl("list", "patterns", "zeek") == 0
    assert etl("list", "parsers", "gro") == 0

    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[0] == "HAPROXYURI"
    assert names[1:-1] == sorted(name for name in names if "ZEEK" in name)
    assert names[-1] == "grok"


def test_list_of_nothing_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("list", "patterns", "syslogbas3") == 2
    assert "did you mean 'SYSLOGBASE'?" in capsys.readouterr().err


def test_describe_shows_what_a_pattern_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("describe", "SYSLOGBASE") == 0

    first, second = capsys.readouterr().out.split("\n\nSYSLOGBASE (pattern, set legacy, file core)")
    assert first.startswith("SYSLOGBASE (pattern, set ecs-v1, file core)\n\nDefinition\n  %{SYSLOGTIMESTAMP:timestamp} ")
    assert "characters)" in first.partition("Expanded")[2]
    assert "\n  process.pid               bigint  4711\n  " not in first  # it is the last of the fields
    assert "\n  process.pid               bigint  4711\n" in first
    assert "\n  log.syslog.priority       bigint\n" in first
    assert "\nExample\n  Feb 29 23:59:58 gate sshd[4711]: " in first
    assert "\n  pid        string  '4711'\n" in second


def test_describe_of_what_all_sets_share_is_one_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("describe", "WORD") == 0

    expected = "WORD (pattern, sets ecs-v1 and legacy, file core)\n\nDefinition\n  \\b\\w+\\b\n\nExample\n  word_1\n"
    assert capsys.readouterr().out == expected


def test_describe_of_an_unknown_name_suggests_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    assert etl("describe", "SYSLOGBAS") == 2
    assert "did you mean 'SYSLOGBASE'?" in capsys.readouterr().err
