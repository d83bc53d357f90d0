"""Correlations put into force over a stream: the rules that they name, the ways of events to them, and what could not be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from etl.api import Schema, format_type, visible
from etl.rules.correlation.families import Family, families
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.routes import Route, group_types, groupable, routes, shown
from etl.rules.rule import Problem, Rule, RuleSet
from etl.rules.taxonomy import Taxonomy


@dataclass(frozen=True)
class Correlating:
    """Correlations over a stream's fields."""

    base: tuple[Rule, ...]
    """The rules that correlations name."""

    families: Mapping[str, Family]
    """By the id of the correlation that gives alerts."""

    ways: Mapping[str, Sequence[Route]]
    groups: Schema
    """The fields of alerts that hold groups."""

    shown: Mapping[str, Sequence[str]]
    """What alerts of each correlation call its group fields."""

    titles: Mapping[str, str]
    version: str
    problems: tuple[Problem, ...]
    untold: tuple[Problem, ...] = ()
    """Of correlations that group by what alerts cannot show."""

    @property
    def longest_micros(self) -> int:
        """How long the longest chain of correlations may take."""
        return max((sum(one.span_micros for one in family.members) for family in self.families.values()), default=0)


def correlating(rules: RuleSet, taxonomy: Taxonomy, schema: Schema) -> Correlating:
    """Adapt resolved rules to a stream. Total: a correlation that cannot be decided becomes a problem."""
    wanted = {name for one in rules.correlations for name in one.rules}
    base = tuple(rule for rule in rules.rules if rule.id in wanted)
    here = [rule for rule in base if taxonomy.adapted(rule) is not None]
    problems = list(rules.problems)
    good: dict[str, Family] = {}
    ways: dict[str, Sequence[Route]] = {}
    for family in families(rules.correlations):
        ways_of = routes(family, here, taxonomy)
        if wrong := _missing(family, here) or _lacking(ways_of, visible(schema)):
            problems.append(Problem(family.head.file, family.head.line, wrong, family.head.title))
        else:
            good[family.head.id], ways[family.head.id] = family, ways_of
    heads = [family.head for family in good.values()]
    shown_as = {head.id: [shown(head, name, taxonomy) for name in head.group_by] for head in heads}
    groups = group_types(heads, ways, taxonomy, schema)
    titles = {rule.id: rule.title for rule in rules.rules} | {one.id: one.title for one in rules.correlations}
    return Correlating(base, good, ways, groups, shown_as, titles, rules.version, tuple(problems))


def only_told(force: Correlating, told: Collection[str]) -> Correlating:
    """Without correlations whose groups no alert could tell: they group by what is not among the fields ``told``."""
    wrong = {head: [name for name in names if name not in told] for head, names in force.shown.items()}
    untold = tuple(_untold(force.families[head].head, names) for head, names in wrong.items() if names)
    good = {head: family for head, family in force.families.items() if not wrong[head]}
    return replace(force, families=good, ways={head: force.ways[head] for head in good}, untold=untold)


def _untold(one: Correlation, names: Sequence[str]) -> Problem:
    listed = " and ".join(repr(name) for name in names)
    why = f"it groups by {listed}, for which alerts of this run have no field"
    return Problem(one.file, one.line, f"{why}; start it anew, for a rule of a table with the name in `group_fields`", one.title)


def _missing(family: Family, here: Sequence[Rule]) -> str | None:
    """Which of its rules is not for this stream."""
    there = {rule.id for rule in here} | {member.id for member in family.members}
    for member in family.members:
        for name in member.rules:
            if name not in there:
                return f"its rule {name!r} is for events of another log source"
    return None


def _lacking(ways: Sequence[Route], schema: Schema) -> str | None:
    """What the stream lacks of the fields that a family groups by or measures."""
    for way in ways:
        for name in (*way.group, *way.part, *way.values):
            if name not in schema.names:
                return f"the stream has no field {name!r}, which it groups by or measures"
            if not groupable(schema.field(name).type) and not pa.types.is_null(schema.field(name).type):
                return f"it groups by or measures {name!r}, which is {format_type(schema.field(name).type)} and no single value"
    return None
