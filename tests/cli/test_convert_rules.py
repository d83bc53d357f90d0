"""``etl convert`` of filter expressions."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner

from etl.cli.convert import command


def test_rules_are_those_of_the_step(tmp_path: Path) -> None:
    (tmp_path / "f.rules").write_text("root: (uid,=,0)\n(cmd,contains,'sh')\n")

    ran = CliRunner().invoke(command, [str(tmp_path / "f.rules")])

    assert ran.exit_code == 0
    assert yaml.safe_load(ran.output) == [
        {"name": "root", "where": "cast(uid as string) = '0'"},
        {"name": "rule_2", "where": "contains(cmd, 'sh')"},
    ]


def test_errors_of_all_rules_are_shown_and_nothing_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "f.txt"
    file.write_text("(a,eq,1)\n(b,=,1)\n(c,=\n")

    ran = CliRunner().invoke(command, [str(file), "--from", "rules"])

    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert [line.split(": ")[0] for line in ran.stderr.splitlines() if "hint" not in line] == [f"{file}:1:4", f"{file}:3:1"]


def test_a_file_without_rules_and_one_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.rules").write_text("# nothing\n")
    (tmp_path / "f.txt").write_text("(a,=,1)")

    assert "there is no rule in it" in CliRunner().invoke(command, [str(tmp_path / "empty.rules")]).output
    assert "say what it holds with --from" in CliRunner().invoke(command, [str(tmp_path / "f.txt")]).output
