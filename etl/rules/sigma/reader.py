"""Sigma rules (specification 2.1): documents → rules or problems, by pySigma."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etl.rules.conditions.tree import Condition, all_of, any_of, negate
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import to_correlation
from etl.rules.files import Document
from etl.rules.predicates.predicate import UnsupportedError
from etl.rules.rule import Rule, RuleProblem
from etl.rules.search.regex_search import BadRegexError
from etl.rules.sigma.counts import expand_counts
from etl.rules.sigma.hints import add_hint
from etl.rules.sigma.values import Placeholders, condition_of

_ACTIONS = ("global", "reset")
_NO_METADATA = frozenset(
    ("title", "id", "name", "level", "tags", "author", "logsource", "detection", "correlation", "filter", "action", "tests")
)
"""Keys of a rule that are not metadata."""


def is_sigma(data: object) -> bool:
    """Whether a document is one of Sigma's."""
    return isinstance(data, Mapping) and bool({"detection", "correlation", "filter", "action"} & set(data))


def read_sigma(files: Sequence[Sequence[Document]], placeholders: Placeholders) -> Iterator[Rule | Correlation | RuleProblem]:
    """The rules and correlations of files, each given as its documents; filters apply to the rules of all files."""
    if (missing := find_missing_package()) is not None:
        yield from (
            RuleProblem(one.file, one.line, missing, str(one.data.get("title", ""))) for documents in files for one in documents
        )
        return
    from sigma.correlations import SigmaCorrelationRule

    loaded: list[tuple[Document, Any]] = []
    filters: list[Any] = []
    for documents in files:
        for document, made in _load(documents):
            if isinstance(made, RuleProblem):
                yield made
            elif isinstance(made, SigmaCorrelationRule):
                yield to_correlation(document, made)
            elif hasattr(made, "filter"):
                filters.append(made)
            else:
                loaded.append((document, made))
    for document, rule in loaded:
        yield _to_rule(document, rule, filters, placeholders)


def find_missing_package() -> str | None:
    """A message that says what to install if pySigma is missing; None if it is installed."""
    try:
        import sigma.collection  # noqa: F401
    except ImportError as error:
        return f"Sigma rules need pySigma ({error}): pip install 'sluice-etl[sigma]'"
    return None


def _load(documents: Sequence[Document]) -> Iterator[tuple[Document, Any]]:
    """pySigma's rules and filters, one document at a time, each with the global parts before it."""
    from sigma.collection import SigmaCollection
    from sigma.exceptions import SigmaError

    from etl.rules.sigma.regex_policy import policy

    _add_modifiers()
    shared: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for document in documents:
        data = dict(document.data)
        if data.get("action") in _ACTIONS:
            shared.append(data)
            continue
        repeated = [before] if data.get("action") == "repeat" and before else []
        try:
            found = SigmaCollection.from_dicts(
                expand_counts([_copy(one) for one in (*shared, *repeated, data)]),
                collect_errors=True,
                collect_filters=True,
                resolve_references=False,
                policy=policy(),
            )
        except (SigmaError, ValueError, TypeError, AttributeError, KeyError) as error:
            yield document, _to_problem(document, data, error)
            continue
        before = data if "action" not in data else before
        made = (found.rules or found.filters or [None])[-1]
        if found.errors or made is None:
            yield from ((document, _to_problem(document, data, error)) for error in (*found.errors,) or ("no rule in it",))
        else:
            yield document, made


def _copy(value: Any) -> Any:
    """Copy nested values: pySigma changes its input."""
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _add_modifiers() -> None:
    """Add modifiers of the specification that pySigma 2.0 has only under another name."""
    from sigma.modifiers import SigmaWideModifier, modifier_mapping

    modifier_mapping.setdefault("utf16le", SigmaWideModifier)


def _to_problem(document: Document, data: Mapping[str, Any], error: object) -> RuleProblem:
    names = tuple(str(data[key]) for key in ("id", "name") if data.get(key))
    return RuleProblem(document.file, document.line, add_hint(error), str(data.get("title") or data.get("name") or ""), names)


def _to_rule(document: Document, rule: Any, filters: Sequence[Any], placeholders: Placeholders) -> Rule | RuleProblem:
    from sigma.exceptions import SigmaError

    try:
        for one in filters:
            rule = one.apply_on_rule(rule)
        parsed = [condition.parsed for condition in rule.detection.parsed_condition]
        condition = any_of(_to_condition(one, placeholders) for one in parsed if one is not None)
    except (SigmaError, UnsupportedError, BadRegexError, RecursionError, ValueError) as error:
        return _to_problem(document, document.data, error)
    return Rule(
        id=str(rule.id) if rule.id else str(rule.name or rule.title),
        title=str(rule.title),
        condition=condition,
        level=rule.level.name.lower() if rule.level else None,
        tags=tuple(str(tag) for tag in rule.tags),
        author=rule.author,
        metadata={key: value for key, value in document.data.items() if key not in _NO_METADATA},
        logsource=_logsource_parts(rule.logsource),
        file=document.file,
        line=document.line,
        tests=tuple(document.data.get("tests") or ()),
        name=str(rule.name or ""),
    )


def _logsource_parts(source: Any) -> tuple[tuple[str, str], ...]:
    parts = {name: getattr(source, name) for name in ("category", "product", "service")}
    return tuple((name, value) for name, value in parts.items() if value)


def _to_condition(node: Any, placeholders: Placeholders) -> Condition:
    from sigma import conditions as c

    if isinstance(node, c.ConditionNOT):
        return negate(_to_condition(node.args[0], placeholders))
    if isinstance(node, c.ConditionAND | c.ConditionOR):
        join = all_of if isinstance(node, c.ConditionAND) else any_of
        return join(_to_condition(part, placeholders) for part in node.args)
    if isinstance(node, c.ConditionFieldEqualsValueExpression):
        return condition_of(node.field, node.value, placeholders)
    return condition_of(None, node.value, placeholders)


def read_selection(definition: Mapping[str, Any]) -> Condition:
    """The condition of a selection, as in a Sigma rule; an empty one is true for all events."""
    from sigma.rule import SigmaDetection, SigmaDetections

    from etl.rules.sigma.regex_policy import policy

    if not definition:
        return all_of([])
    _add_modifiers()
    detections = SigmaDetections.from_dict({"selection": dict(definition), "condition": "selection"}, policy=policy())
    assert isinstance(detections["selection"], SigmaDetection)
    return _to_condition(detections.parsed_condition[0].parsed, {})
