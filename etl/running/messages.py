"""The messages that a run reports while it works, and how numbers and pipelines appear in them."""

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
    """The kind of message, a stable name for machines."""
    text: str
    level: str = "info"
    pipeline: str = ""
    """The pipeline that it is about; empty for the whole run."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the text, for machines."""


OnMessage = Callable[[Message], None]
"""Takes each message; called from several threads."""


def count(number: float) -> str:
    """1234567 → ``1,234,567``."""
    return f"{number:,.0f}"


@contextmanager
def name_errors(pipeline: str, several: bool) -> Iterator[None]:
    """Prefix an EtlError of the body with the pipeline's name if the run has ``several`` pipelines."""
    try:
        yield
    except EtlError as error:
        if several and not isinstance(error, ConfigError):
            error.args = (f"pipeline {pipeline!r}: {error}", *error.args[1:])
        raise
