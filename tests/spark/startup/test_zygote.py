"""The Python that Spark starts on this machine: forks of the zygote, which end with the launcher that requested them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from running import wait_for

from etl.spark.run_tables import refreshed_tables
from etl.steps.lookup import Lookup, tables_of

pytestmark = pytest.mark.slow

DRIVER = """
import sys
import connectors.file
from etl.spark.startup.interpreter import interpreter
print(interpreter(compiled="compiled" in sys.argv), flush=True)
sys.stdin.read()
"""
"""A process that has a zygote for as long as its standard input is open."""

SLOW = """
import os, time
from pathlib import Path
import pyarrow as pa
from etl.api import ArrowStep

class Slow(ArrowStep):
    opens_before_fork = True
    type: str = "slow"
    place: str
    def open(self, incoming):
        Path(self.place, str(os.getpid())).touch()
        return lambda batch: None
"""
"""A step that records which process opens it."""

LEAVE = """
import sys
from pathlib import Path
import pyarrow as pa
from etl.plan.segments import Branch, Segment, StepNode
from etl.segment import preopened_steps
from slow import Slow

schema = pa.schema([("message", pa.string())])
node = StepNode("main[0]", Slow(place=sys.argv[1]), schema, schema)
preopened_steps.save_steps_to_open([("main", Segment({"main": Branch((node,), schema)}, {}))], Path("open-first.pickle"))
"""

LOOK = """
import json, os, sys
print(json.dumps({
    "arguments": sys.argv[1:], "variables": dict(os.environ), "folder": os.getcwd(), "read": sys.stdin.read(),
    "name": __name__, "forked": "pyspark.worker" in sys.modules, "modules": list(sys.modules), "parent": os.getppid(),
    "files": len(os.listdir("/proc/self/fd")),
    "title": open("/proc/self/cmdline").read().rstrip(chr(0)).split(chr(0)),
}))
print("an error", file=sys.stderr)
"""

SLEEP = """
import os, time
print(os.getpid(), flush=True)
time.sleep(600)
"""


@dataclass(frozen=True)
class Driver:
    """A process that has a zygote, and the path of the Python that its Spark would start."""

    process: subprocess.Popen[str]
    path: str

    @property
    def folder(self) -> Path:
        """Where its script and its socket are."""
        return Path(self.path).parent

    def kill(self) -> None:
        """End it as the system does that runs out of memory."""
        self.process.kill()
        self.process.wait()


@contextmanager
def driver(*words: str, code: str = DRIVER, **options: Any) -> Iterator[Driver]:
    """A driver that lives for the body."""
    line = [sys.executable, "-c", code, *words]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as process:
        assert process.stdout is not None
        yield Driver(process, process.stdout.readline().strip())


@dataclass
class Python:
    """Starts processes as the Spark of a driver would, in a folder."""

    driver: Driver
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, code: str, *words: str, module: str = "asked", **variables: str) -> subprocess.Popen[str]:
        """A process that runs a module, this one if no other."""
        (self.folder / "asked.py").write_text(code)
        started = subprocess.Popen(
            [self.driver.path, "-m", module, *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), **variables},
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(started)
        return started

    def end(self) -> None:
        """Leave no process."""
        for process in self.started:
            process.kill()
            with process:
                pass


@contextmanager
def processes_of(driver: Driver, folder: Path) -> Iterator[Python]:
    """End the processes that the body starts."""
    python = Python(driver, folder)
    try:
        yield python
    finally:
        python.end()


@pytest.fixture(scope="module")
def shared_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The driver of all tests that end neither it nor its zygote, which forks: on a busy machine that takes many seconds."""
    with driver() as shared:
        with processes_of(shared, tmp_path_factory.mktemp("first")) as first:
            zygote_of(first)
        yield shared


@pytest.fixture
def python(shared_driver: Driver, tmp_path: Path) -> Iterator[Python]:
    with processes_of(shared_driver, tmp_path) as started:
        yield started


@pytest.fixture
def own_python(tmp_path: Path) -> Iterator[Python]:
    """Of a driver that the test may kill."""
    with driver() as own, processes_of(own, tmp_path) as started:
        yield started


@pytest.fixture
def opening(tmp_path: Path) -> Iterator[Python]:
    """Of a driver that left something to open."""
    (tmp_path / "opened").mkdir()
    (tmp_path / "slow.py").write_text(SLOW)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with (
        driver(str(tmp_path / "opened"), code=LEAVE + DRIVER, env=env, cwd=tmp_path) as own,
        processes_of(own, tmp_path) as started,
    ):
        yield started


def zygote_of(python: Python) -> int:
    """The process that forks, once it does: before, the launcher starts Python itself, whose parent is that of the tests."""
    seen: list[int] = []

    def has_forked() -> bool:
        found = json.loads(python.start(LOOK).communicate("", timeout=300)[0])
        seen.append(found["parent"])
        return bool(found["forked"])

    wait_for(has_forked)
    return seen[-1]


def the_one_that_opened(tmp_path: Path) -> int:
    wait_for(lambda: list((tmp_path / "opened").iterdir()))
    (opened,) = (tmp_path / "opened").iterdir()
    return int(opened.name)


def test_the_daemon_opens_slow_steps_before_spark_requests_it(opening: Python, tmp_path: Path) -> None:
    # given
    pid = the_one_that_opened(tmp_path)
    assert b"daemon" not in Path(f"/proc/{pid}/cmdline").read_bytes()

    # when
    opening.start("", "pyspark.worker", module="etl.spark.startup.daemon")

    # then
    wait_for(lambda: b"etl.spark.startup.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes())
    assert the_one_that_opened(tmp_path) == pid


def test_the_daemon_opens_slow_steps_itself_when_the_early_fork_has_ended(opening: Python, tmp_path: Path) -> None:
    # given
    pid = the_one_that_opened(tmp_path)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: ended(pid))

    # when
    opening.start("", "pyspark.worker", module="etl.spark.startup.daemon", SLUICE_OPEN_FIRST="open-first.pickle")

    # then
    wait_for(lambda: len(list((tmp_path / "opened").iterdir())) == 2)


def test_an_early_fork_without_a_request_ends_with_the_driver(opening: Python, tmp_path: Path) -> None:
    pid = the_one_that_opened(tmp_path)

    opening.driver.kill()

    wait_for(lambda: ended(pid))


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def sleeper(process: subprocess.Popen[str]) -> int:
    """The process that is asleep; not always the one that was started."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_a_fork_has_the_requested_arguments_variables_and_streams(python: Python, tmp_path: Path) -> None:
    process = python.start(LOOK, "one word", "ü", MINE="a value")

    out, errors = process.communicate("what is read", timeout=300)

    found = json.loads(out)
    assert found["forked"]
    assert found["arguments"] == ["one word", "ü"]
    assert found["variables"].keys() - {"PWD", "LC_CTYPE"} == {"PATH", "PYTHONPATH", "MINE"}  # sh and Python set two
    assert found["variables"]["MINE"] == "a value"
    assert found["folder"] == str(tmp_path)
    assert found["read"] == "what is read"
    assert found["name"] == "__main__"
    assert found["title"] == [sys.executable, "-m", "asked", "one word", "ü"]
    assert found["files"] == 4  # its streams, and the folder that it looks into
    assert errors == "an error\n"
    assert process.returncode == 0


def test_a_fork_has_the_modules_of_the_driver_and_its_kernels(python: Python, tmp_path: Path) -> None:
    with driver("compiled") as compiled, processes_of(compiled, tmp_path) as with_kernels:
        zygote_of(with_kernels)
        loaded, more = (json.loads(one.start(LOOK).communicate("", timeout=300)[0])["modules"] for one in (python, with_kernels))

    assert "connectors.file" in loaded
    assert "connectors.file" in more
    assert "numba" not in loaded
    assert "numba" in more


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(3)", 3), ("1 / 0", 1), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_the_launcher_ends_with_the_exit_code_of_the_fork(python: Python, code: str, status: int) -> None:
    assert python.start(code).wait(120) == status


END = """
import atexit, sys, threading, time

class Global:
    def __del__(self):
        print("torn down")

def late():
    time.sleep(0.2)
    print("thread")

kept = Global()
atexit.register(print, "exit function")
threading.Thread(target=late).start()
print("module")
sys.exit("a reason")
"""


def test_a_fork_ends_as_a_module_does_but_leaves_the_memory_that_it_shares_alone(python: Python) -> None:
    ended = python.start(END)
    printed, errors = ended.communicate(timeout=300)

    assert printed.splitlines() == ["module", "thread", "exit function"]
    assert (errors, ended.returncode) == ("a reason\n", 1)


def test_a_fork_that_fails_shows_the_error(python: Python) -> None:
    ended = python.start("import os\nos.stat('/nowhere')")
    _, errors = ended.communicate(timeout=300)

    assert errors.splitlines()[-1] == "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'"
    assert ended.returncode == 1


def test_forks_run_in_parallel(python: Python) -> None:
    first, second = python.start(SLEEP), python.start(SLEEP)

    assert sleeper(first) != sleeper(second)


def test_a_fork_is_killed_with_its_launcher(python: Python) -> None:
    process = python.start(SLEEP)
    pid = sleeper(process)

    process.kill()

    wait_for(lambda: ended(pid))
    assert python.start(LOOK).communicate("", timeout=300)[0]  # the others have theirs still


def test_the_streams_are_closed_with_the_fork(python: Python) -> None:
    process = python.start("import os; print('said'); os.close(1); import time; time.sleep(600)")

    assert process.stdout is not None
    assert process.stdout.read() == "said\n"


def test_without_the_zygote_python_is_started(own_python: Python) -> None:
    zygote = zygote_of(own_python)
    os.kill(zygote, signal.SIGKILL)
    wait_for(lambda: ended(zygote))

    found = json.loads(own_python.start(LOOK, "word").communicate("", timeout=300)[0])

    assert not found["forked"]
    assert found["arguments"] == ["word"]


TABLE = """
import sys
from pathlib import Path
from connectors.lookup_tables.file import FileTable

class Looking(FileTable):
    def version(self):
        Path(self.path).with_name("forked").write_text(str("pyspark.worker" in sys.modules))
        return super().version()
"""
"""A table that records whether a fork reads it."""


def test_a_table_is_built_by_a_fork(shared_driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    (tmp_path / "looking.py").write_text(TABLE)
    (tmp_path / "intel.csv").write_text("ip,kind\na,bad\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("etl.spark.startup.interpreter._PROGRAMS", [shared_driver.path, str(tmp_path / "removed")])
    table = import_module("looking").Looking(path=str(tmp_path / "intel.csv"), key="ip")
    step = Lookup.model_validate({"table": "intel", "on": "ip", "add": {"kind": "kind"}}).with_tables({"intel": table})
    messages: list[str] = []

    # when
    with refreshed_tables(tables_of([step]), tmp_path / "tables", False, lambda _, text: messages.append(text)):
        pass

    # then
    assert messages == ["table 'intel': 1 row"]
    assert (tmp_path / "forked").read_text() == "True"


def next_run() -> Path:
    """Start another driver to its end, and return its folder."""
    with driver() as following:
        return following.folder


def test_a_run_goes_on_when_the_cache_folder_is_removed(tmp_path: Path) -> None:
    env = {**os.environ, "SLUICE_CACHE": str(tmp_path / "cache")}
    with driver(env=env) as own, processes_of(own, tmp_path) as python:
        zygote_of(python)
        shutil.rmtree(tmp_path / "cache")

        found = json.loads(python.start(LOOK, "word").communicate("", timeout=300)[0])

    assert found["forked"]
    assert found["arguments"] == ["word"]


def test_where_the_temporary_folder_does_not_take_sockets_the_cache_folder_does(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)  # a socket's path has at most 107 bytes
    long.mkdir()
    cache = Path(tempfile.mkdtemp(prefix="c-"))
    env = {**os.environ, "TMPDIR": str(long), "SLUICE_CACHE": str(cache)}

    with driver(env=env) as own:
        assert own.folder.parent == cache

    shutil.rmtree(cache)


def test_the_next_run_leaves_the_folder_of_a_run_that_goes_on_without_its_zygote(own_python: Python) -> None:
    zygote = zygote_of(own_python)
    os.kill(zygote, signal.SIGKILL)
    wait_for(lambda: ended(zygote))

    next_run()

    assert not json.loads(own_python.start(LOOK).communicate("", timeout=300)[0])["forked"]


def test_the_next_run_removes_the_folder_of_a_run_killed_with_its_zygote(own_python: Python) -> None:
    left = own_python.driver.folder
    zygote = zygote_of(own_python)
    os.kill(zygote, signal.SIGKILL)
    own_python.driver.kill()
    wait_for(lambda: ended(zygote))

    other = next_run()

    assert other.name.startswith("sluice-python-")
    assert other != left
    wait_for(lambda: not left.exists())  # a run of another test may be the one that removes it


def test_the_zygote_ends_with_a_killed_driver_and_leaves_no_files(own_python: Python) -> None:
    zygote = zygote_of(own_python)
    process = own_python.start(SLEEP)
    asleep = sleeper(process)
    assert int(Path(f"/proc/{asleep}/stat").read_text().rpartition(")")[2].split()[1]) == zygote

    own_python.driver.kill()

    wait_for(lambda: ended(zygote))
    assert process.wait(120) == 1  # Spark's JVM, which is gone too, is told that the process is no more
    wait_for(lambda: not own_python.driver.folder.exists())
    os.kill(asleep, signal.SIGKILL)  # Spark's own processes end when the JVM's end of their socket is closed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_zygote_ignores_signals_to_all_processes_of_a_run(python: Python, number: signal.Signals) -> None:
    zygote = zygote_of(python)

    os.kill(zygote, number)

    found = json.loads(python.start(LOOK).communicate("", timeout=300)[0])
    assert found["forked"]
    assert found["parent"] == zygote
