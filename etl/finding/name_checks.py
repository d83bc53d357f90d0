"""Whether a parser takes words for something that they are not: a level for a host."""

from __future__ import annotations

from etl.finding.match import Match
from etl.finding.tokens import LEVELS

MOST_WRONG = 0.05
"""The share of events in which a name may be a level's by chance."""

NAMES = ("host.hostname", "host.name", "process.name", "log.syslog.appname")


def misreads(one: Match) -> bool:
    """Whether more than a few events have a level as the name of a host or a program."""
    return any(_levels(one, name) > MOST_WRONG * one.events for name in NAMES)


def _levels(one: Match, name: str) -> int:
    columns = (batch.column(name) for batch in one.batches if name in batch.schema.names)
    return sum(1 for column in columns for value in column.to_pylist() if isinstance(value, str) and _is_level(value))


def _is_level(value: str) -> bool:
    """``Info``, ``[DBG]``."""
    return value.strip("[](){}<>|:").lower() in LEVELS
