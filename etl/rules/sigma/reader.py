"""Sigma rules (specification 2.1), read by pySigma: documents → rules, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etl.rules.conditions.tree import Condition, both, either, opposite
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import correlation_of
from etl.rules.rule import Problem, Rule
from etl.rules.search.regex_search import BadRegexError
from etl.rules.sigma.counts import counts_expanded
from etl.rules.sigma.hints import with_hint
from etl.rules.sigma.values import Placeholders, UnsupportedError, condition_of

_ACTIONS = ("global", "reset")
_TOLD_APART = frozenset(
    ("title", "id", "name", "level", "tags", "author", "logsource", "detection", "correlation", "filter", "action", "tests")
)
"""Keys of a rule that are no metadata."""


@dataclass(frozen=True)
class Document:
    """One document of a file of rules."""

    file: str
    line: int
    data: Mapping[str, Any]


def is_sigma(data: object) -> bool:
    """Whether a document is of Sigma's making."""
    return isinstance(data, Mapping) and bool({"detection", "correlation", "filter", "action"} & set(data))


def read_sigma(files: Sequence[Sequence[Document]], placeholders: Placeholders) -> Iterator[Rule | Correlation | Problem]:
    """The rules of all files, each given as its documents, with the filters of any of them applied."""
    if (missing := lacking()) is not None:
        yield from (
            Problem(one.file, one.line, missing, str(one.data.get("title", ""))) for documents in files for one in documents
        )
        return
    from sigma.correlations import SigmaCorrelationRule

    loaded: list[tuple[Document, Any]] = []
    filters: list[Any] = []
    for documents in files:
        for document, made in _loaded(documents):
            if isinstance(made, Problem):
                yield made
            elif isinstance(made, SigmaCorrelationRule):
                yield correlation_of(document, made)
            elif hasattr(made, "filter"):
                filters.append(made)
            else:
                loaded.append((document, made))
    for document, rule in loaded:
        yield _rule(document, rule, filters, placeholders)


def lacking() -> str | None:
    """What to install when pySigma is not there."""
    try:
        import sigma.collection  # noqa: F401
    except ImportError as error:
        return f"Sigma rules need pySigma ({error}): pip install 'sluice-etl[sigma]'"
    return None


def _loaded(documents: Sequence[Document]) -> Iterator[tuple[Document, Any]]:
    """pySigma's rules and filters, a document at a time, below the global parts in front of each."""
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
                counts_expanded([_copy(one) for one in (*shared, *repeated, data)]),
                collect_errors=True,
                collect_filters=True,
                resolve_references=False,
                policy=policy(),
            )
        except (SigmaError, ValueError, TypeError, AttributeError, KeyError) as error:
            yield document, _problem(document, data, error)
            continue
        before = data if "action" not in data else before
        made = (found.rules or found.filters or [None])[-1]
        if found.errors or made is None:
            yield from ((document, _problem(document, data, error)) for error in (*found.errors,) or ("no rule in it",))
        else:
            yield document, made


def _copy(value: Any) -> Any:
    """pySigma writes into what it is given."""
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _add_modifiers() -> None:
    """Modifiers of the specification that pySigma 2.0 knows by another name only."""
    from sigma.modifiers import SigmaWideModifier, modifier_mapping

    modifier_mapping.setdefault("utf16le", SigmaWideModifier)


def _problem(document: Document, data: Mapping[str, Any], error: object) -> Problem:
    names = tuple(str(data[key]) for key in ("id", "name") if data.get(key))
    return Problem(document.file, document.line, with_hint(error), str(data.get("title") or data.get("name") or ""), names)


def _rule(document: Document, rule: Any, filters: Sequence[Any], placeholders: Placeholders) -> Rule | Problem:
    from sigma.exceptions import SigmaError

    try:
        for one in filters:
            rule = one.apply_on_rule(rule)
        parsed = [condition.parsed for condition in rule.detection.parsed_condition]
        condition = either(_condition(one, placeholders) for one in parsed if one is not None)
    except (SigmaError, UnsupportedError, BadRegexError, RecursionError, ValueError) as error:
        return _problem(document, document.data, error)
    return Rule(
        id=str(rule.id) if rule.id else str(rule.name or rule.title),
        title=str(rule.title),
        condition=condition,
        level=rule.level.name.lower() if rule.level else None,
        tags=tuple(str(tag) for tag in rule.tags),
        author=rule.author,
        metadata={key: value for key, value in document.data.items() if key not in _TOLD_APART},
        logsource=_logsource(rule.logsource),
        file=document.file,
        line=document.line,
        tests=tuple(document.data.get("tests") or ()),
        name=str(rule.name or ""),
    )


def _logsource(source: Any) -> tuple[tuple[str, str], ...]:
    parts = {name: getattr(source, name) for name in ("category", "product", "service")}
    return tuple((name, value) for name, value in parts.items() if value)


def _condition(node: Any, placeholders: Placeholders) -> Condition:
    from sigma import conditions as c

    if isinstance(node, c.ConditionNOT):
        return opposite(_condition(node.args[0], placeholders))
    if isinstance(node, c.ConditionAND | c.ConditionOR):
        join = both if isinstance(node, c.ConditionAND) else either
        return join(_condition(part, placeholders) for part in node.args)
    if isinstance(node, c.ConditionFieldEqualsValueExpression):
        return condition_of(node.field, node.value, placeholders)
    return condition_of(None, node.value, placeholders)


def selection(definition: Mapping[str, Any]) -> Condition:
    """What is written as a selection of a Sigma rule; an empty one is true for all events."""
    from sigma.rule import SigmaDetection, SigmaDetections

    from etl.rules.sigma.regex_policy import policy

    if not definition:
        return both([])
    _add_modifiers()
    detections = SigmaDetections.from_dict({"selection": dict(definition), "condition": "selection"}, policy=policy())
    assert isinstance(detections["selection"], SigmaDetection)
    return _condition(detections.parsed_condition[0].parsed, {})
