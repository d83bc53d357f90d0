"""The session that a run starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest
from running import Engine, Etl, Ran, wait_for

from etl.api import ComponentError, EtlError
from etl.columns.cache_folder import folder
from etl.spark.session import LOCAL_FILES, _set_python, start
from etl.spark.startup.fast_start import SOCKET_PATH, socket_settings
from etl.spark.state.folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CRASH = """
import os, signal, sys
from pathlib import Path
from etl.spark import session
started = session.start("crash", "local[1]", {}, Path(sys.argv[1]))
jvm = started.sparkContext._gateway.proc
os.kill(jvm.pid, signal.SIGSEGV)
print(jvm.pid, jvm.wait(120), flush=True)
os._exit(0)
"""


def test_a_jvm_that_crashes_writes_its_report_next_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "a folder, 100% plain" / "spark.log"

    ran = subprocess.run([sys.executable, "-c", CRASH, log], cwd=tmp_path, capture_output=True, text=True, check=True)

    pid, status = ran.stdout.split()
    assert status == "-6"
    assert "SIGSEGV" in (log.parent / f"hs_err_pid{pid}.log").read_text()
    assert not list(tmp_path.glob("hs_err*"))


def test_workers_are_forks_of_the_zygote(spark: SparkSession) -> None:
    def above(_: int) -> Iterator[int]:
        pid = os.getpid()
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            yield pid

    found = spark.sparkContext.parallelize([0], 1).flatMap(above).collect()

    assert os.getpid() in found
    assert spark.sparkContext._gateway.proc.pid not in found  # type: ignore[union-attr]


def test_the_sockets_to_workers_are_for_this_user_only(spark: SparkSession) -> None:
    def places(_: int) -> Iterator[tuple[str, int]]:
        folder = os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"]
        yield folder, len(psutil.Process(os.getppid()).net_connections("tcp"))

    [(folder, over_tcp)] = spark.sparkContext.parallelize([0], 1).flatMap(places).collect()

    assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert over_tcp == 0


@pytest.mark.parametrize(("length", "used"), [(64, True), (65, False)])
def test_a_folder_with_a_long_name_is_not_used_for_sockets(length: int, used: bool) -> None:
    folder = "/" + "x" * (length - 1)

    assert bool(socket_settings(f"{folder}/python")) == used
    assert len(f"{folder}/.{uuid.uuid4()}.sock") <= SOCKET_PATH or not used


WINDOW = """
    name: window
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<timestamp>[^ ]+) (?<user_name>[a-z]+)$']}
      - {type: timestamp, formats: [iso8601]}
      - {type: window, time: timestamp, size: 10m, late: 0s, group_by: [user_name], aggregates: {n: count(*)}}
    sink: {type: file, path: "{here}/out.jsonl"}
"""


def test_a_checkpoint_is_the_same_for_both_ways_of_writing_files(engine: Engine, spark: SparkSession) -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    ours = LOCAL_FILES[name]
    log, out = engine.etl.folder / "in.log", engine.etl.folder / "out.jsonl"
    sparks = ours.replace("FileSystemBased", "FileContextBased")
    for minute, (way, user) in enumerate([(sparks, "anna"), (ours, "anna"), (sparks, "anna"), (ours, "zoe")]):
        spark.conf.set(name, way)
        with log.open("a") as more:
            more.write(f"2026-11-09T06:{minute if user == 'anna' else 59:02d}:00Z {user}\n")
        engine(WINDOW)
    spark.conf.set(name, ours)

    (anna,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert (anna["user_name"], anna["n"]) == ("anna", 3)


def test_messages_during_the_start_of_spark_are_shown(etl: Etl) -> None:
    (etl.folder / "in.log").write_text("one line\n")
    running = etl.start("run", etl.pipeline(FOLLOW), "--master", "local[2]", "--state", etl.folder / "state")
    assert running.stderr is not None
    wait_for(lambda: "starting Spark" in running.stderr.readline(), what="the start of Spark")
    log = etl.folder / "state" / "logs" / "spark.log"
    wait_for(lambda: log.exists() and log.stat().st_size > 0, what="the JVM's first word")

    running.send_signal(signal.SIGINT)

    _, printed = running.communicate(timeout=300)
    assert "stopping after the current micro-batch" in printed
    assert running.returncode == 0


def test_the_error_for_a_killed_jvm_is_one_line(etl: Etl) -> None:
    (etl.folder / "in.log").write_text("one line\n")
    running = etl.start("run", etl.pipeline(FOLLOW), "--master", "local[2]", "--state", etl.folder / "state")
    wait_for(lambda: (etl.folder / "out.jsonl").exists(), what="the first output")

    (jvm,) = [child for child in psutil.Process(running.pid).children() if child.name() == "java"]
    jvm.kill()

    _, printed = running.communicate(timeout=300)
    assert running.returncode == 1
    assert printed.splitlines()[-1].startswith("error: Spark's JVM was killed (SIGKILL); a system that runs out of memory kills")
    assert "Traceback" not in printed


def test_the_error_for_a_jvm_that_does_not_start_is_one_line(etl: Etl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the first run with this cache is one that writes an archive; the kernels are compiled already
    (cache := tmp_path / "cache").mkdir(mode=0o700)
    for kind in ("kernels", "compiled"):
        (kept := folder() / kind).mkdir(exist_ok=True)
        (cache / kind).symlink_to(kept)
    monkeypatch.setenv("SLUICE_CACHE", str(cache))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseNothing")
    (etl.folder / "in.log").write_text("one line\n")

    ran = etl("run", etl.pipeline(FOLLOW), "--once", "--master", "local[2]", "--state", etl.folder / "state")

    assert ran.status == 1
    assert ran.err.splitlines()[-1].startswith("error: Spark did not start: ")
    assert "Unrecognized VM option 'UseNothing'" in ran.err
    assert "defect" not in ran.err


def test_the_error_for_a_user_without_a_name_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.delenv("HOME", raising=False)

    with pytest.raises(EtlError, match=rf"none of user {os.getuid()}: add the line 'sluice:x:{os.getuid()}:"):
        start("nobody", "local[1]", {}, tmp_path / "log")
    with pytest.raises(EtlError, match="choose a folder with --state, or set HOME"):
        StateFolder.of("nobody", None)
    assert StateFolder.of("nobody", str(tmp_path)).root == tmp_path


@pytest.mark.parametrize("chosen", ["s3://bucket/state", "hdfs://name/state", "abfss://c@a.dfs.core.windows.net/x"])
def test_a_state_in_a_store_of_objects_is_refused(chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ComponentError, match="the state cannot be at"):
        StateFolder.of("one", chosen)
    monkeypatch.setenv("ETL_STATE", chosen)
    with pytest.raises(ComponentError, match="the state cannot be at"):
        StateFolder.of("one", None)
    monkeypatch.setenv("ETL_STATE", f"file://{tmp_path}")
    assert StateFolder.of("one", None).root == tmp_path / "one"
    assert StateFolder.of("one", f"file://{tmp_path}").root == tmp_path


FOLLOW = """
    name: follow
    source: {type: file, path: "{here}/in.log"}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 200ms}
"""


@dataclass(frozen=True)
class KilledRun:
    """A run with windows that was killed after its first output, and the next one, which ended by itself."""

    folder: Path
    """Their folder, and that of the state; its name has blanks, quotes and letters that LC_ALL=C has not."""
    temporary: Path
    """Their folder of temporary files."""
    there: set[str]
    """First words of the names of temporary files while the first was running."""
    started: list[psutil.Process]
    """All processes of the first one."""
    next: Ran


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> KilledRun:
    """Both runs are processes of their own, for all tests that look at what they leave."""
    parent = tmp_path_factory.mktemp("killed")
    (here := parent / "blank Zustände 'x' $HOME%20#1").mkdir()
    (temporary := tmp_path_factory.mktemp("temporary files")).chmod(0o700)
    (here / "in.log").write_text("2026-11-09T06:00:00Z anna\n")
    etl, out = Etl(here), here / "parsed.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", "C")
        patch.setenv("TMPDIR", str(temporary))
        pipeline = etl.pipeline(PARSED_AND_COUNTED)
        running = etl.start("run", pipeline, "--master", "local[2]", "--state", here / "state", "-q")
        wait_for(lambda: out.exists() and out.stat().st_size > 0, what="the first output")
        there = {path.name.partition("-")[0] for path in temporary.rglob("*")}
        started = psutil.Process(running.pid).children(recursive=True)
        running.kill()
        running.communicate()
        psutil.wait_procs(started, timeout=60)
        return KilledRun(here, temporary, there, started, etl.run(pipeline, "--once"))


PARSED_AND_COUNTED = """
    name: follow
    sources:
      log: {type: file, path: "{here}/in.log"}
    streams:
      parsed:
        from: log
        steps:
          - {type: regex, patterns: ['^(?<timestamp>[^ ]+) (?<user_name>[a-z]+)$']}
          - {type: timestamp, formats: [iso8601]}
      counted:
        from: parsed
        steps:
          - {type: window, time: timestamp, size: 10m, late: 0s, group_by: [user_name], aggregates: {n: count(*)}}
    sinks:
      parsed: {from: parsed, type: file, path: "{here}/parsed.jsonl"}
      counted: {from: counted, type: file, path: "{here}/counted.jsonl"}
    run: {trigger: 200ms}
"""


def test_a_killed_driver_leaves_no_process_behind(killed: KilledRun) -> None:
    assert len(killed.started) > 5  # JVM, zygote, daemon, workers, planners
    assert not [process for process in killed.started if process.is_running()]


def test_a_run_leaves_nothing_in_the_temporary_folder(killed: KilledRun) -> None:
    assert {"spark", "blockmgr"} <= killed.there
    assert killed.next.status == 0, killed.next.err
    assert list(killed.temporary.iterdir()) == []


def test_a_state_folder_may_have_any_name(killed: KilledRun) -> None:
    checkpoints = killed.folder / "state" / "queries"
    assert killed.next.status == 0, killed.next.err
    assert all((path / "checkpoint" / "commits").is_dir() for path in checkpoints.iterdir())
    assert any("window" in path.name for path in checkpoints.iterdir())
    assert {path.name for path in killed.folder.parent.iterdir()} == {killed.folder.name}


def test_executors_run_the_python_that_is_given_and_the_driver_the_same_program_of_its_own_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PATH"):
        monkeypatch.setenv(name, "/usr/bin")

    _set_python("/venv/bin/python", None)
    assert [os.environ[name] for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PATH")] == [
        *2 * ["/venv/bin/python"],
        "/usr/bin",
    ]
    _set_python("/venv/bin/python", "/opt/bin/python3.11")
    assert (os.environ["PYSPARK_PYTHON"], os.environ["PATH"]) == ("/opt/bin/python3.11", "/usr/bin")
    _set_python("/venv/bin/python", "python3.11")
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
