"""Kill -9 at random moments while windows are open and close: each window is delivered once, with all of its events.

`make test` kills one run of each kind of window; with ``SLUICE_KILLS=10`` there are ten runs of 200,000 events.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from kill_files import FileInput, TwoFilesInput
from kill_pairs import Pair
from kill_setup import KillSetup
from kill_table import SinkRow, SourceRow, Workspace
from kill_trial import RUNS, Trial
from running import Engine

BLOCK, GROUPS = 1_000, 100
"""Consecutive events of a block, and the groups to which they belong in turn."""
EACH = BLOCK // GROUPS
"""Events of a group in a block: one window."""

_AGGREGATES = "{first_n: min(n), last_n: max(n), n_sum: sum(n), n_count: count(*)}"
_MERGED = "{first_n: min(first_n), last_n: max(last_n), n_sum: sum(n_sum), n_count: sum(n_count)}"
_TUMBLING = "{{type: window, time: time, size: {size}, late: 10m, group_by: [block, user_name], aggregates: {aggregates}}}"

_TIME = "{type: timestamp, field: millis, target: time, formats: [epoch_millis]}"

WINDOWS = {
    "tumbling": [_TUMBLING.format(size="10s", aggregates=_AGGREGATES)],
    "sessions": [_TUMBLING.replace("size:", "gap:").format(size="2s", aggregates=_AGGREGATES)],
    "a window behind a window": [
        _TUMBLING.format(size="200ms", aggregates=_AGGREGATES),
        _TUMBLING.replace("time: time", "time: window_start").format(size="10s", aggregates=_MERGED),
    ],
    "Spark between windows": [
        "{type: set, fields: {sound: soundex(user_name)}}",
        _TUMBLING.format(size="200ms", aggregates=_AGGREGATES),
        "{type: set, fields: {again: soundex(user_name)}}",
        _TUMBLING.replace("time: time", "time: window_start").format(size="10s", aggregates=_MERGED),
    ],
}
"""A block has event times of one second, and the next one begins 10 s later."""

ROUTES = {"inline": FileInput, "log": TwoFilesInput}
"""One task reads a micro-batch and runs the windows, or several read it, and others run the windows."""

CASES = [(windows, route) for windows in WINDOWS for route in ROUTES if RUNS or route == "inline" or windows.startswith("a ")]

_numbers = itertools.count()


class WindowFile:
    """The file with the results of windows."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.folder / f"{workspace.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        """Yield the numbers of the events in results. Fails for a window without all of its events."""
        for line in self.path.read_text().splitlines():
            window = json.loads(line)
            numbers = range(window["first_n"], window["last_n"] + 1, GROUPS)
            assert (len(numbers), sum(numbers), EACH) == (window["n_count"], window["n_sum"], window["n_count"]), line
            yield from numbers

    def check(self, total: int) -> None:
        """Check nothing more."""


class WindowSetup(KillSetup):
    """A source in front of windows."""

    windows: tuple[str, ...] = ()

    def steps(self) -> Sequence[str]:
        fields = (
            f'block: "n div {BLOCK}", user_name: "cast(n % {GROUPS} as string)", '
            f'millis: "(n div {BLOCK}) * 10000 + n % {BLOCK} + 1700000000000"'
        )
        return [f"{{type: set, fields: {{{fields}}}}}", _TIME, *self.windows]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("windows", "route"), CASES)
def test_every_window_is_delivered_once(windows: str, route: str, engine: Engine) -> None:
    with ExitStack() as cleanup:
        workspace = Workspace(engine.etl.folder, {}, f"windows-{os.getpid()}-{next(_numbers)}", cleanup)
        setup = WindowSetup(workspace, [Pair(SourceRow("file", ROUTES[route], ordered=True), SinkRow("file", WindowFile))])
        setup.windows = tuple(WINDOWS[windows])
        trial = Trial(engine, setup, drain=True)

        (found,) = trial()

        assert found.is_exact, str(found)
        assert trial.kills, trial.log
        assert setup.claims(trial.pipeline) == ["exactly once"]
