"""Temporary files of Spark are removed by their run, or by the next one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.spark.jvm.scratch import scratch

HOLD = "import sys; from etl.spark.jvm.scratch import scratch; print(scratch(), flush=True); sys.stdin.read()"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a scratch folder."""
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def folder(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def another() -> None:
    """Another process that creates a scratch folder and ends."""
    subprocess.run([sys.executable, "-c", HOLD], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)


def test_a_run_removes_its_folder(run: subprocess.Popen[str], temporary: Path) -> None:
    mine = folder(run)
    assert mine.parent == temporary
    (mine / "blockmgr").mkdir()

    run.communicate()

    assert list(temporary.iterdir()) == []


def test_the_next_run_removes_the_folder_of_a_killed_run(run: subprocess.Popen[str], temporary: Path) -> None:
    mine = folder(run)
    (mine / "blockmgr").mkdir()
    run.kill()
    run.wait()
    assert mine.exists()

    another()

    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_running_run_is_not_removed(run: subprocess.Popen[str], temporary: Path) -> None:
    mine = folder(run)

    another()

    assert list(temporary.iterdir()) == [mine]


def test_other_folders_are_not_removed(temporary: Path) -> None:
    # given: one that has no lock yet, and a link to somebody's files
    (temporary / "sluice-spark-begins").mkdir()
    (temporary / "others").mkdir()
    (temporary / "others" / "in-use").touch()
    (temporary / "sluice-spark-link").symlink_to(temporary / "others")

    # when
    another()

    # then
    assert sorted(path.name for path in temporary.iterdir()) == ["others", "sluice-spark-begins", "sluice-spark-link"]
    assert (temporary / "others" / "in-use").exists()


def test_a_folder_that_another_run_removed_before_it_was_locked_is_not_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[Path] = []

    def flock(lock: int, _: int) -> None:
        locked.append(Path(os.readlink(f"/proc/self/fd/{lock}")))
        if len(locked) == 1:
            shutil.rmtree(locked[0].parent)

    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr("etl.spark.jvm.scratch.fcntl.flock", flock)

    assert scratch.__wrapped__() == locked[1].parent != locked[0].parent
    assert [path.name for path in temporary.iterdir()] == [locked[1].parent.name]
