"""What a source or a sink brings to the trials in which runs are killed: how events get in, and how they are read back.

An event is a number ``n`` with a text. A new connector joins with a row in `kill_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from etl.api import Guarantee

LINES = ("{type: json, fields: {n: bigint, text: string}}",)
"""Steps for a source whose events are lines of JSON."""


@dataclass
class Stage:
    """Where one pair is tried: a folder, servers by their kinds, a name that nobody else uses.

    ``state`` is the folder of the run at work. What ``clearing`` holds is called at the end.
    """

    folder: Path
    servers: Mapping[str, Any]
    label: str
    clearing: ExitStack
    state: Path = field(default_factory=Path)


class Feed(Protocol):
    """Events for a source, and how a pipeline reads them."""

    steps: tuple[str, ...]

    def begin(self) -> None:
        """Make the place that events are put in: once for a source that is followed, once a run for one that is read whole."""

    @property
    def options(self) -> str:
        """The source, as a mapping of YAML."""

    def fill(self, first: int, last: int) -> None:
        """Put in the events of these numbers (half open), each once, and return when they are kept."""


class Catch(Protocol):
    """Where a sink writes to."""

    @property
    def options(self) -> str:
        """The sink, as a mapping of YAML without its braces."""

    def delivered(self) -> Iterable[int]:
        """All that came out, repeats included."""

    def prove(self, total: int) -> None:
        """Assert what else must be true of what came out."""


@dataclass(frozen=True)
class SourceRow:
    """A source in the table. ``whole``: it is read once and ends; ``receives``: it takes events only while a run is at work."""

    name: str
    feed: Callable[[Stage], Feed]
    servers: tuple[str, ...] = ()
    nature: Guarantee = "exactly once"
    whole: bool = False
    receives: bool = False
    ordered: bool = False
    """Its events reach a sink that is ordered, too, in their order."""
    forgetful: bool = False
    """What it reads is lost when its server ends, which is therefore not struck: a point in time is a node's memory."""


@dataclass(frozen=True)
class SinkRow:
    """A sink in the table. ``shows_repeats``: an event that is written twice is there twice."""

    name: str
    catch: Callable[[Stage], Catch]
    servers: tuple[str, ...] = ()
    ordered: bool = False
    shows_repeats: bool = True


def lines(first: int, last: int) -> list[str]:
    """Events as lines of JSON."""
    return [f'{{"n":{n},"text":"event number {n}"}}\n' for n in range(first, last)]
