"""What a run reports while it works, and how its numbers and its pipelines are named there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from etl.api import EtlError
from etl.config.problems import ConfigError


@dataclass(frozen=True)
class Message:
    """One message of a run."""

    event: str
    """What kind of thing happened, a stable name for machines."""
    text: str
    level: str = "info"
    pipeline: str = ""
    """The pipeline it is about; empty: all of the run."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The text's values, for machines."""


OnMessage = Callable[[Message], None]
"""Takes each message, from several threads."""


def count(number: float) -> str:
    """1234567 → ``1,234,567``."""
    return f"{number:,.0f}"


@contextmanager
def errors_named(pipeline: str, several: bool) -> Iterator[None]:
    """An EtlError of the body begins with the pipeline's name where the run has several pipelines."""
    try:
        yield
    except EtlError as error:
        if several and not isinstance(error, ConfigError):
            error.args = (f"pipeline {pipeline!r}: {error}", *error.args[1:])
        raise
