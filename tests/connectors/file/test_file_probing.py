"""The probe of the `file` source before a run, and its message after a run that read nothing."""

from __future__ import annotations

import builtins
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from connectors.file.source import FileSource
from etl.api import Limit


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def probe_messages(path: str | Path, **options: Any) -> list[tuple[str, str | None]]:
    findings = list(FileSource(path=str(path), **options).probe())
    assert all((one.severity, one.path) == ("error", ("path",)) for one in findings)
    return [(one.message, one.hint) for one in findings]


def test_files_that_can_be_read_give_no_finding(here: Path) -> None:
    (here / "a.log").write_text("one\n")
    (here / "empty.log").touch()

    assert probe_messages("*.log") == probe_messages("a.log") == probe_messages(here / "a.log") == []


def test_a_missing_folder_is_reported_with_the_nearest_existing_one(here: Path) -> None:
    (here / "var").mkdir()

    assert probe_messages("var/log/app/*.log") == [
        (
            f"no file matches 'var/log/app/*.log' in working directory {str(here)!r}",
            f"there is no folder 'var/log/app'; the nearest that exists is {str(here / 'var')!r}",
        )
    ]


def test_an_absolute_path_needs_no_working_directory(here: Path) -> None:
    assert probe_messages(here / "*.log") == [
        (f"no file matches {str(here / '*.log')!r}", f"folder {str(here)!r} exists, with 0 other names")
    ]


def test_a_similar_name_is_suggested(here: Path) -> None:
    (here / "auth.log").touch()

    assert probe_messages(here / "auht.log") == [(f"there is no file {str(here / 'auht.log')!r}", "did you mean 'auth.log'?")]


def test_files_that_exclude_excludes_are_reported(here: Path) -> None:
    (here / "a.log").touch()

    ((message, hint),) = probe_messages(here / "*.log", exclude=["a.*"])

    assert message == f"exclude excludes all files that match {str(here / '*.log')!r}"
    assert hint == "make `exclude` narrower: a.*"


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_is_not_a_glob(here: Path, slash: str) -> None:
    (here / "logs").mkdir()

    assert probe_messages(f"{here}/logs{slash}") == [
        (
            f"'{here}/logs{slash}' is a folder",
            f"write '{here}/logs/*' for the files in it, '{here}/logs/**' for those in all folders below, too",
        )
    ]


def test_a_pipe_is_not_a_file(here: Path) -> None:
    os.mkfifo(here / "pipe")

    ((message, _),) = probe_messages(here / "pipe")

    assert message == f"{str(here / 'pipe')!r} is not a regular file"


@pytest.mark.parametrize(("path", "hint"), [("~/x.log", "write ${HOME}"), ("{a,b}.log", "braces are literal")])
def test_shell_syntax_is_literal(here: Path, path: str, hint: str) -> None:
    ((_, found),) = probe_messages(path)

    assert found is not None
    assert hint in found


def test_unreadable_files_are_counted_and_one_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (here / f"{name}.log").write_text("one\n")
    usual = builtins.open

    def refuse(path: Any, *rest: Any, **more: Any) -> Any:
        if str(path).endswith(("a.log", "b.log")):
            raise PermissionError(13, "Permission denied")
        return usual(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        found = probe_messages(here / "*.log")

    (message, hint) = found[0]
    assert message == f"3 files match '{here}/*.log', of which 2 cannot be opened: '{here}/a.log': Permission denied"
    assert hint is not None
    assert len(found) == 1


def explanations(path: Path, **options: Any) -> tuple[str, str]:
    """Return the message of a first run that reads nothing, and that of a second one."""
    source = FileSource(path=str(path), **options)
    start = source.start()
    return source.explain_no_events(None), source.explain_no_events(source.latest(start, Limit(1 << 40, bounded=True)))


def test_explanation_for_missing_and_empty_files(here: Path) -> None:
    assert explanations(here / "*.log") == (f"no file matches '{here}/*.log'",) * 2

    (here / "a.log").touch()
    assert explanations(here / "*.log") == (f"1 file matches '{here}/*.log', but it is empty",) * 2


def test_explanation_for_a_compressed_file_without_lines(here: Path) -> None:
    (here / "a.gz").write_bytes(gzip.compress(b""))

    assert explanations(here / "*.gz")[0] == f"1 file matches '{here}/*.gz'; there was nothing to read"


def test_explanation_for_files_that_were_read(here: Path) -> None:
    for name in "ab":
        (here / f"{name}.log").write_text("one\n")

    _, again = explanations(here / "*.log")

    assert again.startswith(
        f"2 files match '{here}/*.log'; nothing is new since the last run with this state folder; another --st"
    )


def test_explanation_for_a_source_that_starts_at_the_end(here: Path) -> None:
    (here / "a.log").write_text("one\n")

    first, again = explanations(here / "a.log", start="end")

    assert first == f"1 file matches '{here}/a.log'; `start: end` begins after what exists"
    assert "nothing is new" in again


def test_links_that_are_not_followed_and_folders_that_cannot_be_listed_are_warnings(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "logs/own").mkdir(parents=True)
    (here / "logs/a.log").write_text("one\n")
    (here / "logs/loop").symlink_to(".")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if path == "logs/own":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert [(one.severity, one.message, one.hint) for one in FileSource(path="logs/**").probe()] == [
        (
            "warning",
            "1 folder cannot be listed, so no file below is read: 'logs/own': Permission denied",
            "grant the right to list it, or write 'logs/own/*' under `exclude`",
        ),
        (
            "warning",
            "1 link to a folder that is searched under another name: 'logs/loop' leads to 'logs'",
            "its files are read once, under that name",
        ),
    ]
