"""The lines of `etl explain` about rules: shared predicates, scans and witnesses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from etl.cli.explain import command
from etl.steps.detection.rules import Rules

SCHEMA = pa.schema([("process", pa.string()), ("user", pa.string()), ("ip", pa.string()), ("n", pa.int64())])


def notes(*rules: dict[str, Any], **options: Any) -> list[str]:
    return list(Rules.model_validate({"rules": list(rules), **options}).notes(SCHEMA))


def rule(name: str, where: str) -> dict[str, Any]:
    return {"name": name, "where": where}


def test_shared_predicates_databases_and_witnesses() -> None:
    message = notes(
        rule("a", "process = 'sh' and user = 'root'"),
        rule("b", "process = 'sh' and n = 1"),
        rule("c", "process like '%nginx%' and ip_in(ip, '10.0.0.0/8')"),
        rule("d", "process rlike 'net(sh|stat) .*add' or process rlike '^.{9}$'"),
        rule("e", "not user = 'guest'"),
        rule("f", "n = 1 and n <> 1 and user = 'x' and user = 'y'"),
    )

    assert message[1:] == [
        "predicates: 14, 12 of them distinct",
        "shared: process equals 'sh' by 2 rules, n = 1 by 2 rules",
        "user: 4 literals in one scan (4 whole); 1 test for null",
        "process: 2 literals in one scan (1 whole, 1 anywhere); 2 expressions (1 prefiltered by 1 literal of the scan, "
        "1 on every distinct text)",
        "n: 1 number by order; 1 test for null",
        "ip: 1 network in sorted bounds",
        "witnesses: 6 rules looked at only where one of 6 predicates holds (a run chooses by what it sees)",
        "never true here: 1 rule: 'f': n = 1 is required and excluded",
    ]


@pytest.mark.slow
def test_the_lines_stay_few_however_many_rules() -> None:
    # given
    wide = pa.schema([(f"f{n}", pa.string()) for n in range(40)])
    many = [rule(f"rule {n}", f"f{n % 40} is null" if n % 2 else f"f{n % 40} like '%a{'x' * 300}{n}%'") for n in range(500)]

    # when
    message = list(Rules.model_validate({"rules": many}).notes(wide))

    # then
    assert len(message) <= 14
    assert max(map(len, message)) <= 400
    assert "34 further fields: " in "\n".join(message)
    assert "without a witness, looked at in every row: 250 rules: 'rule 1', 'rule 3', 'rule 5', …" in message


def test_rules_of_tables_are_read_by_the_run() -> None:
    assert notes(tables={"hunt": "rule"})[0] == "the rules of table 'hunt' are read when the run starts"


def test_a_bad_taxonomy_is_reported() -> None:
    assert "cannot be read" in notes(rule("a", "n = 1"), fields="nowhere.yml")[0]


@pytest.mark.parametrize("where", ["process = 'sh'", "nothing = 1"])
def test_the_command_shows_them(tmp_path: Path, where: str) -> None:
    # given
    (tmp_path / "r.yml").write_text(f'{{name: a, where: "{where}"}}')
    file = tmp_path / "p.yaml"
    file.write_text(f"""
source: {{type: stdin}}
steps:
  - {{type: regex, patterns: ['^(?<process>.*)$']}}
  - {{type: rules, files: [{tmp_path}/*.yml]}}
sink: {{type: discard}}
""")

    # when
    message = CliRunner().invoke(command, [str(file)]).output

    # then
    first = "1 rule, version " if where.startswith("process") else "0 rules, version "
    assert first in message
    assert ("; 1 left out, the first: " in message) == where.startswith("nothing")
