"""What a source or sink defines for the kill tests: how a test writes events for the source, and reads them from the sink's
target.

An event is a number ``n`` with a text. A new connector is added as a row in `kill_pairs`.
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
class Workspace:
    """Resources of one pair: a folder, servers by their kinds, and a unique name.

    ``state`` is the state folder of the current run. The callbacks of ``cleanup`` are called at the end.
    """

    folder: Path
    servers: Mapping[str, Any]
    label: str
    cleanup: ExitStack
    state: Path = field(default_factory=Path)


class Input(Protocol):
    """The input of a source: writes events, and gives the options with which a pipeline reads them."""

    steps: tuple[str, ...]

    def begin(self) -> None:
        """Create a topic, table or file for events: once for a source that is followed, once a run for one that is read whole."""

    @property
    def options(self) -> str:
        """The source as a YAML mapping."""

    def write_events(self, first: int, last: int) -> None:
        """Write the events from ``first`` to before ``last``, each once, and return when they are stored."""


class Output(Protocol):
    """The target of a sink."""

    @property
    def options(self) -> str:
        """The sink as a YAML mapping without its braces."""

    def delivered(self) -> Iterable[int]:
        """Return all delivered events, with repeats."""

    def check(self, total: int) -> None:
        """Assert what else must be true of the target."""


@dataclass(frozen=True)
class SourceRow:
    """A source in the table. ``whole``: it is read once and ends; ``receives``: it receives events only during a run."""

    name: str
    input: Callable[[Workspace], Input]
    servers: tuple[str, ...] = ()
    guarantee: Guarantee = "exactly once"
    whole: bool = False
    receives: bool = False
    ordered: bool = False
    """Whether a sink that is ordered, too, gets its events in their order."""
    loses_input_on_restart: bool = False
    """Whether its server is not restarted because that would lose the input: a point in time is in a node's memory, or messages
    are in that of a broker."""


@dataclass(frozen=True)
class SinkRow:
    """A sink in the table. ``shows_repeats``: the target has an event twice if it is written twice."""

    name: str
    output: Callable[[Workspace], Output]
    servers: tuple[str, ...] = ()
    ordered: bool = False
    shows_repeats: bool = True
    loses_output_on_restart: bool = False
    """Whether its server is not restarted because that would lose what it has accepted, and has only in memory."""


def lines(first: int, last: int) -> list[str]:
    """Events as lines of JSON."""
    return [f'{{"n":{n},"text":"event number {n}"}}\n' for n in range(first, last)]
