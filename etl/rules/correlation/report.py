"""What the correlations of a set of rules ask for, as lines to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from etl.rules.conditions.wording import counted
from etl.rules.correlation.families import families, hidden
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.reader import SECOND
from etl.rules.correlation.routes import routes
from etl.rules.rule import RuleSet
from etl.rules.taxonomy import Taxonomy


def correlation_lines(rules: RuleSet, taxonomy: Taxonomy, columns: Sequence[str] | None) -> Iterator[str]:
    """Counts, one line each, and the group fields that the stream lacks."""
    if not rules.correlations:
        return
    kinds = Counter(one.kind for one in rules.correlations)
    yield f"{counted(len(rules.correlations), 'correlation')}: " + ", ".join(
        f"{kind} {count}" for kind, count in sorted(kinds.items())
    )
    silent = hidden(rules.correlations) & {rule.id for rule in rules.rules}
    if silent:
        parts = counted(len(silent), "rule is part", "rules are parts")
        yield f"{parts} of correlations only, without matches in the step rules"
    for one in rules.correlations:
        yield f"correlation: {one.file}:{one.line}: {one.title!r}: {_described(one)}"
    yield from _lacking(rules, taxonomy, columns)


def _described(one: Correlation) -> str:
    groups = f" by {', '.join(one.group_by)}" if one.group_by else ""
    when = "with each event" if one.rising else "when its window has closed"
    return f"{one.kind} of {counted(len(one.rules), 'rule')}{groups} within {one.span_micros // SECOND:,} s, judged {when}"


def _lacking(rules: RuleSet, taxonomy: Taxonomy, columns: Sequence[str] | None) -> Iterator[str]:
    if columns is None:
        return
    for family in families(rules.correlations):
        asked = {name for way in routes(family, rules.rules, taxonomy) for name in (*way.group, *way.part, *way.values)}
        for name in sorted(asked - set(columns)):
            yield f"the stream has no field {name!r}, which the correlation {family.head.title!r} groups by or measures"
