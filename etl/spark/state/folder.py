"""The state folder of a pipeline: its paths and its lock (one run at a time).

::

    lock                      held while a run is alive
    plan.json                 fingerprints of the queries, checked before a run
    queries/NAME/checkpoint   Spark's offsets, commits and state
    queries/NAME/state        manifests and files of stateful steps
    queries/NAME/clock.json   largest event time committed
    queries/NAME/pace.json    bytes a second of the last large micro-batch
    sources/NAME/             events of a receiver that not all sinks have yet
    sinks/NAME/               the state of a sink's committer
    spool/NAME/               events that a sink has not accepted yet
    stopping                  exists while a run stops: ends backoffs in all processes
    taps/                     what viewers want to see, and samples for them
    staging/RUN/…             output of tasks whose micro-batch is not committed; removed at start
    tables/                   look-up tables
    dead/                     dead letters that were replayed or dropped, and the state of replays
    metrics.prom              the numbers of the run, for Prometheus
    dead_letters.jsonl        rejected events, unless the pipeline says otherwise
    logs/spark.log            what the JVM and its workers print
    logs/messages.jsonl       what the runs reported, also messages.1.jsonl
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from etl.api import ComponentError, text_with_advice, write_advice

MOUNTED = "file://"
"""The prefix of a path that every host of a cluster mounts at the same place."""


def state_path(chosen: str) -> Path:
    """The folder that ``--state`` or ``$ETL_STATE`` names. Raises ComponentError for one in a store of objects."""
    path = chosen.removeprefix(MOUNTED)
    if re.match(r"[a-z][a-z0-9+.-]*:/", path, re.IGNORECASE):
        raise ComponentError(
            f"the state cannot be at {chosen}: it is locked, mapped and renamed, as files are and objects of a store are not; "
            f"choose a folder, on a cluster one that all hosts mount ({MOUNTED}/…). What sinks and dead letters write may be in s3://"
        )
    return Path(path)


@dataclass(frozen=True)
class StateFolder:
    """Paths inside one pipeline's state folder."""

    root: Path

    @staticmethod
    def of(pipeline: str, chosen: str | None) -> StateFolder:
        """``--state``, else ``$ETL_STATE``, else ``~/.local/state/sluice/<pipeline>``. Raises ComponentError without a home, and
        for a URI of a store."""
        if chosen:
            return StateFolder(state_path(chosen).absolute())
        base = os.environ.get("ETL_STATE")
        home = state_path(base or os.path.expanduser("~/.local/state/sluice"))
        if not base and not home.is_absolute():
            raise ComponentError("no home folder is known for the state: choose a folder with --state, or set HOME or ETL_STATE")
        return StateFolder((home / pipeline).absolute())

    def checkpoint(self, query: str) -> Path:
        """Spark's own folder for a query."""
        return self.query(query) / "checkpoint"

    def query(self, query: str) -> Path:
        """The folder of a query's state: Spark's and ours."""
        return self.root / "queries" / query

    def rows(self, query: str) -> Path:
        """The folder of what a query's stateful steps remember: manifests and state files."""
        return self.query(query) / "state"

    def ended(self, query: str, read: int) -> Path:
        """The file that exists when all sources of a read of a query have ended; ``read`` is its number in the query."""
        return self.query(query) / f"ended-{read}.json"

    def received(self, source: str) -> Path:
        """The folder of a receiver's events."""
        return self.root / "sources" / source

    def marks(self, source: str) -> Path:
        """The folder of offsets up to which each query of this run has delivered a source."""
        return self.root / "marks" / source

    def sink(self, sink: str) -> Path:
        """The folder of a sink committer's state."""
        return self.root / "sinks" / sink

    @property
    def spools(self) -> Path:
        """The parent folder of the sinks' spools."""
        return self.root / "spool"

    @property
    def lock(self) -> Path:
        """The file that is locked while a run is alive."""
        return self.root / "lock"

    @property
    def stopping(self) -> Path:
        """The file that exists while a run stops."""
        return self.root / "stopping"

    def staging(self, run: str, query: str, batch: int) -> Path:
        """The folder of a micro-batch's uncommitted output."""
        return self.root / "staging" / run / query / str(batch)

    @property
    def dead_letters(self) -> Path:
        """The default file of dead letters."""
        return self.root / "dead_letters.jsonl"

    @property
    def metrics(self) -> Path:
        """The file with the metrics of the run, or of the last one."""
        return self.root / "metrics.prom"

    @property
    def tables(self) -> Path:
        """The parent folder of look-up tables."""
        return self.root / "tables"

    @property
    def spark_log(self) -> Path:
        """The log of the JVM and its workers."""
        return self.root / "logs" / "spark.log"

    @property
    def taps(self) -> Path:
        """The folder of viewers' requests for samples."""
        return self.root / "taps"

    @property
    def messages(self) -> Path:
        """The log of messages that the runs reported."""
        return self.root / "logs" / "messages.jsonl"

    @property
    def has_run(self) -> bool:
        """Whether an earlier run has stored the fingerprints of its queries."""
        return (self.root / "plan.json").exists()

    def prepare(self) -> None:
        """Create the folder, for its owner only. Raises ComponentError that names the cause."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            (self.root / "logs").mkdir(exist_ok=True)
        except OSError as error:
            raise _unusable(self.root, error) from error

    def clear_staging(self) -> None:
        """Remove uncommitted output, and the offsets of an earlier run's queries."""
        shutil.rmtree(self.root / "staging", ignore_errors=True)
        shutil.rmtree(self.root / "marks", ignore_errors=True)

    def remove_taps(self) -> None:
        """Remove what viewers that were killed have left."""
        shutil.rmtree(self.taps, ignore_errors=True)


def _unusable(root: Path, error: OSError) -> ComponentError:
    """The error for a folder that cannot be used, with the file, if any, where it or a folder above it should be."""
    blocking = next((path for path in (root, *root.parents) if path.exists() and not path.is_dir()), None)
    cause = f"{blocking} is a file" if blocking else text_with_advice(error.strerror or str(error))
    return ComponentError(f"cannot use state folder {root}: {cause}; choose another with --state")


OTHER_FOLDER = "stop that run, or give this one a folder of its own with --state"


@dataclass(frozen=True)
class StateLock:
    """The lock of a state folder that this process holds."""

    state: StateFolder
    file: IO[str]

    def check(self) -> None:
        """Raise ComponentError if the lock file is not the one in the folder any more: the folder was removed or replaced, and
        another process may use the one that is there now."""
        if not self._is_in_place():
            raise ComponentError(
                f"state folder {self.state.root} was removed or replaced while this process used it: what it knew is lost, and "
                "another process may use it now; stop a run before you remove its state"
            )

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.file.fileno()), os.stat(self.state.lock))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # a file system that does not answer now


@contextmanager
def lock_state(state: StateFolder, advice: str = OTHER_FOLDER) -> Iterator[StateLock]:
    """Lock the folder for this process while the body runs. Raises ComponentError that names the process that has the lock, and
    gives ``advice``. A body that goes on for long calls `StateLock.check` from time to time."""
    try:
        opened = open(state.lock, "a+")  # noqa: SIM115
    except OSError as error:
        raise _unusable(state.root, error) from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComponentError(_holder_message(state, lock, advice)) from None
        state_lock = StateLock(state, lock)
        state_lock.check()  # it may have been removed between the two lines above
        _write_holder(state, lock)
        yield state_lock


def _write_holder(state: StateFolder, lock: IO[str]) -> None:
    """Write this process's id and host into the lock file."""
    holder = f"{os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
    try:
        os.truncate(lock.fileno(), 0)
        os.write(lock.fileno(), holder.encode())  # not through a buffer, which a full disk would refuse again at its end
    except OSError as error:
        raise ComponentError(
            f"cannot write to state folder {state.root}: {error.strerror}; {write_advice(error)}, and start again"
        ) from error


def _holder_message(state: StateFolder, lock: IO[str], advice: str) -> str:
    lock.seek(0)
    holder = lock.read(200).strip() or "unknown"
    return f"state folder {state.root} is in use by another run (process {holder}); {advice}"
