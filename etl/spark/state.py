"""The state folder of a pipeline: what is in it, and that one run at a time has it.

::

    lock                      held while a run is alive
    plan.json                 fingerprints of the queries, checked before a run
    queries/NAME/checkpoint   Spark's offsets, commits and state
    queries/NAME/clock.json   largest event time committed
    queries/NAME/pace.json    bytes a second of the last large micro-batch
    sources/NAME/             what a receiver took and no sink holds yet
    sinks/NAME/               what a sink's committer remembers
    spool/NAME/               events that wait for a sink which did not take them
    stopping                  there while a run ends: who waits in another process waits no more
    staging/RUN/…             output of tasks whose micro-batch is not committed; removed at start
    tables/                   what steps look up
    metrics.prom              the numbers of the run, for Prometheus
    dead_letters.jsonl        rejected events, unless the pipeline says otherwise
    logs/spark.log            what the JVM and its workers print
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from etl.api import ComponentError, replace_file

log = logging.getLogger("sluice.state")


@dataclass(frozen=True)
class StateFolder:
    """Paths inside one pipeline's state folder."""

    root: Path

    @staticmethod
    def of(pipeline: str, chosen: str | None) -> StateFolder:
        """``--state``, else ``$ETL_STATE``, else ``~/.local/state/sluice/<pipeline>``. Raises ComponentError without a home."""
        if chosen:
            return StateFolder(Path(chosen).absolute())
        base = os.environ.get("ETL_STATE")
        home = Path(base or os.path.expanduser("~/.local/state/sluice"))
        if not base and not home.is_absolute():
            raise ComponentError("no home folder is known for the state: choose a folder with --state, or set HOME or ETL_STATE")
        return StateFolder((home / pipeline).absolute())

    def checkpoint(self, query: str) -> Path:
        """Spark's own folder for a query."""
        return self.query(query) / "checkpoint"

    def query(self, query: str) -> Path:
        """What we and Spark keep for a query."""
        return self.root / "queries" / query

    def ended(self, query: str) -> Path:
        """There when all sources of a query have ended."""
        return self.query(query) / "ended.json"

    def received(self, source: str) -> Path:
        """Where a receiver keeps what came."""
        return self.root / "sources" / source

    def marks(self, source: str) -> Path:
        """How far each query of this run has delivered a source."""
        return self.root / "marks" / source

    def sink(self, sink: str) -> Path:
        """What a sink's committer keeps."""
        return self.root / "sinks" / sink

    @property
    def spools(self) -> Path:
        """Where events wait for sinks that did not take them, a folder each."""
        return self.root / "spool"

    @property
    def stopping(self) -> Path:
        """There while a run ends."""
        return self.root / "stopping"

    def staging(self, run: str, query: str, batch: int) -> Path:
        """Where tasks of a micro-batch put what is not committed."""
        return self.root / "staging" / run / query / str(batch)

    @property
    def dead_letters(self) -> Path:
        """Where rejected events go by default."""
        return self.root / "dead_letters.jsonl"

    @property
    def metrics(self) -> Path:
        """The numbers of the run, or of the last one."""
        return self.root / "metrics.prom"

    @property
    def tables(self) -> Path:
        """Where look-up tables lie, a folder each."""
        return self.root / "tables"

    @property
    def spark_log(self) -> Path:
        """What the JVM and its workers print."""
        return self.root / "logs" / "spark.log"

    @property
    def has_run(self) -> bool:
        """Whether a run has left the fingerprints of its queries here."""
        return (self.root / "plan.json").exists()

    def prepare(self) -> None:
        """Create the folder, for its owner only. Raises ComponentError that names the cause."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            (self.root / "logs").mkdir(exist_ok=True)
        except OSError as error:
            raise ComponentError(f"cannot use state folder {self.root}: {error.strerror}; choose another with --state") from error

    def clear_staging(self) -> None:
        """Forget what no micro-batch committed, and which queries an earlier run had."""
        shutil.rmtree(self.root / "staging", ignore_errors=True)
        shutil.rmtree(self.root / "marks", ignore_errors=True)


@contextmanager
def locked(state: StateFolder) -> Iterator[None]:
    """Hold the folder for this process. Raises ComponentError that names who has it."""
    try:
        opened = open(state.root / "lock", "a+")  # noqa: SIM115
    except OSError as error:
        raise ComponentError(f"cannot use state folder {state.root}: {error.strerror}; choose another with --state") from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComponentError(_held(state, lock)) from None
        _sign(state, lock)
        yield


def _sign(state: StateFolder, lock: IO[str]) -> None:
    """Say whose it is."""
    holder = f"{os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
    try:
        os.truncate(lock.fileno(), 0)
        os.write(lock.fileno(), holder.encode())  # not through a buffer, which a full disk would refuse again at its end
    except OSError as error:
        raise ComponentError(
            f"cannot write to state folder {state.root}: {error.strerror}; make room, and start again"
        ) from error


def _held(state: StateFolder, lock: IO[str]) -> str:
    lock.seek(0)
    holder = lock.read(200).strip() or "unknown"
    return (
        f"state folder {state.root} is in use by another run (process {holder}); "
        "stop that run, or give this one a folder of its own with --state"
    )


def read_json(path: Path, is_sound: Callable[[Any], bool] = lambda _: True) -> Any:
    """A small file of ours, or None where there is none. Raises ComponentError when it cannot be read back, or is not sound."""
    try:
        found = json.loads(path.read_bytes())
        if not is_sound(found):
            raise ValueError("it does not hold what a run writes there")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ComponentError(
            f"state file {path} cannot be read ({error}); restore it from a backup, "
            "or remove the state folder to begin anew (events may then be delivered again)"
        ) from error
    return found


def read_numbers(path: Path) -> dict[str, Any]:
    """Numbers by name in a small file that makes itself anew, empty where there is none. One that cannot be read is removed."""
    try:
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and all(isinstance(value, (int, float)) for value in found.values()):
            return found
        why = "it does not hold numbers by name"
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = str(error)
    log.warning("state file %s cannot be read (%s): it is removed, and made anew", path, why)
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return {}


def write_json(path: Path, value: Any) -> None:
    """Replace a small file at once: readers see the old or the new one, also after a crash. Raises ComponentError when the disk
    does not take it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(value).encode(), sync_folder=False)
    except OSError as error:
        raise ComponentError(
            f"state file {path} cannot be written ({error.strerror}); nothing is lost: "
            "make room or mend the folder, and start again"
        ) from error
