"""Fixtures that every test may use."""

from __future__ import annotations

import ctypes
import gc
import logging
import mmap
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import open_sockets
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from memory_files import folder_of_run, new_folder
from running import ROOT, Engine, Etl
from servers.fleet import BROKERS, asked
from servers.watchdog import delete

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.running.shared_session import SharedSession

pytest_plugins = ["forked_workers", "servers.fixtures"]

open_sockets.record()

settings.register_profile("ci", derandomize=True)  # the same examples every time: a red run is a change's fault
if os.environ.get("CI"):
    settings.load_profile("ci")

if "SLUICE_FUZZ" not in os.environ:
    # Hypothesis draws constants from all modules of ours that a process has imported: it parses 1,500 of them in each process
    # (7.5 s of CPU time), and examples depend on what was imported before. `make fuzz` keeps them.
    providers._get_local_constants = lambda: providers._local_constants


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse the values of a set: its order, and with it the numbers of tests, differ from run to run."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if len(mark.args) > 1 and isinstance(mark.args[1], set | frozenset):
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: parametrize takes a list: the order of a set is not the same everywhere"
            )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--forks``, pass over tests/delivery if all its tests are deselected."""
    from forked_workers import deselects  # not above: pytest loads plugins after this module

    return (config.option.forks > 1 and collection_path.name == "delivery" and deselects(config, {"delivery"})) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what lies in tests/delivery. With ``--forks``, tests of a file stay in one process, and so do those that share
    servers, because these start once a process: those with databases, with both, with brokers. Tests that use Spark go to any
    process, which starts one session. What takes longest begins first, so that no process ends alone: servers, then runs that
    are killed, which wait more than they work."""
    for item in items:
        if item.path.parent.name == "delivery":
            item.add_marker("delivery")
    if config.option.forks < 2:
        return
    from forked_workers import GROUP  # not above: pytest loads plugins after this module

    killed, with_spark, slow = (
        {group_of(item) for item in items if has_marker(item, name)} for name in ("delivery", "spark", "slow")
    )

    def order(item: pytest.Item) -> int:
        if names := asked(item):
            return (3 if "rocketmq_acl" in names else 2) if names <= BROKERS else int(bool(names & BROKERS))
        group = group_of(item)
        return 4 if group in killed & with_spark else 5 if group in with_spark else 6 if group in slow else 7

    for item in items:
        item.stash[GROUP] = "servers" if order(item) < 4 else group_of(item)
    items.sort(key=order)


def group_of(item: pytest.Item) -> str:
    """The file of a test that uses no servers, or its folder, where each process would read all recipes to find those that
    match."""
    path = item.path.relative_to(ROOT)
    return str(path.parent if path.parent.name == "inference" else path)


def has_marker(item: pytest.Item, *names: str) -> bool:
    return any(item.get_closest_marker(name) for name in names)


GC_THRESHOLDS = (20_000, 20, 20)
"""New objects after which young garbage is collected, and how many such collections precede one of the next generation."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without the collection of garbage, which would look at all tests again and again, this takes a fifth less CPU time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Thousands of tests live to the end: no collection of garbage looks at them again, nor at what little garbage there is.
    Later ones are rare, as tests leave little that only they remove: with Python's thresholds they take 7 % of the CPU time."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of fixtures in memory, too, unless the command line names another one."""
    if not (LONG_TRIALS or config.option.basetemp) and (folder := folder_of_run()) is not None:
        (base := folder / "pytest").mkdir(mode=0o700, exist_ok=True)
        config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]


def pytest_unconfigure() -> None:
    """Collect garbage once: what is left is not looked at again by the five collections with which pytest ends."""
    gc.collect()
    gc.freeze()
    folder = folder_of_run()
    if folder is not None and folder.name.endswith(f"-{os.getpid()}"):
        shutil.rmtree(folder, ignore_errors=True)  # not by a fork


@pytest.fixture(autouse=True)
def own_logger() -> Iterator[None]:
    """The logger ``sluice`` is as it was before: a test that does in this process what a worker does adds a worker's handler."""
    logger = logging.getLogger("sluice")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers = handlers
    logger.propagate = propagate
    if logger.level != level:
        logger.setLevel(level)
    if relay := sys.modules.get("etl.spark.reports.log_relay"):
        relay._worker_pipeline["pipeline"] = ""


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of the test's own. In memory, where tests wait for no disk, its files are removed at the end."""
    if LONG_TRIALS or folder_of_run() is None:
        yield new_folder_on_disk(request.node.name, tmp_path_factory.getbasetemp())
        return
    folder = new_folder()
    yield folder
    if not has_marker(request.node, "spark"):
        delete(str(folder))
        return
    for path in folder.iterdir():  # the empty folder stays: it is the working directory of Python processes of the session
        if path.is_dir() and not path.is_symlink():
            delete(str(path))
        else:
            path.unlink(missing_ok=True)


LONG_TRIALS = "SLUICE_KILLS" in os.environ
"""Whether pipelines are killed in trials of many events, which take too much memory."""

_numbers = count()


def new_folder_on_disk(name: str, parent: Path) -> Path:
    """A new folder, named after a test. pytest's own function also writes a link to it, which costs more than the folder."""
    word = re.sub(r"\W", "_", name)[:30]
    folder = parent / f"{word}_{os.getpid()}_{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session")
def acceptance() -> Path:
    """The folder of acceptance data, which is never part of this repository."""
    folder = Path(os.environ.get("SLUICE_ACCEPTANCE", ROOT.parent / "shared" / "acceptance"))
    if not folder.is_dir():
        pytest.skip(f"acceptance data is not at {folder}; set SLUICE_ACCEPTANCE to its folder")
    return folder


@pytest.fixture(scope="session")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSession]:
    """One Spark session a test process, started as a run starts it: two cores, two shuffle partitions, loopback only."""
    from etl.running.shared_session import SharedSession

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    components = str(ROOT / "tests" / "delivery")  # whose modules workers of this session may import
    settings = {"spark.driver.memory": "1g", "spark.executorEnv.PYTHONPATH": components}
    settings["spark.sql.warehouse.dir"] = str(log.parent / "warehouse")  # otherwise in the current folder, the repository's
    session = SharedSession("sluice-tests", "local[2]", log, settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(shared_session: SharedSession) -> SparkSession:
    """The shared session, started."""
    return shared_session.started()


@pytest.fixture
def etl(tmp_path: Path) -> Etl:
    """The command line."""
    return Etl(tmp_path)


@pytest.fixture
def engine(shared_session: SharedSession, etl: Etl) -> Engine:
    """Runs pipelines in this process."""
    return Engine(shared_session, etl)


@pytest.fixture(scope="session")
def at_the_end_of_memory() -> Callable[[bytes], pa.Buffer]:
    """Bytes (256 KiB at most) → a buffer of them, after whose end no byte can be read: the process would end."""
    page, size = mmap.PAGESIZE, 256 << 10
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def place(data: bytes) -> pa.Buffer:
        memory = mmap.mmap(-1, size + page)
        memory[size - len(data) : size] = data
        whole = pa.py_buffer(memory)
        assert libc.mprotect(whole.address + size, page, 0) == 0
        return whole.slice(size - len(data), len(data))

    return place
