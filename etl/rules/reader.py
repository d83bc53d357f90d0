"""Documents → a set of rules: Sigma's and our own, which have a name and a Spark SQL condition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.api import nearest
from etl.rules.conditions.tree import Leaf
from etl.rules.correlation.families import resolve_names
from etl.rules.correlation.model import Correlation
from etl.rules.files import Document, read_documents
from etl.rules.predicates.sql import Sql
from etl.rules.rule import LEVELS, Rule, RuleProblem, RuleSet
from etl.rules.sigma.reader import is_sigma, read_sigma
from etl.rules.sigma.values import Placeholders

_KEYS = ("name", "where", "level", "tags", "title", "id", "author", "metadata", "tests")


def read_rules(
    paths: Sequence[str], inline: Sequence[Mapping[str, Any]] = (), placeholders: Placeholders | None = None
) -> RuleSet:
    """The rules of files and of the pipeline itself. A rule that cannot be read becomes a problem, and the others stay."""
    problems: list[RuleProblem] = []
    files: dict[str, tuple[Document, ...]] = {}
    if inline:
        files["rules"] = tuple(Document("rules", number, data) for number, data in enumerate(inline, 1))
    for path in paths:
        documents, wrong = read_documents(path)
        files[path] = tuple(documents)
        problems += wrong
    broken = {problem.file for problem in problems}
    empty = tuple(path for path in paths if not files[path] and path not in broken)
    return replace(resolve_names(rules_from_documents(files, placeholders or {}, problems)), empty=empty)


def rules_from_documents(
    files: Mapping[str, Sequence[Document]], placeholders: Placeholders, problems: Sequence[RuleProblem] = ()
) -> RuleSet:
    """The rules of documents, with ``problems`` of the files and those of the documents."""
    found: list[Rule | Correlation | RuleProblem] = []
    found += (read_own_rule(one) for documents in files.values() for one in documents if not is_sigma(one.data))
    sigma = [[one for one in documents if is_sigma(one.data)] for documents in files.values()]
    if any(sigma):
        found += read_sigma(sigma, placeholders)
    wrong = [*problems, *(one for one in found if isinstance(one, RuleProblem))]
    rules = tuple(_drop_repeated_rules([one for one in found if isinstance(one, Rule)], wrong))
    correlations = tuple(_drop_repeated_correlations([one for one in found if isinstance(one, Correlation)], rules, wrong))
    return RuleSet(rules, tuple(sorted(wrong, key=lambda one: (one.file, one.line))), correlations=correlations)


def drop_own_ids(own: RuleSet, found: RuleSet) -> RuleSet:
    """The rules of files and tables without those that have the id of one of the step's own rules; these become problems."""
    known = {rule.id: rule.line for rule in own.rules}
    problems = [
        RuleProblem(
            rule.file, rule.line, f"its id {rule.id!r} is that of rules[{known[rule.id] - 1}] of the step itself", rule.title
        )
        for rule in found.rules
        if rule.id in known
    ]
    remaining_rules = tuple(rule for rule in found.rules if rule.id not in known)
    return replace(found, rules=remaining_rules, problems=(*found.problems, *problems))


def combine(own: RuleSet, found: RuleSet) -> RuleSet:
    """A step's own rules and those of files and tables, as one set."""
    others = drop_own_ids(own, found)
    return replace(others, rules=(*own.rules, *others.rules), problems=(*own.problems, *others.problems))


def read_own_rule(document: Document) -> Rule | RuleProblem:
    """A rule with a Spark SQL condition, or what is wrong with it."""
    data, name = document.data, document.data.get("name")
    if wrong := _find_mistake(data):
        return RuleProblem(document.file, document.line, wrong, str(name or ""))
    return Rule(
        id=str(data.get("id", name)),
        title=str(data.get("title", name)),
        condition=Leaf(Sql(data["where"], ())),
        level=data.get("level"),
        tags=tuple(data.get("tags", ())),
        author=data.get("author"),
        metadata=dict(data.get("metadata", {})),
        file=document.file,
        line=document.line,
        tests=tuple(data.get("tests", ())),
        name=str(name),
    )


def _find_mistake(data: Mapping[str, Any]) -> str | None:
    for key in ("name", "where"):
        if not isinstance(data.get(key), str) or not data[key].strip():
            return f"a rule has a {key!r}, which is text (a Sigma rule has a 'detection')"
    for key in data:
        if key not in _KEYS:
            return f"there is no key {key!r}; " + (
                nearest(str(key), _KEYS) or f"keys are {', '.join(_KEYS)}; others go under metadata"
            )
    if data.get("level") not in (None, *LEVELS):
        return f"the level {data['level']!r} is not one of {', '.join(LEVELS)}"
    if not isinstance(data.get("tags", []), list) or not all(isinstance(tag, str) for tag in data.get("tags", [])):
        return "tags are a list of texts"
    if not isinstance(data.get("tests", []), list):
        return "tests are a list: [{event: {field: value}}, {event: {…}, matches: false}]"
    if not isinstance(data.get("metadata", {}), dict):
        return "metadata is a mapping: {runbook: …}"
    return None


def _drop_repeated_rules(rules: Sequence[Rule], problems: list[RuleProblem]) -> Iterator[Rule]:
    """Of rules with one id the first. The id of a Sigma rule without one is its title, which other rules may have."""
    known: dict[str, Rule] = {}
    for rule in rules:
        first = known.setdefault(rule.id, rule)
        if first is rule or (rule.logsource and rule.id == rule.title):
            yield rule
        else:
            problems.append(_repeated_id(rule, first))


def _drop_repeated_correlations(
    correlations: Iterable[Correlation], rules: Sequence[Rule], problems: list[RuleProblem]
) -> Iterator[Correlation]:
    """Correlations whose id no rule and no earlier correlation has."""
    known: dict[str, Rule | Correlation] = {rule.id: rule for rule in rules}
    for one in correlations:
        first = known.setdefault(one.id, one)
        if first is one:
            yield one
        else:
            problems.append(_repeated_id(one, first))


def _repeated_id(one: Rule | Correlation, first: Rule | Correlation) -> RuleProblem:
    return RuleProblem(one.file, one.line, f"its id {one.id!r} is that of {first.file}:{first.line}", one.title)
