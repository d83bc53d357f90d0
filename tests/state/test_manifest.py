"""Manifests: what is written is read, and what is damaged or missing is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from etl.api import ComponentError
from etl.state.manifest import KEPT_VERSIONS, Manifest, Manifests, StageState, StateFileEntry


def entry(name: str) -> StateFileEntry:
    return StateFileEntry(name, -60_000_000, 0, 3, 500, 9)


def manifest(*names: str) -> Manifest:
    return Manifest(7, (StageState(5, tuple(map(entry, names))), StageState()), parallelism=2)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    Manifests(tmp_path).write(0, manifest("rows-a"))

    assert Manifests(tmp_path).read(0) == manifest("rows-a")
    assert Manifests(tmp_path).read(-1) == Manifest()


def test_files_stay_while_a_micro_batch_may_start_from_their_manifest(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path)

    for batch in range(6):
        (tmp_path / f"rows-{batch}").touch()
        (tmp_path / f"rows-{batch}.7-ab.part").touch()
        manifests.write(batch, manifest(f"rows-{batch}"))

    assert sorted(path.name for path in tmp_path.glob("rows-*")) == [f"rows-{batch}" for batch in range(6 - KEPT_VERSIONS, 6)]
    assert all(manifests.read(batch) == manifest(f"rows-{batch}") for batch in range(6 - KEPT_VERSIONS, 6))


def test_a_manifest_with_any_character_changed_is_refused(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path)
    manifests.write(0, manifest("rows-a"))
    [path] = tmp_path.glob("manifest-*")
    whole = path.read_text()

    for at, character in enumerate(whole):
        path.write_text(whole[:at] + ("7" if character != "7" else "8") + whole[at + 1 :])
        with pytest.raises(ComponentError, match=r"manifest-.* cannot be read \(.*\): restore the state folder from a backup"):
            manifests.read(0)


def test_a_missing_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"manifest-000000000004\.json cannot be read"):
        Manifests(tmp_path).read(4)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    Manifests(tmp_path).write(0, manifest())
    [path] = tmp_path.glob("manifest-*")
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 1}))

    with pytest.raises(ComponentError, match="its version is 1, and this release reads version 2"):
        Manifests(tmp_path).read(0)


def test_a_manifest_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    one, other = (Manifests(tmp_path / query / "state") for query in ("one", "other"))
    for batch in (0, 1):
        one.write(batch, manifest("rows-a"))
        other.write(batch, manifest("rows-a"))
    first, second = (one.folder / f"manifest-{batch:012d}.json" for batch in (0, 1))

    shutil.copy(first, second)
    with pytest.raises(ComponentError, match=r"it is that of micro-batch 0, in the place of that of micro-batch 1\): restore"):
        one.read(1)
    shutil.copy(other.folder / first.name, first)
    with pytest.raises(ComponentError, match=r"it is that of query 'other', in the place of that of query 'one'\): restore"):
        one.read(0)


def test_the_seed_of_another_state_is_refused(tmp_path: Path) -> None:
    one, other = (Manifests(tmp_path / folder / "query" / "state") for folder in ("one", "other"))
    one.write(0, manifest("rows-a"))
    other.write(0, manifest("rows-a"))
    shutil.copy(other.folder / "seed.json", one.folder)

    with pytest.raises(ComponentError, match=r"the seed.json beside it is that of another state\): restore"):
        Manifests(one.folder).read(0)


def test_a_full_disk_leaves_the_manifest_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = Manifests(tmp_path)
    manifests.write(0, manifest("rows-a"))
    (tmp_path / "rows-a").touch()
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))

    with pytest.raises(ComponentError, match=r"state file .*manifest-000000000001.json cannot be written: .*No space left"):
        manifests.write(1, manifest("rows-b"))
    with pytest.raises(ComponentError, match=r"state file .*seed.json cannot be written: .*No space left"):
        _ = Manifests(tmp_path / "new").seed

    assert manifests.versions() == [0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest-000000000000.json", "new", "rows-a", "seed.json"]


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b'"x"', b"\xff"])
def test_a_damaged_seed_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "seed.json").write_bytes(content)

    with pytest.raises(ComponentError, match=r"state file .*seed.json cannot be read .*: restore the state folder"):
        _ = Manifests(tmp_path).seed


def test_a_state_without_its_seed_is_refused(tmp_path: Path) -> None:
    seed = Manifests(tmp_path).seed
    assert Manifests(tmp_path).seed == seed
    Manifests(tmp_path).write(0, manifest())
    (tmp_path / "seed.json").unlink()

    with pytest.raises(ComponentError, match=r"seed.json is missing"):
        _ = Manifests(tmp_path).seed
