"""The lock of a state folder, also of one that is removed while it is in use."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etl.api import ComponentError
from etl.server import serving
from etl.spark.run import PipelineRun, RunMode
from etl.spark.state.folder import StateFolder, lock_state

REPLACED = "was removed or replaced while this process used it"


def test_a_second_process_is_refused_with_the_first_one(tmp_path: Path) -> None:
    with lock_state(StateFolder(tmp_path)) as lock:
        lock.check()
        with pytest.raises(ComponentError, match="in use by another run"), lock_state(StateFolder(tmp_path), "wait"):
            pass


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_the_holder_notices_that_the_folder_was_removed(tmp_path: Path, is_made_anew: bool) -> None:
    state = StateFolder(tmp_path / "state")
    state.prepare()

    with lock_state(state) as lock:
        shutil.rmtree(state.root)
        if is_made_anew:
            state.prepare()
            with lock_state(state) as second:
                second.check()
        with pytest.raises(ComponentError, match=REPLACED):
            lock.check()


def test_a_run_whose_folder_was_replaced_ends_within_its_micro_batch(tmp_path: Path) -> None:
    cancelled: list[str] = []
    queries: Any = SimpleNamespace(session=SimpleNamespace(sparkContext=SimpleNamespace(cancelJobsWithTag=cancelled.append)))
    plan: Any = SimpleNamespace(queries=[])
    state = StateFolder(tmp_path / "state")
    state.prepare()

    with lock_state(state) as lock:
        run = PipelineRun(plan, state, RunMode())
        run._lock = lock
        run._check_lock(queries)
        assert (run._failed, cancelled) == ([], [])

        shutil.rmtree(state.root)
        run._check_lock(queries)

    assert (len(run._failed), cancelled) == (1, [run.id])


def test_a_server_whose_folder_was_replaced_ends_and_leaves_the_address_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CHECK_SECONDS", 0.01)
    session: Any = SimpleNamespace(jvm_error=lambda: None)
    state = StateFolder(tmp_path / "state")
    state.prepare()

    with lock_state(state) as lock, serving._announced(state, "http://localhost:1"):
        shutil.rmtree(state.root)
        state.prepare()
        (state.root / "server.json").write_text('{"url": "http://localhost:2"}')
        with pytest.raises(ComponentError, match=REPLACED):
            serving._watch(session, lock, threading.Event())

    assert (state.root / "server.json").exists()
