"""A pipeline that fails starts again: each attempt has the lock, the receivers and the committers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from etl.api import ComponentError
from etl.running.supervision import SupervisedRun


class FailingRun:
    """Stands in for a run: its first attempt fails; the receivers of the second do not start."""

    def __init__(self) -> None:
        self.plan = SimpleNamespace(pipeline="p", sources=dict)
        self.notes: list[str] = []
        self.stopped = False
        self.interrupted = False
        self.output: list[str] = []

    @contextmanager
    def prepared(self) -> Iterator[object]:
        self.output.append("lock")
        try:
            yield object()
        finally:
            self.output.append("unlock")

    def renew(self) -> None:
        self.output.append("renew")

    def work(self, session: Any, commits: object) -> None:
        self.output.append("work")
        if self.output.count("work") == 1:
            raise ComponentError("the disk is full")

    def wait_for_stop(self, seconds: float) -> bool:
        self.output.append(f"wait {seconds:g}")
        return False


@contextmanager
def receiving(run: FailingRun) -> Iterator[None]:
    if run.output.count("lock") == 2:
        raise ComponentError("the port is in use")
    yield


def test_an_attempt_that_could_not_start_is_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.running.supervision.warn_of_missing_input", lambda run, report, upstream: None)
    monkeypatch.setattr("etl.running.supervision._run_receivers", receiving)
    run: Any = FailingRun()
    one = SupervisedRun(run, several=True, restarts=True, on_message=lambda _: None)

    one.prepare()
    one.work(None, lambda error: False)  # type: ignore[arg-type]
    one.close()

    first, second, third = (
        ["lock", "work", "unlock", "wait 1"],
        ["renew", "lock", "unlock", "wait 2"],
        ["renew", "lock", "work", "unlock"],
    )
    assert run.output == [*first, *second, *third]
    assert (one.status, one.failures) == ("ended", 2)
