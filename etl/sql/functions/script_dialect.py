"""The dialect of the script that is compiled: where Flink and RocketMQ Streams disagree, its tables decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from etl.sql.statements import CreateTable, Statement

_rsql: ContextVar[bool] = ContextVar("is_rsql", default=False)


@contextmanager
def dialect_of(statements: Iterable[Statement]) -> Iterator[None]:
    """Begin a script: it is one of RocketMQ Streams if its tables name a ``type`` and none a ``connector``."""
    names = {option.name.lower() for one in statements if isinstance(one, CreateTable) for option in one.options}
    token = _rsql.set("type" in names and not names & {"connector", "connector.type"})
    try:
        yield
    finally:
        _rsql.reset(token)


def is_rsql() -> bool:
    """Whether the script is one of RocketMQ Streams: a quotient of whole numbers has a fraction there."""
    return _rsql.get()
