"""The events in the state of many groups, as columns in the order in which correlations process them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from etl.rules.correlation.encoding import split_name
from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation
from etl.rules.correlation.routes import COUNTED

ROWS = pa.schema([*COUNTED, ("micros", pa.int64()), ("offset", pa.int64()), ("burst_end", pa.int64())])
"""The columns of state: of an event what is `COUNTED`, its time and its offset in the source; of a burst that an alert was given
for (with a ``burst_end``) the times at which the condition first and last held."""


@dataclass(frozen=True)
class EventColumns:
    """Events sorted by slot and time. A slot is one member of a family in one of its groups."""

    unsorted: pa.Table
    """`ROWS`."""

    order: Any
    """int64[n]: the numbers of these rows, sorted by slot and time."""

    slot: Any
    """int64[n]: the slot of each number in ``order``; slots are numbered from 0."""

    starts: Any
    """The first row of each slot, and then the number of rows."""

    names: list[tuple[str, str]]
    """The texts of each slot's group and member."""

    members: list[Correlation]
    group: Any
    """The number of each slot's group."""

    @cached_property
    def micros(self) -> Any:
        """Times."""
        return numbers(self.unsorted, "micros")[self.order]

    @cached_property
    def sizes(self) -> Any:
        """The number of rows of each slot."""
        return np.diff(self.starts)

    def codes(self, name: str) -> Any:
        """A number for the text in each row."""
        return _codes(self.unsorted, name)[0][self.order]

    def rows(self, some: Any) -> pa.Table:
        """Some rows (bool[n]) in their order."""
        return self.unsorted.take(pa.array(self.order[some]))

    def per_member(self, of: Callable[[Correlation], Any]) -> Any:
        """A property of each slot's member."""
        distinct, which = self._distinct
        return np.array([of(one) for one in distinct])[which]

    @cached_property
    def _distinct(self) -> tuple[list[Correlation], Any]:
        numbers: dict[int, int] = {}
        which = [numbers.setdefault(id(one), len(numbers)) for one in self.members]
        first = dict(zip(which, self.members, strict=True))
        return [first[number] for number in range(len(numbers))], np.array(which, np.int64)


def sort_events(rows: pa.Table, families: Mapping[str, Family]) -> EventColumns:
    """Sort rows; those of correlations that no longer run, or now group by other fields, are left out."""
    group, groups = _codes(rows, "group")
    member, members = _codes(rows, "member")
    pairs, slot = np.unique(group * len(members) + member, return_inverse=True)
    names = [(groups[pair // len(members)], members[pair % len(members)]) for pair in pairs.tolist()]
    found = [_member(*name, families) for name in names]  # a loop over slots, of which there are fewer than events
    keys = [numbers(rows, name) for name in ("order", "offset", "micros")]
    order = np.lexsort((*keys, slot))
    known = np.array([one is not None for one in found], bool)
    order = order[known[slot[order]]]
    slot = (np.cumsum(known) - 1)[slot[order]]
    starts = np.searchsorted(slot, np.arange(known.sum() + 1))
    kept = [number for number, one in enumerate(found) if one is not None]
    return EventColumns(
        unsorted=rows,
        order=order,
        slot=slot,
        starts=starts,
        names=[names[number] for number in kept],
        members=[one for one in found if one is not None],
        group=(pairs // max(len(members), 1))[kept],
    )


def numbers(rows: pa.Table, name: str) -> Any:
    """The values of a column without nulls."""
    return rows.column(name).to_numpy()


def part_of(group: str, member: str) -> tuple[str, ...]:
    """The values of a member's own group; for the head those of the whole group."""
    head, *values = split_name(group)
    own, *part = split_name(member)
    return tuple(values if own == head else part)


def _member(group: str, member: str, families: Mapping[str, Family]) -> Correlation | None:
    head, *values = split_name(group)
    own, *part = split_name(member)
    family = families.get(head)
    found = next((one for one in family.members if one.id == own), None) if family else None
    if family is None or found is None or len(values) != len(family.head.group_by):
        return None
    return found if found is family.head or len(part) == len(found.group_by) else None


def _codes(rows: pa.Table, name: str) -> tuple[Any, list[str]]:
    encoded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
