"""A query as far as it is compiled: inputs, the steps after them, and the columns that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn
from etl.sql.statements import Delay, Option, ScriptError

FOR_EVER = "36500d"
"""A span in which all events are, for results over all of them."""


@dataclass(frozen=True)
class StepText:
    """One step as a pipeline file would have it, and the character of the script that it comes from."""

    options: Mapping[str, Any]
    at: int
    starts: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    """Where single options begin in the script (characters), by path."""
    warning: ScriptError | None = None
    """What is probably not meant."""


@dataclass(frozen=True)
class WindowRows:
    """That rows are results of windows, or are assigned to windows by ``TABLE(TUMBLE(…))``."""

    options: Mapping[str, Any]
    """Options of the step `window`: size, slide, step or gap, time and late."""
    start: str = "window_start"
    """Field with the beginning of the window, where windows are closed."""
    closed: bool = False
    late: str = "0s"
    """How much later than the end of their windows rows may come, where windows are closed."""
    offset: float = 0
    """Seconds after the multiples of its length at which a window begins."""
    session_keys: frozenset[str] | None = None
    """Columns by which ``TABLE(SESSION(TABLE t PARTITION BY …))`` divides rows, in lower case; None for other windows."""
    without_watermark: str | None = None
    """The declared time column by which windows go, if it has no watermark."""

    @property
    def spacing(self) -> str | None:
        """The distance between the beginnings of windows, None for sessions."""
        return self.options.get("slide") or self.options.get("size")


@dataclass(frozen=True)
class Relation:
    """Rows of a query."""

    inputs: tuple[str, ...]
    steps: tuple[StepText, ...]
    scope: Scope
    window: WindowRows | None = None
    changes_at: int | None = None
    """Character of what makes results that change earlier ones; None where rows are only added."""
    is_exact: bool = True
    """Whether events have no other fields than those of the columns."""

    def then(self, *steps: StepText, **changes: Any) -> Relation:
        """With steps added, and other attributes changed."""
        return replace(self, steps=(*self.steps, *steps), **changes)

    @property
    def columns(self) -> tuple[SqlColumn, ...]:
        return self.scope.columns


@dataclass(frozen=True)
class Target:
    """A column of the table that an INSERT writes."""

    name: str
    type: str | None


@dataclass(frozen=True)
class RankLimit:
    """``WHERE rank <= n`` around a query that computes ``ROW_NUMBER() … AS rank``."""

    name: str
    limit: int


@dataclass(frozen=True)
class Settings:
    """What SET and EMIT say for a query."""

    ttl: str = FOR_EVER
    """How long a row is remembered."""
    emit: tuple[Delay, ...] = ()
    late: float | None = None
    """Seconds that windows wait for late events after they have closed."""
    emits_changes: bool = False
    """Whether windows give a result with each change."""
    fires: Mapping[str, Option] = field(default_factory=dict)
    """Flink's settings that say what EMIT says, such as `table.exec.emit.early-fire.delay`."""
    is_batch: bool = False
    """Whether results are those of whole tables, given at the end of the sources: `execution.runtime-mode` is batch."""

    @property
    def time_to_live(self) -> dict[str, str]:
        """The option of steps that keep the state of a key for ever without it."""
        return {} if self.ttl == FOR_EVER else {"ttl": self.ttl}
