"""The events of many groups as columns, in the order of slot and time. A slot is one member of a family in one of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import NEVER, PANE
from etl.rules.correlation.encoding import END
from etl.rules.correlation.kernels import ScratchBuffers, SlotEvents
from etl.rules.correlation.member_table import EXPRESSION, ORDER, RULES, VALUES, MemberTable
from etl.rules.correlation.routes import COUNTED
from etl.rules.correlation.row_kernels import StoredSlots, find_current, sort_by_slot, sort_small_slots

ROWS = pa.schema(
    [
        *COUNTED,
        ("micros", pa.int64()),
        ("offset", pa.int64()),
        ("burst_end", pa.int64()),
        ("epoch", pa.int64()),
        ("due", pa.int64()),
        (PANE, pa.int64()),
    ]
)
"""The columns of state: of an event what is `COUNTED`, its time and its offset in the source; of a burst that an alert was given
for (with a ``burst_end``) the times at which the condition first and last held, its number in the slot (``order``) and the
version of the slot's bursts (``offset``), of which the latest counts.

Rows are added to the state and never changed. If events that no longer matter would be read again, the other events of their slot
are written again with the next ``epoch``, and earlier epochs of the slot no longer count; in rows that are not stored it is null.
A row whose ``burst_end`` is `NEVER` is not a burst: it only has an epoch. ``due`` is when the window that begins with an event is
to close, `NEVER` where each event is judged as it comes. The pane is from when on the row is no longer needed."""

NAMES = ("head", "group", "member", "part")
"""The columns that make a slot."""

NEW = -1
"""The epoch of rows that are not stored."""

_NUMERIC = ("value_sum", "value_avg", "value_median", "value_percentile")


def whole_rows(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of state files, and prepared ones, as `ROWS` in one chunk."""
    rows = pa.concat_tables(tables, promote_options="default")
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in ROWS
    ]
    return pa.table(columns, schema=ROWS).combine_chunks()


@dataclass(frozen=True)
class Slots:
    """Events by slot and time, and the bursts of the slots."""

    table: MemberTable
    rows: pa.Table
    """`ROWS`, in any order."""
    order: Any
    """int64[n]: the rows of events by slot, time, offset and rule."""
    starts: Any
    """int64[slots + 1]: the first event of each slot, and the number of events."""
    member: Any
    """int64[slots]: the number of each slot's member."""
    bursts: tuple[Any, Any]
    """int64[bursts]: when the condition first and last held, by slot."""
    burst_counts: Any
    """int64[slots]"""
    stored: StoredSlots
    """Of each slot: its epoch, `NEW` if nothing is stored; the version of its bursts; the last pane of its rows; one of these."""

    @classmethod
    def of(cls, rows: pa.Table, table: MemberTable) -> Slots:
        """Sort rows; those of correlations that do not run or now group by other fields, and those that no longer count, are left
        out."""
        rows, member = rows_of_members(rows, table)
        slot, of_slot = _slots(rows, member)
        stored, current = current_rows(rows, slot, len(of_slot))
        is_burst = rows.column("burst_end").is_valid().to_numpy()
        order, starts = _sort(rows, np.flatnonzero(current & ~is_burst), slot, len(of_slot))
        bursts = np.flatnonzero(current & is_burst)
        bursts = bursts[numbers(rows, "burst_end")[bursts] != NEVER] if len(bursts) else bursts
        bursts = bursts[np.lexsort((numbers(rows, "order")[bursts], slot[bursts]))]
        known = tuple(numbers(rows, name)[bursts].astype(np.int64) for name in ("micros", "burst_end"))
        return cls(
            table, rows, order, starts, of_slot, (known[0], known[1]), np.bincount(slot[bursts], minlength=len(of_slot)), stored
        )

    def __len__(self) -> int:
        return len(self.member)

    def column(self, name: str, at: Any = slice(None)) -> pa.Array:
        """The values of a column in events."""
        return _one_chunk(self.rows, name).take(pa.array(self.order[at]))

    def numbers(self, name: str) -> Any:
        """int64[n]: the values of a column without nulls in events."""
        return numbers(self.rows, name)[self.order]

    def events(self, at: Any) -> pa.Table:
        """`ROWS` of some events."""
        return self.rows.take(pa.array(self.order[at]))

    def text_codes(self, name: str, null: bool = False) -> Any:
        """int64[n]: a number for each text of a column in events; for null one, too, or -1."""
        return text_codes(self.rows, name, null)[self.order]

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
        return self.numbers("micros")

    @cached_property
    def is_stored(self) -> Any:
        """bool[n]: which events are stored already."""
        return self.rows.column("epoch").is_valid().to_numpy()[self.order]

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
            if (of_kind := kinds == kind).any():
                found[of_kind] = self.text_codes(name, null=True)[of_kind]
        if (of_kind := (kinds == EXPRESSION) | (kinds == ORDER)).any():
            found[of_kind] = self._ranks(of_kind)
        return found

    def _ranks(self, selection: Any) -> Any:
        """The ranks of the rules of some rows."""
        rules = self.column("rule").dictionary_encode()
        pairs = self.member[self.slot[selection]] * len(rules.dictionary) + rules.indices.to_numpy()[selection]
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
            found[numeric] = _numbers_of(self.column("value", numeric))
        return found

    @cached_property
    def slot_events(self) -> SlotEvents:
        """The events, as kernels take them."""
        return SlotEvents(self.starts, self.member, self.micros, self.codes, self.weights)

    def scratch_buffers(self) -> ScratchBuffers:
        """Make the memory that a kernel works in."""
        conditions = self.table.conditions
        max_codes = max(int(self.codes.max(initial=0)), self.table.max_rules) + 1
        stack, begun = (np.empty(len(some) + 1, np.int64) for some in (conditions.program, conditions.orders))
        return ScratchBuffers(np.zeros(max_codes, np.int64), stack, begun)


def numbers(rows: pa.Table, name: str) -> Any:
    """int64[n]: the values of a column; 0 or any other number for null."""
    column = _one_chunk(rows, name)
    return (column.fill_null(0) if column.null_count else column).to_numpy()


def _one_chunk(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def text_codes(rows: pa.Table, name: str, null: bool = False) -> Any:
    """int64[n]: a number for each text of a column; for null one, too, or -1."""
    encoded = _one_chunk(rows, name).dictionary_encode(null_encoding="encode" if null else "mask")
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64)


def rows_of_members(rows: pa.Table, table: MemberTable) -> tuple[pa.Table, Any]:
    """The rows of correlations that run, and by as many fields; int64[n]: the number of each one's member."""
    rows = rows.combine_chunks()
    member = _members(rows, table)
    known = member >= 0
    return (rows, member) if known.all() else (rows.filter(pa.array(known)).combine_chunks(), member[known])


def _members(rows: pa.Table, table: MemberTable) -> Any:
    """int64[n]: the number of each row's member; -1 if there is none that groups by as many fields."""
    head, member = (_one_chunk(rows, name).dictionary_encode() for name in ("head", "member"))
    pairs = head.indices.to_numpy().astype(np.int64) * len(member.dictionary) + member.indices.to_numpy()
    distinct, which = np.unique(pairs, return_inverse=True)
    heads, members = head.dictionary.to_pylist(), member.dictionary.to_pylist()
    ids = [(heads[pair // len(members)], members[pair % len(members)]) for pair in distinct.tolist()]
    found = np.array([table.numbers.get(pair, -1) for pair in ids], np.int64)[which]
    for name, sizes in (("group", table.group_sizes), ("part", table.part_sizes)):
        fits = pc.count_substring(rows.column(name), END).to_numpy() == np.append(sizes, -1)[found]
        found[~fits] = -1
    return found


def current_rows(rows: pa.Table, slot: Any, slots: int) -> tuple[StoredSlots, Any]:
    """What is stored of slots; and bool[n]: the rows that count, by their slots."""
    epoch = _one_chunk(rows, "epoch").fill_null(NEW).to_numpy()
    is_burst = rows.column("burst_end").is_valid().to_numpy()
    stored = StoredSlots(*(np.full(slots, unset_value, np.int64) for unset_value in (NEW, NEW, NEVER, 0)))
    current = np.empty(len(rows), np.bool_)
    find_current(slot, epoch, numbers(rows, "offset"), is_burst, numbers(rows, PANE), stored, current)
    return stored, current


def without_replaced(rows: pa.Table) -> pa.Table:
    """The rows of state files without those that others of them replace."""
    rows = whole_rows([rows])
    slot = np.zeros(len(rows), np.int64)
    for name in NAMES:
        slot = _joined_codes(slot, text_codes(rows, name))
    _, current = current_rows(rows, slot, int(slot.max(initial=-1)) + 1)
    return rows if current.all() else rows.filter(pa.array(current))


def _slots(rows: pa.Table, member: Any) -> tuple[Any, Any]:
    """int64[n]: the slot of each row; and int64[slots]: the member of each slot."""
    if not len(rows):
        return member, member
    found = text_codes(rows, "group")
    for codes in (text_codes(rows, "part"), member):
        found = _joined_codes(found, codes)
    of_slot = np.empty(int(found.max()) + 1, np.int64)
    of_slot[found] = member
    return found, of_slot


def _joined_codes(codes: Any, others: Any) -> Any:
    """int64[n]: a number for each pair of codes."""
    width = int(others.max(initial=-1)) + 1
    return codes if width <= 1 else np.unique(codes * width + others, return_inverse=True)[1]


def _sort(rows: pa.Table, events: Any, slot: Any, slots: int) -> tuple[Any, Any]:
    """These rows by slot, time, offset and rule; and where slots start."""
    ends, order = np.zeros(slots, np.int64), np.empty(len(events), np.int64)
    sort_by_slot(slot, events, ends, order)
    starts = np.append(0, ends)
    keys = [numbers(rows, name) for name in ("micros", "offset", "order")]
    if not sort_small_slots(starts, order, *keys):
        micros, offset, rank = (key[order] for key in keys)
        order = order[np.lexsort((rank, offset, micros, np.repeat(np.arange(slots), np.diff(starts))))]
    return order, starts


def _numbers_of(texts: pa.Array) -> Any:
    """float64[n]: texts that are numbers, as Python reads them; null is 0."""
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", "")
    try:
        return pc.fill_null(plain.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return np.array([float(text or 0) for text in texts.to_pylist()])
