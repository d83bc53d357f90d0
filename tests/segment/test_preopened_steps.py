"""Steps that are opened before workers are forked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar, cast

import pyarrow as pa
import pytest

from etl.api import ArrowStep, Outcome, Schema, StatefulStep
from etl.plan.segments import Branch, Segment, StepNode
from etl.segment import preopened_steps
from etl.steps.detection.rules import Rules
from etl.steps.filter import Filter
from etl.steps.keyed.dedupe import Dedupe
from etl.udf.declaration import UserFunction, with_functions

SCHEMA = pa.schema([("message", pa.string()), ("_offset", pa.int64())])


def segment(*steps: ArrowStep, pipeline: str = "main") -> tuple[str, Segment]:
    nodes = tuple(StepNode(f"main[{at}]", step, SCHEMA, SCHEMA) for at, step in enumerate(steps))
    return pipeline, Segment({"main": Branch(nodes, SCHEMA)}, {})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SLUICE_OPEN_FIRST", raising=False)
    return tmp_path / "logs" / "open-first.pickle"


class Slow(ArrowStep):
    """One whose openings are counted."""

    type: str = "slow"
    bad: bool = False
    opens_before_fork: ClassVar[bool] = True
    opened: ClassVar[list[Schema]] = []

    def open(self, incoming: Schema) -> object:  # type: ignore[override]
        logging.getLogger("sluice.slow").warning("opened slowly")
        if self.bad:
            raise ValueError("not like this")
        self.opened.append(incoming)
        return Outcome


def test_steps_that_cache_their_opening_are_opened(place: Path) -> None:
    Slow.opened.clear()
    preopened_steps.save_steps_to_open([segment(Filter(where="message = 'a'"), Slow(bad=True), Slow())], place)

    assert preopened_steps.open_steps() == 1
    assert Slow.opened == [SCHEMA] * 2  # opened, and tried


def test_steps_with_state_are_run_on_sample_events(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[StatefulStep, Schema]] = []
    monkeypatch.setattr(preopened_steps, "run_with_state", lambda step, incoming, folder: ran.append((step, incoming)))
    known = Dedupe.model_validate({"keys": ["message"], "time": "_arrival", "within": "1h"})
    calling = known.model_copy(update={"keys": [with_functions("message", [cast(UserFunction, "own")])]})
    nodes = [("main", StepNode(f"main[{at}]", step, SCHEMA, SCHEMA)) for at, step in enumerate((known, calling))]

    preopened_steps.save_steps_to_open([], place, nodes)

    assert preopened_steps.open_steps() == 1
    assert ran == [(known, SCHEMA)]


def test_a_step_opened_early_is_opened_once_and_its_log_records_come_later(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    Slow.opened.clear()
    preopened_steps.save_steps_to_open([segment(Slow())], place)

    preopened_steps.open_early()
    assert caplog.messages == []
    assert preopened_steps.open_steps() == 1
    assert Slow.opened == [SCHEMA] * 2
    assert caplog.messages == ["opened slowly"] * 2


@pytest.mark.parametrize("ahead", [True, False])
def test_log_records_of_an_opening_have_the_pipeline_of_the_step(
    place: Path, caplog: pytest.LogCaptureFixture, ahead: bool
) -> None:
    preopened_steps.save_steps_to_open([segment(Slow(), pipeline="one"), segment(Slow(), pipeline="two")], place)

    if ahead:
        preopened_steps.open_early()
    preopened_steps.open_steps()

    assert [getattr(record, "pipeline", None) for record in caplog.records] == ["one", "one", "two", "two"]


def test_rules_are_compiled_once(place: Path) -> None:
    from etl.steps.detection.rules import _engine

    rules = Rules.model_validate({"rules": [{"name": "opened first", "where": "message = 'a'"}]})
    preopened_steps.save_steps_to_open([segment(rules)], place)
    assert preopened_steps.open_steps() == 1
    before = _engine.cache_info()

    rules.model_copy().open(SCHEMA)

    after = _engine.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 0)


@pytest.mark.parametrize("left", [b"", b"\x80\x05junk", None])
def test_a_damaged_file_of_steps_is_ignored(place: Path, left: bytes | None) -> None:
    preopened_steps.save_steps_to_open([segment(Slow())], place)
    place.unlink()
    if left is not None:
        place.write_bytes(left)

    assert preopened_steps.open_steps() == 0


def test_steps_with_tables_are_not_saved(place: Path) -> None:
    preopened_steps.save_steps_to_open([segment(Rules.model_validate({"tables": {"hunting": "rule"}}))], place)

    assert not place.exists()
    assert preopened_steps.open_steps() == 0


def test_the_file_of_steps_is_private(place: Path) -> None:
    place.parent.mkdir()
    place.touch(0o644)

    preopened_steps.save_steps_to_open([segment(Slow())], place)

    assert place.stat().st_mode & 0o777 == 0o600


def test_without_slow_steps_there_is_no_file(place: Path) -> None:
    preopened_steps.save_steps_to_open([segment(Slow())], place)
    preopened_steps.save_steps_to_open([segment(Filter(where="message = 'a'"))], place.with_name("other"))

    assert not place.with_name("other").exists()
    assert preopened_steps.open_steps() == 0
