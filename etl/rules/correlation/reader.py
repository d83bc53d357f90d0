"""pySigma's correlation rules → correlations, or problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from etl.rules.correlation.model import (
    KINDS,
    OF_VALUES,
    ORDER,
    BooleanExpression,
    Correlation,
    Expression,
    RulePresent,
    Threshold,
    rules_in,
    words_in,
)
from etl.rules.rule import RuleProblem
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    from etl.rules.files import Document

MAX_EVENTS = 10_000
"""Largest number of events in the state of a group; no correlation can ask for more."""

SECOND = 1_000_000


class UnsupportedCorrelationError(ValueError):
    """A correlation cannot run; the message says why."""


def to_correlation(document: Document, made: Any) -> Correlation | RuleProblem:
    """The correlation of a SigmaCorrelationRule, ``made`` from a document."""
    try:
        return _correlation(document, made)
    except UnsupportedCorrelationError as error:
        return RuleProblem(document.file, document.line, str(error), str(made.title or ""))


def _correlation(document: Document, made: Any) -> Correlation:
    kind = made.type.name.lower()
    if kind not in KINDS:
        raise UnsupportedCorrelationError(f"the correlation type {kind!r} is not supported; types are {', '.join(KINDS)}")
    condition = _condition(kind, made, (document.data.get("correlation") or {}).get("condition") is None)
    rules = tuple(one.reference for one in made.rules or ())
    if not rules and not isinstance(condition, Threshold):
        rules = tuple(dict.fromkeys(rules_in(condition)))
    if not rules:
        raise UnsupportedCorrelationError("it names no rules")
    return Correlation(
        id=str(made.id or made.name or made.title),
        title=str(made.title),
        kind=kind,
        rules=rules,
        group_by=tuple(made.group_by or ()),
        span_micros=made.timespan.seconds * SECOND,
        condition=condition,
        values=_values(kind, made),
        percentile=_percentile(kind, made),
        aliases={one.alias: {ref.reference: str(name) for ref, name in one.mapping.items()} for one in made.aliases},
        generate=made.generate,
        name=str(made.name or ""),
        level=made.level.name.lower() if made.level else None,
        tags=tuple(str(tag) for tag in made.tags),
        author=made.author,
        file=document.file,
        line=document.line,
    )


def _condition(kind: str, made: Any, missing: bool) -> Threshold | Expression:
    count = len(made.rules or ())
    if kind in ("temporal", ORDER) and missing:
        return Threshold("gte", count)
    if hasattr(made.condition, "parsed"):
        return _check_order(kind, _expression(made.condition.parsed))
    condition = Threshold(made.condition.op.name.lower(), made.condition.count)
    if kind == ORDER and condition != Threshold("gte", count):
        raise UnsupportedCorrelationError(f"{ORDER} asks for all of its {count_noun(count, 'rule')}: leave the condition out")
    if kind in ("event_count", "value_count") and condition.number > MAX_EVENTS:
        found = f"the condition asks for {condition.number:,} events"
        raise UnsupportedCorrelationError(f"{found}, and no more than {MAX_EVENTS:,} of a group are remembered")
    return condition


def _check_order(kind: str, expression: Expression) -> Expression:
    if kind == ORDER and set(words_in(expression)) - {"and"}:
        raise UnsupportedCorrelationError(f"the order of {ORDER} is given by 'and' alone, without 'or' and 'not'")
    return expression


def _expression(node: Any) -> Expression:
    if hasattr(node, "reference"):
        return RulePresent(str(node.reference))
    words: dict[str, Literal["and", "or", "not"]] = {
        "CorrelationConditionAND": "and",
        "CorrelationConditionOR": "or",
        "CorrelationConditionNOT": "not",
    }
    return BooleanExpression(words[type(node).__name__], tuple(_expression(part) for part in node.args))


def _values(kind: str, made: Any) -> tuple[str, ...]:
    if kind not in OF_VALUES:
        return ()
    named = made.condition.fieldref
    names = tuple(str(name) for name in named) if isinstance(named, list) else (str(named),)
    if len(names) != 1 and kind != "value_count":
        raise UnsupportedCorrelationError(f"{kind} measures one field, and these are {', '.join(names)}")
    return names


def _percentile(kind: str, made: Any) -> float:
    if kind != "value_percentile":
        return 0.5
    found = made.condition.percentile
    if found is None or not 0 <= found <= 100:
        raise UnsupportedCorrelationError(f"the percentile is a whole number from 0 to 100, and this is {found!r}")
    return float(found) / 100
