"""Files of rules: YAML documents, Sigma's and our own mixed → a set of rules, and what could not be read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from etl.api import FileSearch
from etl.rules.correlation.families import resolved
from etl.rules.correlation.model import Correlation
from etl.rules.native import own_rule
from etl.rules.rule import Problem, Rule, RuleSet
from etl.rules.sigma.reader import Document, is_sigma, read_sigma
from etl.rules.sigma.values import Placeholders

SUFFIXES = (".yml", ".yaml")
LARGEST_BYTES = 16 << 20
"""A file of rules; a larger one is refused."""

FileStates = tuple[tuple[str, int, int], ...]
"""Of each file its path, when it changed, and its size; of each text its name, a number of its letters, and its size."""

NO_RULE = "there is no rule in it"
_TOO_LARGE = f"there are more than {LARGEST_BYTES >> 20} MiB of it"


def rule_files(patterns: Iterable[str]) -> list[str]:
    """Files that patterns (``rules/**/*.yml``), folders and names stand for, in order, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        wanted = os.path.join(glob.escape(pattern), "**") if os.path.isdir(pattern) else pattern
        matching = FileSearch(wanted).paths()
        found.update(dict.fromkeys(path for path in matching if os.path.isfile(path) and path.endswith(SUFFIXES)))
    return list(found)


def states_of(patterns: Sequence[str]) -> FileStates:
    """Changes when a file does, comes or goes."""
    seen = []
    for path in rule_files(patterns):
        try:
            found = os.stat(path)
        except OSError:  # gone since it was listed
            continue
        seen.append((path, found.st_mtime_ns, found.st_size))
    return tuple(seen)


def read_rules(
    paths: Sequence[str], inline: Sequence[Mapping[str, Any]] = (), placeholders: Placeholders | None = None
) -> RuleSet:
    """The rules of files and of the pipeline itself. Total: what is wrong becomes a problem, and the other rules stay."""
    problems: list[Problem] = []
    files: dict[str, tuple[Document, ...]] = {}
    if inline:
        files["rules"] = tuple(Document("rules", number, data) for number, data in enumerate(inline, 1))
    for path in paths:
        documents, wrong = documents_of(path)
        files[path] = tuple(documents)
        problems += wrong
    broken = {problem.file for problem in problems}
    empty = tuple(path for path in paths if not files[path] and path not in broken)
    return replace(resolved(rules_of(files, placeholders or {}, problems)), empty=empty)


def apart(own: RuleSet, found: RuleSet) -> RuleSet:
    """What was found in files and tables beside a step's own rules, without rules that have the id of one of these."""
    known = {rule.id: rule.line for rule in own.rules}
    problems = [
        Problem(rule.file, rule.line, f"its id {rule.id!r} is that of rules[{known[rule.id] - 1}] of the step itself", rule.title)
        for rule in found.rules
        if rule.id in known
    ]
    kept = tuple(rule for rule in found.rules if rule.id not in known)
    return replace(found, rules=kept, problems=(*found.problems, *problems))


def beside(own: RuleSet, found: RuleSet) -> RuleSet:
    """A step's own rules and those found in files and tables, as one set."""
    others = apart(own, found)
    return replace(others, rules=(*own.rules, *others.rules), problems=(*own.problems, *others.problems))


def rules_of(files: Mapping[str, Sequence[Document]], placeholders: Placeholders, problems: Sequence[Problem] = ()) -> RuleSet:
    """Documents → rules, beside the problems that are known already."""
    found: list[Rule | Correlation | Problem] = []
    found += _own(one for documents in files.values() for one in documents if not is_sigma(one.data))
    sigma = [[one for one in documents if is_sigma(one.data)] for documents in files.values()]
    if any(sigma):
        found += read_sigma(sigma, placeholders)
    wrong = [*problems, *(one for one in found if isinstance(one, Problem))]
    rules = tuple(_unique([one for one in found if isinstance(one, Rule)], wrong))
    correlations = tuple(_unlike([one for one in found if isinstance(one, Correlation)], rules, wrong))
    return RuleSet(rules, tuple(sorted(wrong, key=lambda one: (one.file, one.line))), correlations=correlations)


def _own(documents: Iterable[Document]) -> Iterator[Rule | Problem]:
    for document in documents:
        yield own_rule(document.data, document.file, document.line)


def _unique(rules: Sequence[Rule], problems: list[Problem]) -> Iterator[Rule]:
    """Of rules with the same id the first; a Sigma rule without one has its title, which others may have too."""
    known: dict[str, Rule] = {}
    for rule in rules:
        first = known.setdefault(rule.id, rule)
        if first is rule or (rule.logsource and rule.id == rule.title):
            yield rule
        else:
            problems.append(Problem(rule.file, rule.line, f"its id {rule.id!r} is that of {first.file}:{first.line}", rule.title))


def _unlike(correlations: Sequence[Correlation], rules: Sequence[Rule], problems: list[Problem]) -> Iterator[Correlation]:
    """Correlations whose ids are no rule's and no other correlation's."""
    known: dict[str, Rule | Correlation] = {rule.id: rule for rule in rules}
    for one in correlations:
        first = known.setdefault(one.id, one)
        if first is one:
            yield one
        else:
            problems.append(Problem(one.file, one.line, f"its id {one.id!r} is that of {first.file}:{first.line}", one.title))


def documents_of(path: str) -> tuple[list[Document], list[Problem]]:
    """What is written in a file, and what is wrong with it."""
    try:
        if os.path.getsize(path) > LARGEST_BYTES:
            raise ValueError(_TOO_LARGE)
        with open(path, encoding="utf-8") as file:
            return documents_in(path, file.read())
    except (OSError, ValueError) as error:
        return [], [Problem(path, 1, str(error))]


def documents_in(name: str, text: str) -> tuple[list[Document], list[Problem]]:
    """What is written in a text that came from anywhere, and what is wrong with it."""
    problems: list[Problem] = []
    try:
        if len(text) > LARGEST_BYTES:
            raise ValueError(_TOO_LARGE)
        return list(_parsed(name, text, problems)), problems
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problems.append(Problem(name, line, f"no YAML: {error.problem or error.context}"))
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        problems.append(Problem(name, 1, str(error) or type(error).__name__))
    return [], problems


def _parsed(path: str, text: str, problems: list[Problem]) -> Iterator[Document]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
            data = loader.construct_document(node)
            for one, item in zip(nodes, data if isinstance(data, list) else [data], strict=True):
                line = one.start_mark.line + 1
                if isinstance(item, dict):
                    yield Document(path, line, item)
                elif item is not None:
                    problems.append(Problem(path, line, f"a rule is a mapping, and this is {str(item)[:40]!r}"))
    finally:
        loader.dispose()
