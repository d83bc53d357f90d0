"""The cache folder is writable, and no other user can write to it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from etl.columns.cache_folder import ROOM, folder, tidy


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a temporary folder of its own, no settings."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("SLUICE_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path


def test_the_users_cache_is_the_default(places: Path) -> None:
    found = folder.__wrapped__()

    assert found == places / "home/.cache/sluice"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_a_setting_wins(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "xdg"))
    assert folder.__wrapped__() == places / "xdg/sluice"

    monkeypatch.setenv("SLUICE_CACHE", str(places / "mine/deep"))
    assert folder.__wrapped__() == places / "mine/deep"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(places: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    shared = places / "shared"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setenv("SLUICE_CACHE", str(shared))

    assert folder.__wrapped__() == places / "home/.cache/sluice"


def test_a_folder_of_another_user_is_not_used(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    theirs = places / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    monkeypatch.setenv("SLUICE_CACHE", str(theirs))

    assert folder.__wrapped__() == places / "home/.cache/sluice"


def test_a_file_in_place_of_the_folder_is_not_used(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "file").write_text("")
    (places / "home").mkdir()
    (places / "home/.cache").write_text("")
    monkeypatch.setenv("SLUICE_CACHE", str(places / "file/below"))

    assert folder.__wrapped__() == places / f"temporary/sluice-{os.getuid()}"


def test_an_unwritable_folder_is_not_used(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(places / "sealed"))
    monkeypatch.setattr("os.access", lambda path, mode: path != str(places / "sealed"))  # root may write everywhere

    assert folder.__wrapped__() == places / "home/.cache/sluice"


def test_a_folder_on_a_full_disk_is_not_used(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(places)._replace(free=ROOM - 1)
    monkeypatch.setenv("SLUICE_CACHE", str(places / "full"))
    monkeypatch.setattr("shutil.disk_usage", lambda path, real=shutil.disk_usage: full if path.endswith("full") else real(path))

    assert folder.__wrapped__() == places / "home/.cache/sluice"


def test_the_last_resort_is_a_new_folder(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "home").write_text("")
    planted = places / f"temporary/sluice-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)

    found = folder.__wrapped__()

    assert found.parent == places / "temporary"
    assert found != planted
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_old_files_are_removed(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = places / "home/.cache/sluice"
    for name in (
        "kernels-old/__pycache__/scan.nbi",
        "kernels/old-kernel",
        "kernels/new-kernel",
        "compiled/old-mark",
        "scanners/old.tables",
        "scanners/new.tables",
        "jvm/old.jsa",
        "jvm/new.jsa",
        "mine",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    for name in ("kernels-old", "kernels/old-kernel", "compiled/old-mark", "scanners/old.tables", "jvm/old.jsa", "mine"):
        os.utime(home / name, (0, 0))
    monkeypatch.setattr("etl.columns.cache_folder.folder", lambda: home)

    tidy()

    left = sorted(path.name for path in home.rglob("*"))
    assert left == ["compiled", "jvm", "kernels", "mine", "new-kernel", "new.jsa", "new.tables", "scanners"]
