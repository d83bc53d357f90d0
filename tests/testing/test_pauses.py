"""Pauses in the input of tests: the clock moves on without events."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etl.config import check
from etl.config.cases.case_file import inspect_tests
from etl.testing.on_spark import run_on
from etl.testing.results import result

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession

FILES = sorted((Path(__file__).parent / "pauses").glob("*.yaml"))


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=[path.stem for path in FILES])
def test_a_pause_gives_what_a_quiet_stream_gives(file: Path, shared_session: SharedSession) -> None:
    checked = inspect_tests(file)
    assert checked.suite is not None, checked.problems

    found = {
        case.name: list(result(checked.suite, case, partial(run_on, shared_session)).lines()) for case in checked.suite.cases
    }

    assert found == {case.name: [] for case in checked.suite.cases}


def test_a_pause_that_is_no_duration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("""\
source: {type: file, path: /nowhere/x.log}
steps: []
sink: {type: console}
tests:
  one: {input: [a, {quiet: 30}, {quiet: 1m}, {loud: 1m}], expect: 1}
""")

    assert sorted((one.code, one.message) for one in check([path])) == [
        ("invalid-value", "quiet: 30 is not a duration; write the unit after it, such as 30s or 30m"),
        ("unknown-field", "there is no field 'loud' here"),
    ]
