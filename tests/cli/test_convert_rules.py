"""``etl convert`` of filter expressions and scripts."""

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
    file.write_text("(a,isNull)\n(b,=,1)\n(c,=\n")

    ran = CliRunner().invoke(command, [str(file), "--from", "rules"])

    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert [line.split(": ")[0] for line in ran.stderr.splitlines() if "hint" not in line] == [f"{file}:1:4", f"{file}:3:1"]


def test_a_file_without_rules_and_one_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.rules").write_text("# nothing\n")
    (tmp_path / "f.txt").write_text("(a,=,1)")

    assert "there is no rule in it" in CliRunner().invoke(command, [str(tmp_path / "empty.rules")]).output
    assert "say what it holds with --from" in CliRunner().invoke(command, [str(tmp_path / "f.txt")]).output


def test_only_the_first_errors_of_a_file_are_shown(tmp_path: Path) -> None:
    (tmp_path / "f.rules").write_text("(a,eq,1)\n" * 150)

    ran = CliRunner().invoke(command, [str(tmp_path / "f.rules")])

    assert ran.stderr.splitlines()[-1] == "50 more errors and warnings"
    assert sum("unknown-function" in line for line in ran.stderr.splitlines()) == 100


def test_scripts_are_steps(tmp_path: Path) -> None:
    (tmp_path / "s.script").write_text("a=lower(b);\nsetHeader('x','y');\nrm(b);")

    ran = CliRunner().invoke(command, [str(tmp_path / "s.script")])

    assert yaml.safe_load(ran.stdout) == {
        "steps": [{"type": "set", "fields": {"a": "rsql_lower(b)"}}, {"type": "drop", "fields": ["b"]}]
    }
    assert "setHeader has no effect" in ran.stderr
    assert "(line 2)" in ran.stderr


def test_an_error_of_a_script_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "s.script").write_text("a=1;\nb=lowr(a);\n")

    ran = CliRunner().invoke(command, [str(tmp_path / "s.script")])

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[0].endswith("s.script:2:3: unknown-function: there is no function 'lowr'")
