"""Filter expressions of RocketMQ Streams become conditions with their verdicts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from messages import batch_of

from etl.expressions import analyse, compile_expression
from etl.rsql.problems import SourceError
from etl.rsql.rules_file import read_rules_file

OTHERWISE = {
    "(score,<=,10.5)": "a number is compared as a number: the text '9.5' is at most 10.5",
    "(vmip,isNotNull,x)&(ip,=,1.2.2.3)": "as documented: the old engine takes a field that is there for missing",
    "(vmip,isNull,x)&(ip,=,10.0.0.9)": "as documented: the old engine takes a missing field for one that is there",
}
"""Expressions whose verdicts are others, and why; those marked as bugs are left out."""

REFUSED = {"(vmip,isNull)": "rule-syntax"}
"""Expressions that are an error in the old engine → the code of the error here."""


def verdict(where: str, message: dict[str, Any]) -> bool:
    fields = set(re.findall(r"\w+", where))
    batch = batch_of(message, fields)
    return bool(compile_expression(where, batch.schema)(batch).values[0].as_py())


@pytest.mark.slow
def test_verdicts_are_those_of_the_old_engine(acceptance: Path) -> None:
    cases = [json.loads(line) for line in (acceptance / "rsql" / "rules.jsonl").read_text("utf-8").splitlines()]
    followed = [case for case in cases if not case.get("bug") and case["expr"] not in OTHERWISE]
    assert (len(cases), len(followed)) == (61, 47)

    wrong = []
    for case in followed:
        rules, errors = read_rules_file(case["expr"])
        if case["expr"] in REFUSED:
            found: Any = [error.code for error in errors]
            expected: Any = [REFUSED[case["expr"]]]
        else:
            assert not errors, errors
            found = [verdict(rules[0].where, message) for message in case["messages"]]
            expected = case["verdicts"]
        if found != expected:
            wrong.append(f"{case['expr']}: {rules and rules[0].where}: {found}, not {expected}")

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("(age,&gt;,18)&(age,&lt;,100)", [True, False, False, False]),
        ("(tag,in,a,b)", [True, True, False, False]),
        ("(cmd,regexCaseInsensitive,'^power.*')", [True, False, True, False]),
        ("(vmip,isNull,)", [False, False, True, False]),
        ("(empty,isNull,x)", [True, False, True, True]),
        ("(cmd,like,'%-la%ls%')", [False, False, False, False]),
        ("!(cmd,like,'%\\%')", [True, True, True, True]),
        ("!(tag,=,a)", [False, True, True, True]),
        ("!(vmip,=,1.1.11.1)", [True, False, True, False]),
        ("!((tag,=,a)|(tag,=,b))", [False, False, True, True]),
        ("(tag,=,a)||(tag,=,b)&&(uid,=,7)", [True, True, False, False]),
    ],
)
def test_what_the_old_engine_documents_and_does_not_do(acceptance: Path, expression: str, found: list[bool]) -> None:
    first = (acceptance / "rsql" / "rules.jsonl").read_text("utf-8").splitlines()[0]
    [rule], errors = read_rules_file(expression)

    assert not errors
    assert [verdict(rule.where, message) for message in json.loads(first)["messages"]] == found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("(a,=,1", "1:1: rule-syntax: this '(' is not closed"),
        ("((a,=,1)", "1:1: rule-syntax: this '(' is not closed"),
        ("(a,=,'1)", "1:6: rule-syntax: this quote is not closed"),
        ("(a,=,1)&", "1:9: rule-syntax: '(' is expected, not the end"),
        ("a = 1", "1:1: rule-syntax: '(' is expected, not 'a = 1'"),
        ("(,=,1)", "1:2: rule-syntax: the part has no field"),
        ("(a,=)", "1:4: rule-syntax: the function '=' has no value"),
        ("(a,>,int,x)", "1:4: invalid-value: 'x' is not a number"),
        ("(a,ipContains,10.0.0.300)", "1:4: invalid-value: '10.0.0.300' is not a network"),
        ("(" * 200 + "a,=,1" + ")" * 200, "1:102: rule-syntax: more than 100 brackets are inside each other"),
    ],
)
def test_errors_name_the_place(text: str, shown: str) -> None:
    rules, errors = read_rules_file(text)

    assert not rules
    assert errors[0].shown("f", text).removeprefix("f:").startswith(shown)


@pytest.mark.parametrize(
    ("text", "where", "shown"),
    [
        (
            "(a,Equals,1)",
            "false",
            "4: warning: unknown-function: there is no function 'Equals': the part is never true\n  hint: ",
        ),
        ("!(a,notlike,1)|(b,=,2)", "(not coalesce(false, false) or cast(b as string) = '2')", "hint: did you mean 'notLike'?"),
        ("(a, = ,1)", "false", "hint: write '=' without blanks"),
        ("(a,in_resouce,'n;l')&(b,=,2)", "false and cast(b as string) = '2'", "hint: a step lookup with the table"),
        ("(a,operator,'nosuch(a)')", "false", "there is no function 'nosuch': the part is never true"),
    ],
)
def test_a_part_with_an_unknown_function_is_never_true_and_a_warning_says_so(text: str, where: str, shown: str) -> None:
    [rule], errors = read_rules_file(text)

    assert (rule.where, errors) == (where, [])
    assert shown in rule.warnings[0].shown("f", text)


def test_a_file_holds_many_rules_with_names_and_comments() -> None:
    text = "# shells\nshell: (cmd,contains,sh)\n  & (uid,=,0)\n\n(ip,=,1.2.3.4); (a,=)\nlast = !(a,=,x)\nshell: (a,=,y)\n"

    rules, errors = read_rules_file(text)

    assert [(rule.name, rule.where) for rule in rules] == [
        ("shell", "contains(cmd, 'sh') and cast(uid as string) = '0'"),
        ("rule_2", "ip = '1.2.3.4'"),
        ("last", "not coalesce(a = 'x', false)"),
    ]
    assert [(error.code, error.at) for error in errors] == [("rule-syntax", 68), ("duplicate-name", 87)]
    assert isinstance(errors[0], SourceError)


def test_a_filter_expression_in_a_pipeline_has_a_hint() -> None:
    schema = batch_of({"ip": "1.2.3.4"}).schema

    [finding] = analyse("(ip,=,1.2.2.3)&((uid,=,7)|(uid,=,8))", schema).findings
    [other] = analyse("(ip, 1", schema).findings

    assert "etl convert --from rules" in (finding.hint or "")
    assert "etl convert" not in (other.hint or "")
