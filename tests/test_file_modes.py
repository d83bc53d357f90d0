"""The modes of files that a run writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from running import Etl

from etl.file_modes import output_mode, private_files, replace_file


def test_new_files_are_private_and_output_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with private_files():
            (tmp_path / "x").touch()
            assert output_mode() == 0o640
        (tmp_path / "y").touch()
        assert output_mode() == 0o640
    finally:
        os.umask(before)

    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "xy"] == [0o600, 0o640]


def test_two_runs_of_one_process_keep_files_private_until_both_have_ended(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        first, second = private_files(), private_files()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        (tmp_path / "x").touch()
        assert output_mode() == 0o640
        second.__exit__(None, None, None)
        (tmp_path / "y").touch()
        assert output_mode() == 0o640
    finally:
        os.umask(before)

    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "xy"] == [0o600, 0o640]


def test_a_file_is_replaced_atomically_and_is_private(tmp_path: Path) -> None:
    replace_file(tmp_path / "x", b"one")
    replace_file(tmp_path / "x", b"two", sync_folder=False)

    assert (tmp_path / "x").read_bytes() == b"two"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "x", b"one")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/x'"):
        replace_file(tmp_path / "x", b"two")

    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"one"


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_keeps_its_state_private_whatever_the_umask(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "in.log").write_text("one\ntwo\n")
    pipeline = etl.pipeline("""
        source: {type: file, path: "{here}/in.log"}
        sink: {type: file, path: "{here}/out/x.jsonl"}
    """)
    before = os.umask(0)
    try:
        ran = etl.run(pipeline, "--once")
    finally:
        os.umask(before)

    assert ran.status == 0, ran.err
    found = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert {str(path): oct(path.stat().st_mode) for path in found if path.stat().st_mode & 0o077} == {}
    assert (tmp_path / "out/x.jsonl").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777
