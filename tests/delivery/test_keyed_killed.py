"""Kill -9 at random moments while steps remember keys, such as `dedupe` and `over`: each key is delivered exactly as often as it
must be, with the right numbers.

Each key occurs eight times in a block, twice in a slice and in four slices, so that what it did before is known from the
micro-batch, from state and from state that a killed run left. `make test` kills one run of each kind; with ``SLUICE_KILLS=10``
there are ten runs of 200,000 events.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import pytest
from kill_files import FileInput, TwoFilesInput
from kill_pairs import Pair
from kill_setup import KillSetup
from kill_table import SinkRow, SourceRow, Workspace
from kill_trial import EVENTS, FEW_EVENTS, RUNS, Trial
from running import Engine

EACH = 8
"""Events of a key in a block."""
BLOCK = (EVENTS if RUNS else FEW_EVENTS) // 5
"""Consecutive events of a block, within one second; the next one begins 10 s later, when its keys count as new."""
KEYS = BLOCK // EACH

_TIME = "{type: timestamp, field: millis, target: time, formats: [epoch_millis]}"
_OPTIONS = "keys: [user_name], time: time, late: 1s"


class Kind(NamedTuple):
    """Steps, and which events of a key pass in each block."""

    steps: tuple[str, ...]
    passing: range
    count: Callable[[int, int], int | None] = lambda block, occurrence: None
    """The value of the field ``repeats`` in a result, of a block and the occurrence of a key in it."""


_THROTTLE = f"{{type: throttle, {_OPTIONS}, limit: 3, every: 5s}}"
_LAST = f"{{type: dedupe, {_OPTIONS}, within: 5s, keep: last, count: repeats}}"

_OVER = f"{{type: over, {_OPTIONS}, within: 5s, aggregates: {{repeats: count(*)}}}}"
_SUPPRESS = f"{{type: suppress, {_OPTIONS}, within: 5s, count: repeats}}"
_TOP = f"{{type: top, {_OPTIONS}, size: 10s, by: n, limit: 1, rank: repeats}}"
_OCCURRENCE = f'{{type: set, fields: {{occurrence: "(n % {BLOCK}) div {KEYS}"}}}}'
_NAMED = f'early: "occurrence < {EACH - 1}", last: "occurrence = {EACH - 1}"'
_SEQUENCE = f"""{{type: sequence, {_OPTIONS}, within: 5s, events: {{{_NAMED}}}, pattern: "early{{{EACH - 1},}} then last",
  fields: {{n: last.n}}}}"""
_TAKEN = "{type: set, fields: {repeats: early_count + last_count}}"

KINDS = {
    "first": Kind((f"{{type: dedupe, {_OPTIONS}, within: 5s}}",), range(1)),
    "last": Kind((_LAST,), range(EACH - 1, EACH), lambda block, occurrence: EACH),
    "throttle": Kind((_THROTTLE,), range(3)),
    "sequence": Kind((_OCCURRENCE, _SEQUENCE, _TAKEN), range(EACH - 1, EACH), lambda block, occurrence: EACH),
    "over": Kind((_OVER,), range(EACH), lambda block, occurrence: occurrence + 1),
}
MORE_KINDS = {
    "last behind throttle": Kind((_THROTTLE, _LAST), range(2, 3), lambda block, occurrence: 3),
    "suppress": Kind((_SUPPRESS,), range(1), lambda block, occurrence: EACH - 1 if block else 0),
    "top": Kind((_TOP,), range(EACH - 1, EACH), lambda block, occurrence: 1),
}
KINDS |= MORE_KINDS if RUNS else {}

ROUTES = {"inline": (FileInput, "1s"), "log": (TwoFilesInput, "10m")}
"""One task reads a micro-batch and looks up its keys; or several read it, and others look up keys. How late events can be: one
of two files may be read before the other. All events of a key are in one of them."""

CASES = [(name, route) for name in KINDS for route in ROUTES if RUNS or route == "inline" or name == "last"]

_numbers = itertools.count()


class KeyedFile:
    """The file with the events that pass."""

    def __init__(self, kind: Kind, workspace: Workspace) -> None:
        self.kind = kind
        self.path = workspace.folder / f"{workspace.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        """Yield the numbers of the events that each result stands for. Fails for an event that must not pass."""
        passing = self.kind.passing
        for line in self.path.read_text().splitlines():
            event = json.loads(line)
            block, number = divmod(event["n"], BLOCK)
            occurrence, key = divmod(number, KEYS)
            assert occurrence in passing, line
            assert event.get("repeats") == self.kind.count(block, occurrence), line
            for other in range(occurrence - passing.start, EACH, len(passing)):
                yield block * BLOCK + other * KEYS + key

    def check(self, total: int) -> None:
        """Check nothing more."""


class KeyedSetup(KillSetup):
    """A source in front of steps that look up keys."""

    keyed_steps: tuple[str, ...] = ()

    def steps(self) -> Sequence[str]:
        millis = f"(n div {BLOCK}) * 10000 + (n % {BLOCK}) * 1000 div {BLOCK} + 1700000000000"
        fields = f'user_name: "cast(n % {KEYS} as string)", millis: "{millis}"'
        return [f"{{type: set, fields: {{{fields}}}}}", _TIME, *self.keyed_steps]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("name", "route"), CASES)
def test_every_key_is_delivered_as_often_as_it_must_be(name: str, route: str, engine: Engine) -> None:
    kind, (source, late) = KINDS[name], ROUTES[route]
    with ExitStack() as cleanup:
        workspace = Workspace(engine.etl.folder, {}, f"keyed-{os.getpid()}-{next(_numbers)}", cleanup)
        sink = SinkRow("file", partial(KeyedFile, kind))
        setup = KeyedSetup(workspace, [Pair(SourceRow("file", source, ordered=True), sink)])
        setup.keyed_steps = tuple(step.replace("late: 1s", f"late: {late}") for step in kind.steps)
        trial = Trial(engine, setup, drain=True)

        (found,) = trial()

        assert found.is_exact, str(found)
        assert trial.kills, trial.log
        assert setup.claims(trial.pipeline) == ["exactly once"]
