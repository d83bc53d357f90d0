"""Routes: which rules' events go to which correlations, and with which fields: groups, parts of chains, values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.rules.correlation.model import Correlation
from etl.rules.rule import Rule

if TYPE_CHECKING:
    from etl.rules.correlation.families import Family
    from etl.rules.sigma.taxonomy import Taxonomy

COUNTS = "counts"
"""The field with a `COUNTED` for each correlation that an event counts for."""

COUNTED = pa.struct(
    [
        ("head", pa.string()),
        ("group", pa.string()),
        ("member", pa.string()),
        ("part", pa.string()),
        ("order", pa.int32()),
        ("rule", pa.string()),
        ("value", pa.string()),
        ("sample", pa.string()),
    ]
)
"""``head`` is the id of the correlation that gives the alert, ``group`` the name of its group; ``member`` that of the correlation
that counts the event and, if that is another one of the family, ``part`` the name of its own group. ``order`` is the index of the
rule among those of the member. ``value`` and ``sample`` may be null."""


@dataclass(frozen=True)
class Route:
    """The route of some rules' events to a correlation."""

    head: str
    member: str
    rules: tuple[str, ...]
    """Ids; an event that several of them match is routed once."""

    orders: tuple[int, ...]
    group: tuple[str, ...]
    part: tuple[str, ...]
    values: tuple[str, ...]
    numeric: bool


def find_routes(family: Family, rules: Sequence[Rule], taxonomy: Taxonomy) -> list[Route]:
    """The routes of each rule's events. Rules whose events go to a count with the same fields share a route."""
    found: dict[Any, dict[str, int]] = {}
    for member, names in _below(family, family.head, family.head.group_by):
        for rule in rules:
            if rule.id not in member.rules:
                continue
            separate = rule.id if member.kind.startswith("temporal") else ""
            group = _columns(member, names, rule.id, taxonomy)
            part = _columns(member, member.group_by, rule.id, taxonomy)
            key = (member, separate, group, part, _columns(member, member.values, rule.id, taxonomy))
            found.setdefault(key, {})[rule.id] = member.rules.index(rule.id)
    return [
        Route(family.head.id, member.id, tuple(some), tuple(some.values()), group, part, values, numeric=_is_numeric(member))
        for (member, _, group, part, values), some in found.items()
    ]


def _is_numeric(one: Correlation) -> bool:
    return bool(one.values) and one.kind != "value_count"


def _below(family: Family, upper: Correlation, names: tuple[str, ...]) -> Iterator[tuple[Correlation, tuple[str, ...]]]:
    """Each member, and its names of the head's group fields."""
    yield upper, names
    for member in family.members:
        if member.id in upper.rules:
            yield from _below(family, member, tuple(upper.field_of(name, member.id) for name in names))


def _columns(one: Correlation, names: Sequence[str], rule: str, taxonomy: Taxonomy) -> tuple[str, ...]:
    fields = (one.field_of(name, rule) for name in names)
    return tuple(taxonomy.fields.get(field, field) for field in fields)


def is_groupable(type_: pa.DataType) -> bool:
    """Whether each value of a type has one text, by which events can be grouped."""
    return not pa.types.is_nested(type_) and not pa.types.is_binary(type_) and not pa.types.is_null(type_)


def group_types(
    heads: Sequence[Correlation], routes: Mapping[str, Sequence[Route]], taxonomy: Taxonomy, known: pa.Schema
) -> pa.Schema:
    """The fields of alerts that hold groups, by the stream's names or aliases; text if a group's fields have several types."""
    found: dict[str, set[pa.DataType]] = {}
    for head in heads:
        for index, name in enumerate(head.group_by):
            types = found.setdefault(group_name(head, name, taxonomy), set())
            types |= {known.field(route.group[index]).type for route in routes[head.id] if route.group[index] in known.names}
    return pa.schema([(name, types.pop() if len(types) == 1 else pa.string()) for name, types in found.items()])


def group_name(one: Correlation, name: str, taxonomy: Taxonomy) -> str:
    """The name in alerts of a field of ``group_by``."""
    return name if name in one.aliases else taxonomy.fields.get(name, name)
