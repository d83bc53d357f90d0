"""Checks rules that are being written, and runs their test events on the engine that a pipeline has."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from etl.api import cut
from etl.rules.compiled_rules import drop_bad_sql
from etl.rules.problem_locations import locate_problem
from etl.rules.reader import read_rules
from etl.rules.report import report_lines
from etl.rules.rule import Rule, RuleProblem, RuleSet
from etl.rules.sigma.taxonomy import read_taxonomy
from etl.rules.test_events import find_failure

MAX_TESTS = 200
"""Maximum number of test events that are run; each compiles its rule, which takes milliseconds."""

MAX_SHOWN = 200
"""Maximum number of problems, rules and lines of the report that the page gets."""

MAX_CHARACTERS = 2_000
"""Maximum number of characters of a text."""


def try_rules(text: str) -> dict[str, Any]:
    """The findings of `etl rules check` and the results of `etl rules test` for a text of rules, Sigma's or our own."""
    taxonomy = read_taxonomy(None)
    with TemporaryDirectory(prefix="etl-studio-") as folder:
        path = Path(folder) / "rules.yml"
        path.write_text(text, "utf-8", "replace")
        rules = drop_bad_sql(read_rules([str(path)]), None)
        problems = [_problem(one) for one in rules.problems[:MAX_SHOWN]]
        report = [cut(line.replace(f"{folder}/", ""), MAX_CHARACTERS) for line in report_lines(rules, taxonomy, None)]
    tests = [(rule, number, case) for rule in rules.rules for number, case in enumerate(rule.tests, 1)]
    results = [
        {"rule": cut(rule.title, MAX_CHARACTERS), "line": rule.line, "number": number, "failure": _failure(rule, case, taxonomy)}
        for rule, number, case in islice(tests, MAX_TESTS)
    ]
    return {"problems": problems, "report": report[:MAX_SHOWN], "rules": _count(rules), "tests": results, "all_tests": len(tests)}


def _count(rules: RuleSet) -> int:
    return len(rules.rules) + len(rules.correlations)


def _problem(problem: RuleProblem) -> dict[str, Any]:
    """A problem as the editor shows it, at the key that it is about."""
    location = locate_problem(problem)
    position = {"line": location.line, "column": location.column}
    return {**position, "code": "rule", "severity": "error", "message": cut(problem.message, MAX_CHARACTERS)}


def _failure(rule: Rule, case: Any, taxonomy: Any) -> str | None:
    failure = find_failure(rule, case, taxonomy)
    return None if failure is None else cut(failure, MAX_CHARACTERS)
