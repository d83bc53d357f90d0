"""A run whose state files are cut, changed, missing or swapped: it ends with the name of the file, and gives no results."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import Engine, Etl

from etl.api import EtlError

if TYPE_CHECKING:
    from etl.running.shared_session import SharedSession

pytestmark = pytest.mark.spark

PIPELINE = """
name: damaged
source: {type: file, path: "{here}/in.jsonl"}
steps:
  - {type: json, fields: {at: timestamp, user: string}}
  - {type: dedupe, keys: [user], time: at, within: 1d, late: 1m}
  - {type: window, time: at, size: 1h, late: 0s, group_by: [user], aggregates: {n: count(*)}}
sink: {type: file, path: "{here}/out", format: json}
"""
HOURS = ["06", "07", "09"]
"""Of the events of each run: the last ones close the windows of the first two."""


def read_on(engine: Engine, hour: str) -> None:
    """A run that reads fifty more events."""
    with (engine.etl.folder / "in.jsonl").open("a") as file:
        file.writelines(f'{{"at": "2026-11-20T{hour}:00:{n:02}Z", "user": "{hour}-{n}"}}\n' for n in range(50))
    engine(PIPELINE)


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path, _: Path) -> None:
    """Change one bit."""
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


def remove(path: Path, _: Path) -> None:
    path.unlink()


def swap(path: Path, other: Path) -> None:
    between = path.with_name("between")
    path.rename(between)
    other.rename(path)
    between.rename(other)


def replace(path: Path, other: Path) -> None:
    shutil.copy(other, path)


FILES = {
    "rows of dedupe": ("rows-000000000001-1-state-*", "rows-000000000000-1-state-*"),
    "rows of window": ("rows-000000000001-1-rows-1-*", "rows-000000000000-1-rows-1-*"),
    "manifest": ("manifest-000000000001.json", "manifest-000000000000.json"),
    "seed": ("seed.json", "seed.of-another-state"),
}
"""A file that the next run reads, and one of its kind from the micro-batch before."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline whose runs ended well, and copies of its state and input as they are then."""

    engine: Engine
    folder: Path

    def restore(self) -> None:
        """Set its state and input back to those of the last run that ended well."""
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        shutil.copytree(self.folder / "whole", self.folder / "state")
        shutil.copy(self.folder / "whole.jsonl", self.folder / "in.jsonl")
        (self.folder / "out").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def two_runs(shared_session: SharedSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """After two runs, for the files of all kinds."""
    folder = tmp_path_factory.mktemp("damaged")
    engine = Engine(shared_session, Etl(folder))
    for hour in HOURS[:2]:
        read_on(engine, hour)
    [state] = folder.glob("state/queries/*/state")
    (state / "seed.of-another-state").write_text("7")
    shutil.copytree(folder / "state", folder / "whole")
    shutil.copy(folder / "in.jsonl", folder / "whole.jsonl")
    return Pipeline(engine, folder)


@pytest.mark.parametrize("kind", FILES)
def test_a_run_refuses_files_of_its_state_that_are_not_as_it_wrote_them(two_runs: Pipeline, kind: str) -> None:
    for harm in (cut, change, remove, swap, replace):
        two_runs.restore()
        [state] = two_runs.folder.glob("state/queries/*/state")
        path, other = (next(state.glob(pattern)) for pattern in FILES[kind])
        harm(path, other)
        with pytest.raises(EtlError, match=rf"({path.name}|{other.name}).* restore the state folder"):
            read_on(two_runs.engine, HOURS[2])
        assert not (two_runs.folder / "out").exists()


def test_a_run_goes_on_from_a_restored_state_folder(two_runs: Pipeline) -> None:
    two_runs.restore()

    read_on(two_runs.engine, HOURS[2])

    assert len((two_runs.folder / "out").read_text().splitlines()) == 100
