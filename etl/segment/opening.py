"""Steps that take long to open are opened once a host: by the process that Spark's workers are forked from.

What such a step remembers of its opening (see `ArrowStep.remembers`) is then in every worker, and its memory is shared; it is
tried, too, so that its kernels are loaded. The driver leaves the steps in a file and its place in the environment; where that
file is not, as on a cluster, workers open for themselves.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from etl.api import ArrowStep, Schema
from etl.plan.model import Segment
from etl.segment.warming import attempt, nodes

_PLACE = "SLUICE_OPEN_FIRST"

Opened = tuple[ArrowStep, Schema]


def leave(segments: Iterable[Segment], file: Path) -> None:
    """Note what the daemon that this process starts is to open; only where the kernels for it have been compiled."""
    steps = [(node.step, node.incoming) for segment in segments for node in nodes(segment) if _remembers(node.step)]
    os.environ.pop(_PLACE, None)
    if steps:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as left:
            pickle.dump(steps, left)
        os.environ[_PLACE] = str(file)


def open_first() -> int:
    """Open what was left; the number of steps that could be. What one raises comes again in the worker, which reports it. What
    one logs must be passed on from here: a worker that finds it open does not log it again."""
    place = Path(os.environ.get(_PLACE, ""))
    opened = 0
    if place.is_file():
        for step, incoming in _left(place):
            with suppress(Exception):
                step.open(incoming)
                attempt(step, incoming)
                opened += 1
    return opened


def _left(place: Path) -> list[Opened]:
    with suppress(Exception):  # another version's, or half a file: workers do without
        return pickle.loads(place.read_bytes())
    return []


def _remembers(step: object) -> bool:
    """Without tables: those are not read yet, and may hold passwords, which are for no file."""
    return isinstance(step, ArrowStep) and step.remembers and not step.named_tables()
