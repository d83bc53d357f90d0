"""Archives of environments that are gone are removed, those of others stay."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.columns import cache_folder
from etl.spark.startup import archive
from etl.spark.startup.unused_archives import UNUSED_SECONDS


@pytest.fixture(autouse=True, name="cache")
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of archives in a cache folder of the test's own, on a machine with free memory: without it nothing is
    written, and no lock of a writer is there."""
    monkeypatch.setattr(archive, "_FREE_BYTES", 0)
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    cache_folder.folder.cache_clear()
    yield tmp_path / "cache" / "jvm"
    cache_folder.folder.cache_clear()


def environment(folder: Path) -> tuple[Path, Path]:
    """A Java home, which contains an archive of its own classes, and a folder of jars."""
    for name in ("java/release", "java/lib/server/libjvm.so", "java/lib/server/classes.jsa", "jars/a.jar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).write_text(name)
    return folder / "java", folder / "jars"


def archive_of(folder: Path, cache: Path, *, old: bool = True) -> Path:
    """Plan a launch in a new environment, as a run does, and publish an archive; ``old``: not used for long."""
    home, jars = environment(folder)
    archive.plan_launch(home, jars, {}).on_started(None)
    key = cache / archive._key(archive.JvmEnvironment(str(home), str(jars)))
    key.with_suffix(".new").write_bytes(b"classes")
    archive._publish(key, [], 0)
    if old:
        make_old(key)
    [written] = cache.glob(f"{key.name}-*.jsa")
    return written


def make_old(key: Path) -> None:
    for path in key.parent.glob(f"{key.name}*"):
        os.utime(path, (0, time.time() - UNUSED_SECONDS - 60))


def start_in(folder: Path) -> archive.JvmLaunch:
    how = archive.plan_launch(*environment(folder), {})
    how.on_started(None)
    return how


def test_the_archive_of_a_deleted_or_changed_environment_is_removed_and_others_stay(tmp_path: Path, cache: Path) -> None:
    deleted, changed, present = (archive_of(tmp_path / name, cache) for name in ("deleted", "changed", "present"))
    (tmp_path / "deleted" / "jars" / "a.jar").unlink()
    (tmp_path / "changed" / "jars" / "b.jar").write_text("another")

    own = archive_of(tmp_path / "own", cache, old=False)

    assert set(cache.glob("*.jsa")) == {present, own}
    assert not deleted.exists()
    assert not changed.exists()
    assert {path.suffix for path in cache.glob(f"{deleted.name[:16]}*")} == {".lock"}


def test_an_archive_that_was_used_lately_or_is_being_written_stays(tmp_path: Path, cache: Path) -> None:
    used, writing = archive_of(tmp_path / "used", cache, old=False), archive_of(tmp_path / "writing", cache)
    for name in ("used", "writing"):
        (tmp_path / name / "jars" / "a.jar").unlink()

    with (cache / f"{writing.name[:16]}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start_in(tmp_path / "own")

    assert used.exists()
    assert writing.exists()


def test_archives_of_former_versions_have_no_record_and_are_removed_when_unused(tmp_path: Path, cache: Path) -> None:
    former, own = archive_of(tmp_path / "former", cache), archive_of(tmp_path / "own", cache, old=False)
    for one in (former, own):
        (cache / f"{one.name[:16]}.environment").unlink()

    how = start_in(tmp_path / "own")

    assert how.archive == own
    assert not former.exists()
