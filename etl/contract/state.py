"""The contract of stateful steps: operators over the parts of a step's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from etl.contract.steps import EventTimeStep, Rejects
from etl.events import Schema

PANE = "\0pane"
"""Column of prepared rows: the pane that a row belongs to, int64, its start in microseconds since the epoch. No field of
an event has such a name."""

HASH = "\0hash"
"""Column of state files, uint64: the first half of the hash of a row's keys, where look-ups need it."""

NEVER = -(1 << 62)
"""The watermark before the first event."""

OPTIONAL = "aggregate "
"""Prefix of parts of a state that come and go without the rest (`StatefulStep.remembered`)."""

PENDING = "pending "
"""Prefix of parts of a state whose results wait until an interval is over, of which they are the description; None if none waits.
They may come and go, but results that wait for one interval would be lost, or given twice, with another."""

FAILED = "\0failed"
"""Column of results, string: why a result could not be computed, null if it could. Those with a reason become dead letters."""

RESULT_FAILED = "result-failed"
"""The code of results that could not be computed, as dead letters."""

ALWAYS = 1 << 62
"""The watermark after the last event of a source that ends: it closes everything."""


@dataclass(frozen=True)
class EmitProgress:
    """Which results of a step earlier micro-batches have emitted, as far as later ones need to know."""

    quiet: int = 0
    """Number of micro-batches that were planned without events, because an interval of results was over."""
    last: Mapping[int, int] = field(default_factory=dict)
    """Interval in microseconds → ``quiet`` after the last such micro-batch for it. Rows that arrived at a smaller number are in a
    result already."""
    final: int = NEVER
    """Windows that end up to this time have emitted their last results; those that end later still have all their rows."""

    def after(self, intervals: frozenset[int], final: int = NEVER) -> EmitProgress:
        """The progress after a micro-batch, which was planned for these intervals if it had no events."""
        quiet = self.quiet + bool(intervals)
        return EmitProgress(quiet, {**self.last, **dict.fromkeys(intervals, quiet)}, max(final, self.final))


@dataclass(frozen=True)
class WatermarkAdvance:
    """The watermark before and after a micro-batch, microseconds since the epoch."""

    before: int = NEVER
    now: int = NEVER
    quiet: frozenset[int] = frozenset()
    """Intervals, in microseconds, that are over since the last events: the micro-batch was planned for them, without events."""
    emission: EmitProgress = field(default_factory=EmitProgress)
    """The results that earlier micro-batches have emitted."""
    ended: bool = False
    """Whether all sources have ended: this is the last micro-batch, after all events."""


AfterRun: TypeAlias = Literal["arrived", "appended", "added", "rewritten"]
"""What is added to a step's state when its parts have run: the arrived rows, the tables that they give, or both (``added``);
``rewritten``: these tables are all of the state."""


@dataclass(frozen=True)
class DroppedEvents:
    """How many events an operator left out of results and state, because their key had as many as the step's ``limit``."""

    events: int


@dataclass(frozen=True)
class PaneSpan:
    """The first and the last pane of some rows."""

    first: int
    last: int


class PartRows(Protocol):
    """Rows of one or several parts in state files. A key is in one part."""

    def tables(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file, part and pane."""

    def in_order(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file and part, or for a small file, in the order of panes."""

    def of_keys(self, others: PartRows, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """Of the rows with ``first <= pane < end`` at least those with keys of other rows: a table for each file and part, in the
        order of panes. In files of an operator that `LooksUpKeys` there are few others."""

    def of_hashes(self, hashes: Any, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The same for keys of which the first hashes are known: uint64[n], sorted, each once."""


class Operator(Protocol):
    """A running stateful step. The state of a step is divided into parts by a hash of the keys of its rows.

    A reading task *prepares* events as rows with the column `PANE`, which reach the parts as files. Rows that no run has seen,
    because none was due, belong to the state as well. All methods give the same result for the same arguments, because a
    micro-batch may run again.
    """

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns of prepared rows by which they are divided into parts."""

    @property
    def hashed(self) -> bool:
        """Whether rows get hashes of their keys, before `combine`, and are sorted by them, so that `run` can look up keys."""

    @property
    def after_run(self) -> AfterRun:
        """The state after a run."""

    def prepare(self, events: pa.RecordBatch, watermark: int) -> tuple[pa.Table, int]:
        """Events → rows of partial results, and the number of events that are too late for the watermark."""

    def combine(self, rows: pa.Table) -> pa.Table:
        """Fewer rows that are worth the same; the same table where there is nothing to combine."""

    def is_due(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether the parts have to run in this micro-batch. ``arrived`` and ``stored``: the panes of its rows and of the state
        before it, None without rows."""

    def run(
        self, clock: WatermarkAdvance, arrived: PartRows, stored: PartRows
    ) -> Iterator[pa.RecordBatch | pa.Table | DroppedEvents | Rejects]:
        """The results of these parts as record batches, those with a reason in `FAILED` as dead letters; rows for their state as
        tables; how many events were dropped; and events that become dead letters.

        ``arrived`` are the rows of this micro-batch, ``stored`` the state before it. A file is removed when `is_over` is true for
        its last pane: until then ``stored`` also has panes whose results earlier runs gave. Results that are given once, at an
        end, are those of ends after ``clock.before`` and up to ``clock.now``."""

    def is_over(self, last_pane: int, watermark: int) -> bool:
        """Whether rows of this pane and earlier ones are no longer needed."""

    def watermark_after(self, watermark: int) -> int:
        """The watermark of the results: what comes later is not before it."""


@runtime_checkable
class TracksEmitProgress(Protocol):
    """An operator whose rows depend on the results that earlier micro-batches have emitted."""

    def prepare_after(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> tuple[pa.Table, int]:
        """Prepare as `Operator.prepare` does."""

    def final_until(self, watermark: int) -> int:
        """Windows that end up to this time have emitted their last results at this watermark (`EmitProgress.final`)."""


class PreparedEvents(NamedTuple):
    """What an operator makes of events before its state has them."""

    rows: pa.Table
    """Rows of partial results."""
    late: int
    """Events that are left out because their window is closed."""
    rejects: Sequence[Rejects] = ()


@runtime_checkable
class RejectsEvents(Protocol):
    """An operator that may reject events while it prepares them, because code of the user fails for them."""

    def prepare_or_reject(self, events: pa.RecordBatch, watermark: int, emission: EmitProgress) -> PreparedEvents:
        """Prepare as `Operator.prepare` does; rejected events are in no row."""


@runtime_checkable
class LooksUpKeys(Protocol):
    """An operator that looks up the keys of arrived rows in those that are kept, and need not read all of them."""

    @property
    def indexed(self) -> bool:
        """Whether rows are stored with hashes of their keys and sorted by them, for `PartRows.of_keys`."""

    def reads_all(self, clock: WatermarkAdvance, arrived: PaneSpan | None, stored: PaneSpan | None) -> bool:
        """Whether `Operator.run` reads rows of other keys, too, in this micro-batch: it may be worth several tasks."""


@runtime_checkable
class ReadsPanes(Protocol):
    """An operator that `LooksUpKeys`, and reads all rows of some panes besides."""

    def reads_panes(self, clock: WatermarkAdvance, panes: Any) -> Any:
        """bool[n]: of which of these panes (int64[n]) it reads all rows in this micro-batch: where they are many, parts are run
        one by one."""


@runtime_checkable
class DropsRows(Protocol):
    """An operator that does not need all rows of a pane that is not over: the watermark has passed some, or they are replaced."""

    def remaining(self, rows: pa.Table, watermark: int) -> pa.Table:
        """Those of the rows of one part, of which others may be in other files, that are needed at this watermark.
        `Operator.combine` gets no others when files are merged."""


@runtime_checkable
class ReadableState(Protocol):
    """An operator whose state people can look into (`etl state`), which is optional."""

    @property
    def state_fields(self) -> Schema:
        """The fields of what `read_state` gives."""

    def read_state(self, stored: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        """What these parts remember as of now, such as the results that open windows would have if they closed. Of all keys: no
        condition on results applies. Without what is over and only waits to be removed."""


@runtime_checkable
class NamesKeys(Protocol):
    """An operator whose rows have their keys in other columns than `Operator.keys`, which is optional."""

    @property
    def key_fields(self) -> Schema:
        """The fields of a key as people know them, in the order of `Operator.keys`."""

    def key_columns(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The keys of rows of state, by the names of these fields."""


@runtime_checkable
class WarmsUp(Protocol):
    """An operator that does not call all of its kernels for sample events, which is optional."""

    def warm_up(self) -> None:
        """Compile the kernels."""


class StatefulStep(EventTimeStep):
    """A step that remembers events of earlier micro-batches, on the state lane."""

    stateful = True

    def notes(self, incoming: Schema) -> Iterable[str]:
        """Return lines for `etl explain` about how it runs with these incoming fields."""
        return ()

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """What its state depends on, as JSON by name. A later version of the pipeline keeps the state if it has the same values;
        names that begin with `OPTIONAL` or `PENDING` may also be missing before or after."""
        return self.model_dump(mode="json", by_alias=True, exclude={"late", "idle"})

    def operator(self, incoming: Schema) -> Operator:
        """Compile it, once a task."""
        raise NotImplementedError
