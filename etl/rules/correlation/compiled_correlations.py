"""Correlations compiled for the fields of a stream: the rules they name, the routes of events to them, and problems."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import Schema, format_type, visible
from etl.rules.correlation.families import Family, find_families
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.routes import Route, find_routes, group_name, group_types, is_groupable
from etl.rules.rule import Rule, RuleProblem, RuleSet
from etl.rules.sigma.taxonomy import Taxonomy

if TYPE_CHECKING:
    from etl.rules.correlation.member_table import MemberTable


@dataclass(frozen=True)
class CompiledCorrelations:
    """Correlations over a stream's fields."""

    base: tuple[Rule, ...]
    """The rules that correlations name."""

    families: Mapping[str, Family]
    """By the id of the correlation that gives alerts."""

    routes: Mapping[str, Sequence[Route]]
    """The routes of events to each family."""

    groups: Schema
    """The fields of alerts that hold groups."""

    group_names: Mapping[str, Sequence[str]]
    """The names of each family's group fields in alerts."""

    titles: Mapping[str, str]
    version: str
    problems: tuple[RuleProblem, ...]
    unknown_groups: tuple[RuleProblem, ...] = ()
    """Problems of correlations whose group fields alerts do not have."""

    @cached_property
    def table(self) -> MemberTable:
        """The members of all families."""
        from etl.rules.correlation.member_table import MemberTable

        return MemberTable(self.families)

    @property
    def longest_micros(self) -> int:
        """The timespans of the longest chain of correlations."""
        return max((sum(one.span_micros for one in family.members) for family in self.families.values()), default=0)


def compile_correlations(rules: RuleSet, taxonomy: Taxonomy, schema: Schema) -> CompiledCorrelations:
    """Adapt rules with resolved names to a stream. A correlation that cannot run becomes a problem; nothing is raised."""
    names = {name for one in rules.correlations for name in one.rules}
    base = tuple(rule for rule in rules.rules if rule.id in names)
    here = [rule for rule in base if taxonomy.adapt(rule) is not None]
    problems = list(rules.problems)
    good: dict[str, Family] = {}
    routes: dict[str, Sequence[Route]] = {}
    for family in find_families(rules.correlations):
        found = find_routes(family, here, taxonomy)
        if wrong := _find_missing_rule(family, here) or _find_missing_field(found, visible(schema)):
            problems.append(RuleProblem(family.head.file, family.head.line, wrong, family.head.title))
        else:
            good[family.head.id], routes[family.head.id] = family, found
    heads = [family.head for family in good.values()]
    group_names = {head.id: [group_name(head, name, taxonomy) for name in head.group_by] for head in heads}
    groups = group_types(heads, routes, taxonomy, schema)
    titles = {rule.id: rule.title for rule in rules.rules} | {one.id: one.title for one in rules.correlations}
    return CompiledCorrelations(base, good, routes, groups, group_names, titles, rules.version, tuple(problems))


def drop_unknown_groups(compiled: CompiledCorrelations, fields: Collection[str]) -> CompiledCorrelations:
    """Without correlations whose group fields are not among the ``fields`` of alerts; these become `unknown_groups`."""
    missing = {head: [name for name in names if name not in fields] for head, names in compiled.group_names.items()}
    problems = tuple(_unknown_group(compiled.families[head].head, names) for head, names in missing.items() if names)
    good = {head: family for head, family in compiled.families.items() if not missing[head]}
    return replace(compiled, families=good, routes={head: compiled.routes[head] for head in good}, unknown_groups=problems)


def _unknown_group(one: Correlation, names: Sequence[str]) -> RuleProblem:
    listed = " and ".join(repr(name) for name in names)
    why = f"it groups by {listed}, for which alerts of this run have no field"
    return RuleProblem(
        one.file, one.line, f"{why}; restart the pipeline, for a rule of a table with the name in `group_fields`", one.title
    )


def _find_missing_rule(family: Family, here: Sequence[Rule]) -> str | None:
    """A message about a rule that is not for this stream."""
    there = {rule.id for rule in here} | {member.id for member in family.members}
    for member in family.members:
        for name in member.rules:
            if name not in there:
                return f"its rule {name!r} is for events of another log source"
    return None


def _find_missing_field(routes: Sequence[Route], schema: Schema) -> str | None:
    """A message about a field for groups or measures that the stream lacks, or that has no single values."""
    for route in routes:
        for name in (*route.group, *route.part, *route.values):
            if name not in schema.names:
                return f"the stream has no field {name!r}, which it groups by or measures"
            if not is_groupable(schema.field(name).type) and not pa.types.is_null(schema.field(name).type):
                return f"it groups by or measures {name!r}, which is {format_type(schema.field(name).type)} and no single value"
    return None
