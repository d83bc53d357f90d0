"""The scanner: tries patterns in order on every text of a column, in one pass if they share an automaton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.scanner.engine_choice import EngineChoice, choose_engine
from etl.scanner.tree import Node, captures

if TYPE_CHECKING:
    import numpy as np

    from etl.columns.texts import Texts

    Array = np.ndarray[Any, Any]

NO_PATTERN = -1


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan of n texts."""

    captures: dict[str, pa.Array]
    """By name, string_view[n] into the column's own bytes; null if the capture took no part or is empty."""

    pattern: Array
    """int32[n]: the number of the pattern that matched, or `NO_PATTERN`; a null text matches nothing."""

    timed_out: Array | None = None
    """bool[n]: a pattern exceeded its time limit; None if none did."""

    @property
    def unmatched(self) -> pa.BooleanArray | None:
        """True where no pattern matched, without nulls; None if every text matched."""
        none = self.pattern < 0
        return pa.array(none) if none.any() else None


class Scanner:
    """Patterns, as a picklable value: automata stay in the process and, for the next run, on disk.

    Finds the leftmost match, and of these the one that Perl prefers: greedy and lazy loops, alternatives in order. Captures of
    one name are one column with the first of them that took part. Time is linear in the text, except for patterns whose
    `engine_choices` give a reason: texts that go to ``regex`` take at most ``timeout`` each.
    """

    def __init__(self, patterns: Sequence[Node], timeout: timedelta = timedelta(milliseconds=100)) -> None:
        self.patterns = tuple(patterns)
        self.timeout = timeout

    def __getstate__(self) -> dict[str, Any]:
        return {"patterns": self.patterns, "timeout": self.timeout}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the captures, in the order in which they first occur."""
        return tuple(dict.fromkeys(capture.field for tree in self.patterns for capture in captures(tree)))

    @cached_property
    def engine_choices(self) -> tuple[EngineChoice, ...]:
        """The engine of each pattern."""
        return tuple(map(choose_engine, self.patterns))

    def scan(self, column: pa.Array) -> Scan:
        """Scan a string, large_string or string_view column."""
        from etl.columns.texts import split_for_views

        pieces = split_for_views(column)
        return self._piece(pieces[0]) if len(pieces) == 1 else _concat([self._piece(piece) for piece in pieces])

    def _piece(self, column: pa.Array) -> Scan:
        from etl.scanner.scan_builder import ScanBuilder

        found = ScanBuilder.empty(column, self.names)
        for first, stage in self._stages:
            if not len(rows := found.unmatched_rows()):
                break
            stage.run(found, rows, first)
        return found.finish()

    def matches(self, column: pa.Array) -> pa.BooleanArray:
        """Whether a pattern matches; null for a null text."""
        import pyarrow.compute as pc

        return pc.if_else(column.is_valid(), pa.array(self.scan(column).pattern >= 0), None)

    def matches_at(self, texts: Texts, rows: Array) -> Array:
        """bool[rows]: whether a pattern matches in these texts, none of which is null. Faster than `matches` for a few rows."""
        from etl.columns.texts import copy_texts
        from etl.scanner.automata.automaton import UNKNOWN
        from etl.scanner.stages import AutomatonStage

        some, stages = texts.at(rows), [stage for _, stage in self._stages]
        if len(stages) == 1 and isinstance(stages[0], AutomatonStage) and not self.names:
            pattern = stages[0].patterns(some)
            if not (pattern == UNKNOWN).any():
                return pattern >= 0
        return self.scan(copy_texts(some.address, some.length)).pattern >= 0

    @cached_property
    def _stages(self) -> list[tuple[int, Any]]:
        """Stages of consecutive patterns with the same kind of engine, each with the number of its first pattern."""
        from etl.scanner.stages import AutomatonStage, EngineStage

        stages: list[tuple[int, Any]] = []
        numbered = zip(range(len(self.patterns)), self.patterns, self.engine_choices, strict=True)
        for scanned, group in groupby(numbered, key=lambda one: one[2].engine == "scanner"):
            members = list(group)
            trees = [tree for _, tree, _ in members]
            stages.append((members[0][0], AutomatonStage(trees, self.timeout) if scanned else EngineStage(trees, self.timeout)))
        return stages


def _concat(scans: Sequence[Scan]) -> Scan:
    """Concatenate the scans of a column's pieces."""
    import numpy as np

    captures = {name: pa.concat_arrays([scan.captures[name] for scan in scans]) for name in scans[0].captures}
    late = [np.zeros(len(scan.pattern), bool) if scan.timed_out is None else scan.timed_out for scan in scans]
    timed_out = np.concatenate(late) if any(scan.timed_out is not None for scan in scans) else None
    return Scan(captures, np.concatenate([scan.pattern for scan in scans]), timed_out)
