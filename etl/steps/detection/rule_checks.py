"""Findings of `etl lint` about rules: their conditions, their files, their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import FileLocation, Finding, LookupTable, Schema, format_type, nearest
from etl.rules.compiled_rules import compile_rules
from etl.rules.files import NO_RULE, find_rule_files
from etl.rules.problem_locations import locate_problem
from etl.rules.reader import drop_own_ids, read_rules
from etl.rules.rule import RuleProblem, RuleSet
from etl.rules.sigma.taxonomy import Taxonomy

if TYPE_CHECKING:
    from etl.steps.detection.rule_sources import OwnRule

MAX_CHECKED = 50
"""Files of rules that `etl lint` reads; ``etl rules check`` reads any number."""

_WILD = re.compile(r"[*?\[]")


def own_findings(rules: Sequence[OwnRule], incoming: Schema) -> Iterator[Finding]:
    """Findings about ids and conditions of rules in the pipeline itself."""
    from etl.expressions import analyse

    yield from _same_ids(rules)
    for index, rule in enumerate(rules):
        analysis = analyse(rule.where, incoming)
        if own := getattr(rule.where, "functions", ()):  # `etl.options.CallingText`: a rule is compiled from its text alone
            message = f"rules do not call functions of your own, such as {own[0].name!r}"
            hint = f"compute {own[0].name}() in a `set` step before"
            yield Finding("unknown-function", message, ("rules", index, "where"), hint, at=0)
        elif not analysis.errors and analysis.spark_reason:
            message = f"the condition needs Spark, where rules do not run: {analysis.spark_reason}"
            yield Finding("rule-needs-spark", message, ("rules", index, "where"), "use a filter for it", at=0)
        else:
            yield from analysis.condition_findings_at("rules", index, "where")


def _same_ids(rules: Sequence[OwnRule]) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, rule in enumerate(rules):
        known = first.setdefault(rule.id or rule.name, index)
        if known != index:
            key = "id" if rule.id else "name"
            message = f"rules[{known}] has the id {rule.id!r}, too" if rule.id else f"another rule has the name {rule.name!r}"
            yield Finding("duplicate-rule", message, ("rules", index, key), None if rule.id else "give one of them an `id`")


def table_findings(columns: Mapping[str, str], tables: Mapping[str, LookupTable]) -> Iterator[Finding]:
    """Findings about the column with rules of each table."""
    for name, table in tables.items():
        column, known = columns[name], table.names()
        if known is not None and column not in known:
            yield Finding("unknown-column", f"table {name!r} has no column {column!r}", ("tables", name), nearest(column, known))
        elif table.column(column) != pa.string():
            found = format_type(table.column(column))
            yield Finding("wrong-type", f"rules are texts, and column {column!r} is {found}", ("tables", name))


def file_findings(patterns: Sequence[str], own: RuleSet, names: Taxonomy, incoming: Schema) -> Iterator[Finding]:
    """Findings about files that are missing or empty, and about rules that cannot be loaded together with the step's own, or not
    matched against these fields."""
    files: list[str] = []
    for index, pattern in enumerate(patterns):
        matching = find_rule_files([pattern])
        files += matching
        if not matching and not _WILD.search(pattern):  # rules may be published later
            yield Finding("no-rule-files", f"no file of rules is found by {pattern!r}", ("files", index), severity="warning")
    if files and len(files) <= MAX_CHECKED:
        read = read_rules(files, (), names.placeholders)
        for path in read.empty:
            yield Finding("no-rule-files", NO_RULE, ("files",), severity="warning", location=FileLocation(path, 1))
        found = compile_rules(drop_own_ids(own, read), names, incoming)
        for problem in sorted(found.problems, key=lambda one: (one.file, one.line)):
            yield rule_finding(problem)


def rule_finding(problem: RuleProblem) -> Finding:
    """The finding about a rule of a file, at its key there."""
    found = locate_problem(problem)
    location = FileLocation(problem.file, found.line, found.column, found.key)
    return Finding("bad-rule", problem.text, ("files",), "the rule is left out", "warning", location=location)
