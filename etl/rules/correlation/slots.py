"""The events of many groups as columns, sorted by slot and time. A slot is one member of a family in one of its groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.rules.correlation.encoding import END
from etl.rules.correlation.kernels import is_sorted, sort_by_slot
from etl.rules.correlation.member_table import EXPRESSION, ORDER, RULES, VALUES, MemberTable
from etl.rules.correlation.routes import COUNTED

ROWS = pa.schema([*COUNTED, ("micros", pa.int64()), ("offset", pa.int64()), ("burst_end", pa.int64())])
"""The columns of state: of an event what is `COUNTED`, its time and its offset in the source; of a burst that an alert was given
for (with a ``burst_end``) the times at which the condition first and last held."""

NAMES = ("head", "group", "member", "part")
"""The columns that make a slot."""

_NUMERIC = ("value_sum", "value_avg", "value_median", "value_percentile")


@dataclass(frozen=True)
class Slots:
    """Events by slot and time, and the bursts of the slots."""

    table: MemberTable
    rows: pa.Table
    """`ROWS` of events, in order."""
    starts: Any
    """int64[slots + 1]: the first row of each slot, and the number of rows."""
    member: Any
    """int64[slots]: the number of each slot's member."""
    bursts: pa.Table
    """`ROWS` of bursts, by slot."""
    burst_counts: Any
    """int64[slots]"""

    @classmethod
    def of(cls, rows: pa.Table, table: MemberTable) -> Slots:
        """Sort rows; those of correlations that no longer run, or now group by other fields, are left out."""
        rows, member = known_rows(rows, table)
        slot, of_slot = _slots(rows, member)
        is_burst = rows.column("burst_end").is_valid().to_numpy()
        events, starts = _sorted(rows.filter(pa.array(~is_burst)), slot[~is_burst], len(of_slot))
        bursts, burst_starts = _by_slot(rows.filter(pa.array(is_burst)), slot[is_burst], len(of_slot))
        return cls(table, events, starts, of_slot, bursts, np.diff(burst_starts))

    def __len__(self) -> int:
        return len(self.member)

    @cached_property
    def sizes(self) -> Any:
        """int64[slots]: rows of each."""
        return np.diff(self.starts)

    @cached_property
    def slot(self) -> Any:
        """int64[n]: the slot of each row."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def micros(self) -> Any:
        """int64[n]: times."""
        return numbers(self.rows, "micros")

    @cached_property
    def spans(self) -> Any:
        """int64[slots]"""
        return self.table.spans[self.member]

    @cached_property
    def monotonic(self) -> Any:
        """bool[slots]"""
        return self.table.monotonic[self.member]

    @cached_property
    def kinds(self) -> Any:
        """int64[slots]"""
        return self.table.kinds[self.member]

    @cached_property
    def codes(self) -> Any:
        """int64[n]: a number for what is counted in each row: its value, its rule, or the rank of its rule."""
        kinds = self.kinds[self.slot]
        found = np.full(len(kinds), -1, np.int64)
        for kind, name in ((VALUES, "value"), (RULES, "rule")):
            if (wanted := kinds == kind).any():
                found[wanted] = text_codes(self.rows, name, null=True)[wanted]
        if (wanted := (kinds == EXPRESSION) | (kinds == ORDER)).any():
            found[wanted] = self._ranks(wanted)
        return found

    def _ranks(self, wanted: Any) -> Any:
        """The ranks of the rules of some rows."""
        rules = self.rows.column("rule").combine_chunks().dictionary_encode()
        pairs = self.member[self.slot[wanted]] * len(rules.dictionary) + rules.indices.to_numpy()[wanted]
        distinct, which = np.unique(pairs, return_inverse=True)
        texts = rules.dictionary.to_pylist()
        ranks = [self.table.rank(pair // len(texts), texts[pair % len(texts)]) for pair in distinct.tolist()]
        return np.array(ranks, np.int64)[which]

    @cached_property
    def weights(self) -> Any:
        """float64[n]: what each row adds: 1, or its value where these are numbers."""
        numeric = np.array([one.kind in _NUMERIC for _, one in self.table.members], np.bool_)[self.member][self.slot]
        found = np.ones(len(numeric), np.float64)
        if numeric.any():
            found[numeric] = _numbers_of(self.rows.column("value").filter(pa.array(numeric)))
        return found

    @property
    def most_codes(self) -> int:
        """Above all codes."""
        return max(int(self.codes.max(initial=0)), self.table.max_rules) + 1


def numbers(rows: pa.Table, name: str) -> Any:
    """The values of a column without nulls."""
    return rows.column(name).to_numpy()


def text_codes(rows: pa.Table, name: str, null: bool = False) -> Any:
    """int64[n]: a number for each text of a column; for null one, too, or -1."""
    encoded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode" if null else "mask")
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64)


def known_rows(rows: pa.Table, table: MemberTable) -> tuple[pa.Table, Any]:
    """The rows of correlations that run, and by as many fields; int64[n]: the number of each one's member."""
    rows = rows.combine_chunks()
    member = _members(rows, table)
    known = member >= 0
    return (rows, member) if known.all() else (rows.filter(pa.array(known)).combine_chunks(), member[known])


def _members(rows: pa.Table, table: MemberTable) -> Any:
    """int64[n]: the number of each row's member; -1 if there is none that groups by as many fields."""
    head, member = (rows.column(name).combine_chunks().dictionary_encode() for name in ("head", "member"))
    pairs = head.indices.to_numpy().astype(np.int64) * len(member.dictionary) + member.indices.to_numpy()
    distinct, which = np.unique(pairs, return_inverse=True)
    heads, members = head.dictionary.to_pylist(), member.dictionary.to_pylist()
    ids = [(heads[pair // len(members)], members[pair % len(members)]) for pair in distinct.tolist()]
    found = np.array([table.numbers.get(pair, -1) for pair in ids], np.int64)[which]
    for name, sizes in (("group", table.group_sizes), ("part", table.part_sizes)):
        fits = pc.count_substring(rows.column(name), END).to_numpy() == np.append(sizes, -1)[found]
        found[~fits] = -1
    return found


def _slots(rows: pa.Table, member: Any) -> tuple[Any, Any]:
    """int64[n]: the slot of each row; and int64[slots]: the member of each slot."""
    if not len(rows):
        return member, member
    group, part = (text_codes(rows, name) for name in ("group", "part"))
    found = group
    for codes in (part, member):
        if (width := int(codes.max()) + 1) > 1:
            found = np.unique(found * width + codes, return_inverse=True)[1]
    of_slot = np.empty(int(found.max()) + 1, np.int64)
    of_slot[found] = member
    return found, of_slot


def _sorted(rows: pa.Table, slot: Any, slots: int) -> tuple[pa.Table, Any]:
    """Events by slot, time, offset and rule; and where slots start."""
    events, starts = _by_slot(rows, slot, slots)
    keys = [numbers(events, name).astype(np.int64) for name in ("order", "offset", "micros")]
    if not is_sorted(starts, keys[2], keys[1], keys[0]):
        order = np.lexsort((*keys, np.repeat(np.arange(slots), np.diff(starts))))
        events = events.take(pa.array(order))
    return events.combine_chunks(), starts


def _by_slot(rows: pa.Table, slot: Any, slots: int) -> tuple[pa.Table, Any]:
    """The rows by slot; and where slots start."""
    ends, order = np.zeros(slots, np.int64), np.empty(len(slot), np.int64)
    sort_by_slot(slot, ends, order)
    return rows.take(pa.array(order)), np.append(0, ends)


def _numbers_of(texts: pa.ChunkedArray) -> Any:
    """float64[n]: texts that are numbers, as Python reads them; null is 0."""
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", "")
    try:
        return pc.fill_null(plain.cast(pa.float64()), 0.0).to_numpy()
    except pa.ArrowInvalid:
        return np.array([float(text or 0) for text in texts.to_pylist()])
