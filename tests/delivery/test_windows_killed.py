"""Kill -9 at random moments while windows are open and close: each window is delivered once, with all of its events, and each
result of another entry of `emit` once.

`make test` kills one run of each kind of window; with ``SLUICE_KILLS=10`` there are ten runs of 200,000 events.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
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

LATE_GROUP = 7
"""The group whose last events in a block have the times of the block before, whose windows have closed or close."""
_ENTRIES = "[on_close, {when: n_count >= 5}, {late: {for: 1h, as: separate}}]"
_ALERTED = (
    "{{type: window, time: time, size: 10s, late: {late}, group_by: [block, user_name], "
    f"aggregates: {{{{numbers: 'collect(n, 100)', n_count: count(*)}}}}, emit: {_ENTRIES.replace('{', '{{').replace('}', '}}')}, "
    "emit_reason: why}}"
)
LATE = {"inline": "0s", "log": "10m"}
"""How late events can be: one of two files may be read before the other."""


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


class AlertFile(WindowFile):
    """The file with results on close, of late events, and of a condition."""

    def delivered(self) -> Iterator[int]:
        """Yield the numbers of the events in results on close and of late events. Fails if a condition gives a result twice, or
        none in a window with all events of a group."""
        met: Counter[tuple[int, str, str]] = Counter()
        blocks: set[int] = set()
        for line in self.path.read_text().splitlines():
            result = json.loads(line)
            if result["why"] == "when":
                assert result["n_count"] >= EACH // 2, line
                met[result["block"], result["user_name"], result["window_start"]] += 1
            else:
                assert len(result["numbers"]) == result["n_count"], line
                blocks.add(result["block"])
                yield from result["numbers"]
        assert set(met.values()) == {1}, met.most_common(5)
        groups = {str(group) for group in range(GROUPS)} - {str(LATE_GROUP)}
        assert {(block, group) for block, group, _ in met} >= {(block, group) for block in blocks for group in groups}


class WindowSetup(KillSetup):
    """A source in front of windows."""

    windows: tuple[str, ...] = ()
    back_millis = 0
    """How much earlier the last events of one group in a block are."""

    def steps(self) -> Sequence[str]:
        back = f"if(n % {GROUPS} = {LATE_GROUP} and n % {BLOCK} >= {BLOCK // 2}, {self.back_millis}, 0)"
        fields = (
            f'block: "n div {BLOCK}", user_name: "cast(n % {GROUPS} as string)", '
            f'millis: "(n div {BLOCK}) * 10000 + n % {BLOCK} + 1700000000000 - {back}"'
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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES if RUNS else ["inline"])
def test_alerts_and_late_results_are_delivered_once(route: str, engine: Engine) -> None:
    with ExitStack() as cleanup:
        workspace = Workspace(engine.etl.folder, {}, f"alerts-{os.getpid()}-{next(_numbers)}", cleanup)
        setup = WindowSetup(workspace, [Pair(SourceRow("file", ROUTES[route], ordered=True), SinkRow("file", AlertFile))])
        setup.windows, setup.back_millis = (_ALERTED.format(late=LATE[route]),), 10_000
        trial = Trial(engine, setup, drain=True)

        (found,) = trial()

        assert found.is_exact, str(found)
        assert trial.kills, trial.log
        assert setup.claims(trial.pipeline) == ["exactly once"]
