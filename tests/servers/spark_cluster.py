"""A standalone cluster of Spark on loopback: a master, and workers with folders of their own, as on several hosts.

``make cluster`` starts one and leaves it running until Ctrl-C. Master and workers are those of the installed ``pyspark``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil
from servers import ports
from servers.cache import print_progress
from servers.java import java
from servers.process import Command
from servers.server import Server, StartError

from etl.columns import cache_folder
from etl.spark.jvm.process import spark_jars

DEPLOY = "org.apache.spark.deploy"


class SparkMaster(Server):
    """The master of a standalone cluster."""

    name: ClassVar[str] = "spark-master"

    def __init__(self, *, port: int = 0, heap: str = "192m") -> None:
        super().__init__()
        (free,) = ports.free()
        self.port, self.heap = port or free, heap
        self.address = f"spark://{ports.HOST}:{self.port}"

    def command(self) -> Command:
        place = ["--host", ports.HOST, "--port", self.port, "--webui-port", 0]
        return Command([*_started("master.Master", self.heap), *place], self.folder, _environment(self.folder))

    def ready(self) -> bool:
        """Return whether its log says that it leads."""
        assert self.process is not None
        return "New state: ALIVE" in self.process.output()


class SparkWorker(Server):
    """A worker with its own home, temporary and work folders.

    Its kernels are compiled once for all workers of this machine: they share the cache of compiled kernels unless ``cache``
    is another folder.
    """

    name: ClassVar[str] = "spark-worker"

    def __init__(self, master: str, *, cores: int = 1, memory: str = "1g", cache: Path | None = None, heap: str = "192m") -> None:
        super().__init__()
        self.master, self.cores, self.memory, self.heap = master, cores, memory, heap
        self.cache = cache or cache_folder.folder()
        (self.port,) = ports.free()
        self.address = f"{ports.HOST}:{self.port}"

    def command(self) -> Command:
        size = ["--cores", self.cores, "--memory", self.memory, "--work-dir", self.folder / "work"]
        place = ["--host", ports.HOST, "--port", self.port, "--webui-port", 0]
        environment = _environment(self.folder) | {"SLUICE_CACHE": str(self.cache)}
        return Command([*_started("worker.Worker", self.heap), *place, *size, self.master], self.folder, environment)

    def ready(self) -> bool:
        """Return whether the master has taken it."""
        assert self.process is not None
        return "Successfully registered with master" in self.process.output()

    def executors(self) -> list[psutil.Process]:
        """Return the Java processes of its executors."""
        if self.process is None:
            return []
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()):
                    found.append(child)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return found


class SparkCluster:
    """A master and workers."""

    def __init__(self, workers: int = 2, *, port: int = 0, **options: Any) -> None:
        self.options = options
        self.master = SparkMaster(port=port)
        self.workers = [SparkWorker(self.master.address, **options) for _ in range(workers)]

    @property
    def address(self) -> str:
        """What ``--master`` takes."""
        return self.master.address

    def __enter__(self) -> Self:
        try:
            self.master.start()
            for worker in self.workers:
                worker.launch()
            for worker in self.workers:
                worker.start()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def add_worker(self) -> SparkWorker:
        """Start one more worker."""
        worker = SparkWorker(self.address, **self.options)
        self.workers.append(worker)
        return worker.start()

    def executors(self) -> Iterator[psutil.Process]:
        """Yield the executors of all workers."""
        for worker in self.workers:
            yield from worker.executors()

    def discard(self) -> None:
        """End all, and delete their folders."""
        for server in (*self.workers, self.master):
            server.discard()


def _started(main: str, heap: str) -> list[object]:
    modules = ["--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED"]
    modules += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "-XX:+IgnoreUnrecognizedVMOptions"]
    return java(*modules, f"{DEPLOY}.{main}", heap=heap, path=str(spark_jars() / "*"))


def _environment(folder: Path) -> dict[str, str]:
    places = {name: folder / name for name in ("home", "tmp", "local")}
    for place in places.values():
        place.mkdir(exist_ok=True)
    home, temporary, local = map(str, places.values())
    return {
        "HOME": home,
        "XDG_CACHE_HOME": f"{home}/.cache",
        "TMPDIR": temporary,
        "SPARK_LOCAL_DIRS": local,
        "SPARK_LOCAL_IP": ports.HOST,
        "SPARK_HOME": str(spark_jars().parent),
        "SPARK_SCALA_VERSION": _scala(),
    }


def _scala() -> str:
    """Return the version of Scala, which a worker looks up before it starts an executor."""
    (library,) = spark_jars().glob("scala-library-*.jar")
    found = re.search(r"(\d+\.\d+)\.", library.name)
    assert found is not None, library
    return found[1]


def main() -> int:
    """Run a cluster until Ctrl-C. Returns the exit status."""
    options = argparse.ArgumentParser(prog="make cluster", description="Run a Spark cluster on loopback, until Ctrl-C.")
    options.add_argument("--workers", type=int, default=2, metavar="N")
    options.add_argument("--cores", type=int, default=1, metavar="N", help="cores of a worker")
    options.add_argument("--memory", default="1g", metavar="SIZE", help="memory of a worker")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    shared = Path(tempfile.mkdtemp(prefix="sluice-cluster-"))
    began = time.monotonic()
    try:
        with SparkCluster(chosen.workers, port=ports.usual(7077), cores=chosen.cores, memory=chosen.memory) as cluster:
            print(f"--master {cluster.address} --state file://{shared}/state", flush=True)
            print_progress(f"ready after {time.monotonic() - began:.0f} s; Ctrl-C ends it and deletes {shared}")
            return _wait(cluster)
    except KeyboardInterrupt:
        return 0
    except StartError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def _wait(cluster: SparkCluster) -> int:
    while True:
        for server in (cluster.master, *cluster.workers):
            if server.process is None or not server.process.running:
                print(f"{server.name} ended; the end of its log:", server.log.read_text()[-2000:], sep="\n", file=sys.stderr)
                return 1
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
