"""The search for files that match a glob."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import FileSearch
from etl.rules.files import find_rule_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/x.log", "a/b/y.log", "a/b/c/z.txt", ".hidden/h.log", "a/.dot.log", "top.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def search_paths(root: Path, pattern: str, *exclude: str) -> list[str]:
    return [os.path.relpath(path, root) for path in FileSearch(f"{root}/{pattern}", exclude).paths()]


PATTERNS = [
    "*.log",
    "**/*.log",
    "**",
    "a/**/*.log",
    "*/*/*.log",
    "**/b/**/*.txt",
    "a/*.l[ao]g",
    ".*/*.log",
    "a/.*.log",
    "a/x.log",
]


@pytest.mark.parametrize("pattern", [*PATTERNS, "**/**/*.log", "a/?.log", "no/*.log", "top.log", "[t]op.log", "**/x.log"])
def test_without_links_it_finds_the_files_that_the_standard_library_finds(tree: Path, pattern: str) -> None:
    expected = {path for path in glob.glob(f"{tree}/{pattern}", recursive=True) if os.path.isfile(path)}

    assert {path for path in FileSearch(f"{tree}/{pattern}").paths() if os.path.isfile(path)} == expected


def test_a_relative_pattern_gives_relative_paths(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)

    assert FileSearch("*.log").paths() == ["top.log"]
    assert FileSearch("./**/x.log").paths() == ["./a/x.log"]
    assert FileSearch("**").paths() == ["a/b/c/z.txt", "a/b/y.log", "a/x.log", "top.log"]


def test_a_search_ends_with_directory_links_in_circles(tree: Path) -> None:
    for number in range(2):
        (tree / f"a/loop{number}").symlink_to(tree)
        (tree / f"a/b/loop{number}").symlink_to("..")
    (tree / "itself").symlink_to("itself")

    search = FileSearch(f"{tree}/**/*.log")

    assert search.paths() == [f"{tree}/{name}" for name in ("a/b/y.log", "a/x.log", "top.log")]
    assert search.skipped_links[f"{tree}/a/loop0"] == str(tree)
    assert len(search.skipped_links) == 4
    assert list(search.unreadable) == [f"{tree}/itself"]


def test_folders_that_all_link_to_each_other_are_searched_once(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "x.log").touch()
        for other in range(12):
            (folder / f"to{other}").symlink_to(tmp_path / str(other))

    assert len(FileSearch(f"{tmp_path}/**/*.log").paths()) == 12
    assert len(FileSearch(f"{tmp_path}/**/*/**/*.log").paths()) == 12


def test_a_linked_folder_outside_has_its_own_name_if_a_pattern_matches_it(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/o.log").touch()
    (tmp_path / "in/z").mkdir(parents=True)
    (tmp_path / "in/z/z.log").touch()
    (tmp_path / "in/a").symlink_to("z")
    (tmp_path / "in/o").symlink_to("../outside")

    assert search_paths(tmp_path, "in/**/*.log") == ["in/o/o.log", "in/z/z.log"]


def test_an_excluded_folder_is_not_searched(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(path), scandir(path))[1])

    assert search_paths(tree, "**/*.log", f"{tree}/a/b/*") == ["a/x.log", "top.log"]
    assert f"{tree}/a/b" not in listed


def test_exclusions_take_paths_and_names(tree: Path) -> None:
    assert search_paths(tree, "**/*.log", "x.log", "*/b/*") == ["top.log"]


def test_a_folder_that_cannot_be_listed_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path == f"{tree}/a/b":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    search = FileSearch(f"{tree}/**/*.log")

    assert search.paths() == [f"{tree}/a/x.log", f"{tree}/top.log"]
    assert search.unreadable == {f"{tree}/a/b": "Permission denied"}


NAMES = st.sampled_from(["a", "b", "c"])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), st.sampled_from(["file", "link"]), st.lists(NAMES, max_size=2)))
)
def test_every_file_is_found_whatever_links_there_are(
    tmp_path_factory: pytest.TempPathFactory, things: list[tuple[list[str], str, list[str]]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for parts, kind, target in things:
        path = root.joinpath(*parts[:-1], parts[-1] + (".log" if kind == "file" else ".d"))
        if any(one.is_file() for one in path.parents) or os.path.lexists(path):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch() if kind == "file" else path.symlink_to(root.joinpath(*target))

    inodes = {os.stat(path).st_ino for path in FileSearch(f"{root}/**/*.log").paths()}

    assert inodes == {os.stat(path).st_ino for path in root.rglob("*.log") if path.is_file()}


def test_rule_folders_with_links_in_circles_give_each_rule_once(tmp_path: Path) -> None:
    (tmp_path / "rules/[x]").mkdir(parents=True)
    (tmp_path / "rules/[x]/a.yml").touch()
    for name in ("one", "two"):
        (tmp_path / f"rules/[x]/{name}").symlink_to(tmp_path / "rules")

    assert find_rule_files([f"{tmp_path}/rules"]) == find_rule_files([f"{tmp_path}/rules/[x]"]) == [f"{tmp_path}/rules/[x]/a.yml"]
