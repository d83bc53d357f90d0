"""A run whose state files are cut, changed, missing or swapped: it ends with the name of the file, and gives no results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from running import Engine

from etl.api import EtlError

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


@pytest.mark.parametrize("kind", FILES)
def test_a_run_refuses_files_of_its_state_that_are_not_as_it_wrote_them(engine: Engine, kind: str, tmp_path: Path) -> None:
    for hour in HOURS[:2]:
        read_on(engine, hour)
    [state] = tmp_path.glob("state/queries/*/state")
    (state / "seed.of-another-state").write_text("7")
    path, other = (next(state.glob(pattern)) for pattern in FILES[kind])
    shutil.copytree(tmp_path / "state", tmp_path / "whole")

    for harm in (cut, change, remove, swap, replace):
        harm(path, other)
        with pytest.raises(EtlError, match=rf"({path.name}|{other.name}).* restore the state folder"):
            read_on(engine, HOURS[2])
        assert not (tmp_path / "out").exists()
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(tmp_path / "whole", tmp_path / "state")
    read_on(engine, HOURS[2])
    assert len((tmp_path / "out").read_text().splitlines()) == 100
