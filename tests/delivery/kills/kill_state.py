"""Kill tests of steps with state: the cases of `state_cases` in one pipeline, each a query of its own, on one of four routes."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from function_cases import CODE
from kill_setup import KillSetup, trigger
from kill_table import Output, SourceRow, Workspace
from kill_trial import Outcome, Trial, Victim
from state_cases import BLOCK, FIELDS, READ_BY_SPARK, ROUTES, TIME_FORMAT, Case, Event, Row, event, line

SLICE = BLOCK // 4
PADDING = 3_500
"""Makes slices of the two files larger than what one task reads."""


_FEW_QUERIES = 10
_DELAY_OF_A_QUERY = 0.2


@dataclass(frozen=True)
class Pace:
    """How events are written."""

    block_seconds: int = 10
    """Seconds from the begin of a block to that of the next one."""
    slices: int = 8
    """Parts in which the events of a run are written, with pauses of random length."""
    slice: int = SLICE
    pause_seconds: float = 0.5
    kill_delay_seconds: float = 2.0
    """The victim is killed within this time after a micro-batch has begun: many queries run in turn."""

    @classmethod
    def of_queries(cls, queries: int) -> Self:
        """For so many queries in a pipeline: more of them take longer for a micro-batch each, and have fewer of them."""
        if queries <= _FEW_QUERIES:
            return cls()
        return cls(slices=4, slice=2 * SLICE, kill_delay_seconds=_DELAY_OF_A_QUERY * queries)


QUIET = Pace(block_seconds=100, slices=4, slice=BLOCK, pause_seconds=2.0, kill_delay_seconds=3.0)
"""Each slice is a block, and there are pauses in which what waits is given by the clock, after a second."""


class StateInput:
    """One file, or two with the events of every other key. In a micro-batch that reads both, each is a split of its own."""

    steps: tuple[str, ...] = (f"{{type: json, fields: {FIELDS}}}",)

    def __init__(self, workspace: Workspace, route: str, pace: Pace) -> None:
        self.several, self.pace = route == "several tasks", pace
        self.paths = [workspace.folder / f"{workspace.label}-{number}.log" for number in range(1 + self.several)]
        self.options = "\n".join(f"  input-{number}: {{type: file, path: '{path}'}}" for number, path in enumerate(self.paths))
        self.names = ", ".join(f"input-{number}" for number in range(len(self.paths)))

    def begin(self) -> None:
        for path in self.paths:
            path.touch()

    def events(self, first: int, last: int) -> list[Event]:
        return [event(number, self.pace.block_seconds) for number in range(first, last)]

    def write_events(self, first: int, last: int) -> None:
        for number, path in enumerate(self.paths):
            mine = [one for one in self.events(first, last) if one["k"] % len(self.paths) == number]
            with path.open("a", 1 << 24) as log:
                log.writelines(line(one, PADDING if self.several else 0) for one in mine)


class SparkInput(StateInput):
    """A folder of files that Spark reads, a file a slice."""

    steps = ()

    def __init__(self, workspace: Workspace, route: str, pace: Pace) -> None:
        super().__init__(workspace, route, pace)
        self.folder, self.written = workspace.folder / f"{workspace.label}-in", 0
        self.options = (
            f"  input-0: {{type: spark, format: json, path: '{self.folder}', streaming: true, "
            f"options: {{timestampFormat: \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSX\"}}, fields: {FIELDS}}}"
        )

    def begin(self) -> None:
        self.folder.mkdir(exist_ok=True)

    def write_events(self, first: int, last: int) -> None:
        """Add a file, which is whole as soon as Spark sees it."""
        hidden = self.folder / f".{self.written:06d}.json"
        hidden.write_text("".join(line(one, 0) for one in self.events(first, last)))
        hidden.rename(self.folder / hidden.name.removeprefix("."))
        self.written += 1


class StateSetup(KillSetup):
    """A source before many steps with state."""

    def __init__(self, workspace: Workspace, cases: Mapping[str, Case], route: str, pace: Pace) -> None:
        self.workspace, self.cases, self.route, self.pace = workspace, cases, route, pace
        kind = SparkInput if route == READ_BY_SPARK else StateInput
        self.sources = [SourceRow("file", lambda own: kind(own, route, pace), ordered=True)]
        self.input = kind(workspace, route, pace)
        self.inputs = [self.input]
        self.outputs: list[Output] = []

    def pipeline(self, name: str) -> str:
        spark = ["{type: set, fields: {sound: soundex(key)}}"] if self.route == "after Spark" else []
        steps = ", ".join([*self.input.steps, *spark])
        streams = "".join(self._streams(number, case) for number, case in enumerate(self.cases.values()))
        sinks = "".join(f"  sink-{n}: {{from: case-{n}, {self._sink(n, case)}}}\n" for n, case in enumerate(self.cases.values()))
        functions = sorted({name for case in self.cases.values() for name in case.functions})
        code = self.workspace.folder / f"{self.workspace.label}.py"
        code.write_text(CODE)
        named = ", ".join(f"{one.lower()}: '{code}:{one}'" for one in functions)
        return (
            f"name: {name}\n{f'functions: {{{named}}}' if named else ''}\nsources:\n{self.input.options}\n"
            f"streams:\n  all: {{from: [{self.input.names}], steps: [{steps}]}}\n{streams}"
            f"sinks:\n{sinks}run: {{trigger: {trigger(len(self.cases))}}}\n"
        )

    def _streams(self, number: int, case: Case) -> str:
        case = case.map_steps(lambda one: one.replace("{late}", f"{ROUTES[self.route]}s"))
        steps = ", ".join(case.steps)
        names = [f"case-{number}-{side}" for side in range(len(case.sides))]
        sides = zip(names, case.sides, strict=True)
        more = "".join(f", {one}" for one in case.side_steps)
        lines = [f"  {name}: {{from: all, steps: [{{type: filter, where: '{where}'}}{more}]}}\n" for name, where in sides]
        return "".join([*lines, f"  case-{number}: {{from: [{', '.join(names) or 'all'}], steps: [{steps}]}}\n"])

    def _sink(self, number: int, case: Case) -> str:
        if not case.table_key:
            return f"type: file, path: '{self.path(number)}'{case.sink}"
        path = self.path(number).with_suffix(".db")
        with closing(sqlite3.connect(path)) as database:
            columns = ", ".join(f"{name} {'TEXT PRIMARY KEY' if name == case.table_key else 'BIGINT'}" for name in case.fields)
            database.execute(f"CREATE TABLE IF NOT EXISTS results ({columns})")
        return f"type: database, url: 'sqlite:///{path}', table: results, mode: upsert, key: [{case.table_key}]"

    def _rows(self, number: int, case: Case) -> list[Row]:
        """What the sink of a case has written."""
        if case.table_key:
            with closing(sqlite3.connect(self.path(number).with_suffix(".db"))) as database:
                return database.execute(f"SELECT {', '.join(case.fields)} FROM results").fetchall()
        lines = self.path(number).read_text().splitlines()
        return [tuple(value_at(row, name) for name in case.fields) for row in map(json.loads, lines)]

    def _dead_letters(self, number: int, case: Case) -> list[Row]:
        letters = map(json.loads, (self.workspace.state / "dead_letters.jsonl").read_text().splitlines())
        mine = [(one["code"], json.loads(one["event"])) for one in letters if one["at"].startswith(f"case-{number}[")]
        return [(code, *(_as_in_files(value_at(event, name)) for name in case.fields)) for code, event in mine]

    def path(self, number: int) -> Path:
        """The file with the results of a case."""
        return self.workspace.folder / f"{self.workspace.label}-case-{number}.jsonl"

    def found(self, total: int, log: Sequence[str]) -> dict[str, Outcome]:
        """Compare the results of each case with those of so many events."""
        events = self.input.events(0, total)
        return {name: self._outcome(number, case, events, log) for number, (name, case) in enumerate(self.cases.items())}

    def _outcome(self, number: int, case: Case, events: Sequence[Event], log: Sequence[str]) -> Outcome:
        rows = [*self._rows(number, case), *(self._dead_letters(number, case) if case.dead_letters else ())]
        found, expected = Counter(map(_hashable, case.reduce(rows))), Counter(map(_hashable, case.expected(events)))
        more = found - expected
        repeats = sum(count for row, count in more.items() if row in expected)
        unexpected = [row for row in more if row not in expected]
        return Outcome(expected.total(), list((expected - found).elements()), repeats, unexpected, list(log))


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value of a field such as ``right.n``; None if it is not there."""
    found: Any = row
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _as_in_files(value: Any) -> Any:
    """The value of a dead letter as the sink `file` writes it."""
    is_time = isinstance(value, str) and value.endswith("+00:00")
    return datetime.fromisoformat(value).strftime(TIME_FORMAT) if is_time else value


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(one)) for name, one in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


class StateTrial(Trial):
    """Kills runs of one pipeline; a killed worker is each of the run's, so that all queries have one that was killed."""

    setup: StateSetup

    def outcomes(self) -> dict[str, Outcome]:
        """Do all runs; return the outcome of each case."""
        for number, victim in enumerate(self._victims()):
            if number == 0:
                self._begin(number)
            with self._running(number) as run:
                self._wait_until_running(number, run)
                self._run_and_kill(number, run, victim)
        self._finish()
        return self.setup.found(self.total, self.log)

    def _run_and_kill(self, number: int, run: subprocess.Popen[bytes], victim: Victim) -> None:
        """Write events in slices, and kill the victim after one of them; a run that survives gets SIGTERM at the end."""
        pace = self.setup.pace
        at = self.random.randrange(pace.slices)
        for piece in range(pace.slices):
            begun = self._begun_batches()
            self._write(pace.slice)
            if piece < at:
                time.sleep(self.random.uniform(0, pace.pause_seconds))
            if piece == at:
                self._wait_for_work(begun, run)
                time.sleep(self.random.uniform(0, pace.kill_delay_seconds))
                self.log.append(f"run {number}: {self._kill_victim(run, victim)} at slice {at}")
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)

    @property
    def several_queries(self) -> bool:
        """Each step is a query."""
        return True

    def ticks(self) -> int:
        """The micro-batches without events that Spark's checkpoints still name."""
        texts = [path.read_text() for path in self.state.glob("queries/*/checkpoint/offsets/[0-9]*")]
        return sum('"tick"' in text or '"quiet"' in text for text in texts)
