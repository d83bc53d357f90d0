"""Events that many groups of correlations remember, as columns in the order in which correlations look at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.correlation.encoding import parted, unpacked
from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.routes import PARTS

ROWS = pa.schema(
    [
        ("group", pa.string()),
        ("member", pa.string()),
        ("micros", pa.int64()),
        ("offset", pa.int64()),
        ("order", pa.int32()),
        ("rule", pa.string()),
        ("value", pa.string()),
        ("sample", pa.string()),
    ]
)
"""An event that counts for a correlation: its time, its place in its source, and `correlation_routes.PARTS`."""


@dataclass(frozen=True)
class Columns:
    """Events by place: a place is one member of a family in one of its own groups."""

    unsorted: pa.Table
    """`ROWS`."""

    order: Any
    """Numbers of these rows, by place, and in a place by time, int64[n]."""

    place: Any
    """Of each number in ``order``, int64[n]; places are numbered from 0 on."""

    starts: Any
    """The first row of each place, and behind them the number of rows."""

    names: list[tuple[str, str]]
    """Of each place the texts of its group and member."""

    members: list[Correlation]
    group: Any
    """Of each place the number of its group."""

    @cached_property
    def micros(self) -> Any:
        """Times."""
        return numbers(self.unsorted, "micros")[self.order]

    @cached_property
    def sizes(self) -> Any:
        """Rows of each place."""
        return np.diff(self.starts)

    def codes(self, name: str) -> Any:
        """Of each row a number that stands for its text."""
        return _codes(self.unsorted, name)[0][self.order]

    def rows(self, some: Any) -> pa.Table:
        """Some rows (bool[n]) in their order."""
        return self.unsorted.take(pa.array(self.order[some]))

    def each(self, of: Callable[[Correlation], Any]) -> Any:
        """Something of each place's member."""
        distinct, which = self._distinct
        return np.array([of(one) for one in distinct])[which]

    @cached_property
    def _distinct(self) -> tuple[list[Correlation], Any]:
        numbers: dict[int, int] = {}
        which = [numbers.setdefault(id(one), len(numbers)) for one in self.members]
        first = dict(zip(which, self.members, strict=True))
        return [first[number] for number in range(len(numbers))], np.array(which, np.int64)


def rows_of(texts: pa.StringArray, micros: pa.Array, offsets: pa.Array) -> pa.Table:
    """`ROWS` of what was packed, with times and offsets."""
    parts = dict(zip(PARTS, unpacked(texts, len(PARTS)), strict=True))
    return pa.table({**parts, "micros": micros, "offset": offsets, "order": parts["order"].cast(pa.int32())}).select(ROWS.names)


def laid_out(rows: pa.Table, families: Mapping[str, Family]) -> Columns:
    """Rows in order; those of correlations that are not in force any more, or group by other fields now, are left out."""
    group, groups = _codes(rows, "group")
    member, members = _codes(rows, "member")
    pairs, place = np.unique(group * len(members) + member, return_inverse=True)
    names = [(groups[pair // len(members)], members[pair % len(members)]) for pair in pairs.tolist()]
    found = [_member(*name, families) for name in names]  # a loop over places, of which there are fewer than events
    keys = [numbers(rows, name) for name in ("order", "offset", "micros")]
    order = np.lexsort((*keys, place))
    known = np.array([one is not None for one in found], bool)
    order = order[known[place[order]]]
    place = (np.cumsum(known) - 1)[place[order]]
    starts = np.searchsorted(place, np.arange(known.sum() + 1))
    kept = [number for number, one in enumerate(found) if one is not None]
    return Columns(
        unsorted=rows,
        order=order,
        place=place,
        starts=starts,
        names=[names[number] for number in kept],
        members=[one for one in found if one is not None],
        group=(pairs // max(len(members), 1))[kept],
    )


def numbers(rows: pa.Table, name: str) -> Any:
    """A column that has no nulls."""
    return rows.column(name).to_numpy()


def part_of(group: str, member: str) -> tuple[str, ...]:
    """The values of a member's own group; the head's are those of the whole."""
    head, *values = parted(group)
    own, *part = parted(member)
    return tuple(values if own == head else part)


def _member(group: str, member: str, families: Mapping[str, Family]) -> Correlation | None:
    head, *values = parted(group)
    own, *part = parted(member)
    family = families.get(head)
    found = next((one for one in family.members if one.id == own), None) if family else None
    if family is None or found is None or len(values) != len(family.head.group_by):
        return None
    return found if found is family.head or len(part) == len(found.group_by) else None


def _codes(rows: pa.Table, name: str) -> tuple[Any, list[str]]:
    encoded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
