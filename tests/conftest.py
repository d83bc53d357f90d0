"""Fixtures that every test may use."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import settings
from running import ROOT, Engine, Etl
from servers.fleet import asked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.running.shared_session import SharedSession

pytest_plugins = ["servers.fixtures"]

settings.register_profile("ci", derandomize=True)  # the same examples every time: a red run is a change's fault
if os.environ.get("CI"):
    settings.load_profile("ci")


LONG = {
    "test_bad_rules",
    "test_filebeat",
    "test_grok_library_cases",
    "test_hostile_lines",
    "test_infer",
    "test_learning",
    "test_codegen",
    "test_named_patterns",
    "test_recipes",
    "test_rules_step",
    "test_scanner",
    "test_scanner_grok",
    "test_scanner_hostile",
    "test_scanner_laws",
    "test_times",
    "test_without_learning",
}
"""Files of more than about ten CPU seconds that need no Spark: `make test-quick` leaves them out."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what lies in tests/delivery, and what takes long. Under `make test`, the tests of a file stay in one process, and
    those with servers together, because a server is started once a process; what takes longest begins first."""
    for item in items:
        if item.path.parent.name == "delivery":
            item.add_marker("delivery")
        if item.path.stem in LONG:
            item.add_marker("slow")
    if config.getoption("dist", "no") != "loadgroup":
        return
    runs = {item.path for item in items if item.get_closest_marker("spark")}
    for item in items:
        item.add_marker(pytest.mark.xdist_group("servers" if asked(item) else str(item.path.relative_to(ROOT))))
    items.sort(key=lambda item: 0 if asked(item) else 1 if item.path in runs else 2)


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
    """Bytes (256 KiB at most) → a buffer of them, behind whose end no byte can be read: the process would end."""
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
