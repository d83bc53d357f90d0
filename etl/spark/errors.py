"""Spark's walls of text → one message a user can act on; the wall is kept for ``--debug``."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError, cut
from etl.spark.limits import is_file_limit, too_few_files

if TYPE_CHECKING:
    from etl.plan.model import StepNode

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*([^\n]+)")
_LAST_LINE = re.compile(r"^(?:[A-Za-z_.]+(?:Error|Exception)): (.+)$", re.MULTILINE)


_CAUSES = (
    re.compile(r"^Caused by: (.+)$", re.MULTILINE),
    re.compile(r"^(?:: |Exception in thread \"[^\"]*\" )(.+)$", re.MULTILINE),
)
"""How Java writes what went wrong, the nearer to its root the earlier here."""

_NO_MASTER = ("All masters are unresponsive", "Cannot call methods on a stopped SparkContext")
"""What Spark says after it has tried for a minute to register with a master."""

_CHATTER = re.compile(r"WARNING: Using incubator|Setting |To adjust |(?:NOTE: )?Picked up |\s")
"""What it prints in any case, or behind what it has to say."""


class RunError(EtlError):
    """A run that failed; what else is known is a note of it, which a traceback shows."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        if details:
            self.add_note(details)


def not_started(error: BaseException, log: Path) -> RunError:
    """Why there is no Spark: the root of what Java raised or printed, and where the rest is."""
    wall = str(error)
    printed = log.read_text("utf-8", "replace") if log.is_file() else ""
    if any(text in wall + printed for text in _NO_MASTER):
        return RunError(
            "Spark's master did not take the application: what answers at its address is no Spark master (its port is usually "
            f"7077, and 8080 that of its web page), or one of another version of Spark, or it hangs; see {log}",
            wall,
        )
    if is_file_limit(wall + printed):
        return RunError(f"Spark did not start: too many open files; {too_few_files()}", wall)
    found = (causes[-1] for text in (wall, printed) for cause in _CAUSES if (causes := cause.findall(text)))
    said = (line for line in [*printed.splitlines(), wall] if line and not _CHATTER.match(line))
    why = next(found, None) or next(said, type(error).__name__)
    return RunError(f"Spark did not start: {why.strip()}; what Java printed is in {log}", wall)


def explained(
    query: str, error: BaseException, staging: Path, folder: Path | None = None, steps: Sequence[StepNode] = ()
) -> RunError:
    """The message a task left in the staging folder, else the condition that Spark names, and the steps that Spark computes.
    ``folder`` is the query's, in the state folder."""
    wall = str(error)
    reported = _reported(staging)
    if reported is not None and _PIPE_ENDED not in reported["message"]:
        return RunError(f"query {query!r}: {_said(reported)}", f"{reported['traceback']}\n{wall}")
    if isinstance(error, EtlError):
        return RunError(f"query {query!r}: {error}", wall)
    if known := _known_cause(wall):
        return RunError(f"query {query!r}: {known}", wall)
    condition = _CONDITION.search(wall)
    inner = _LAST_LINE.findall(wall)
    if inner and (not condition or "PYTHON" in condition[1] or condition[1] in ("STREAM_FAILED", "UDF_USER_CODE_ERROR")):
        said = inner[-1].strip()
        return RunError(f"query {query!r}: {_FULL if said == _NO_SPACE else short(said) + _computed_by(steps)}", wall)
    if condition and _STATE.match(condition[1]):
        text = f"the state of its windows cannot be read: {condition[2].strip()} ({condition[1]})"
        return RunError(f"query {query!r}: {text}; {_begin_anew(folder)}", wall)
    if condition:
        return RunError(f"query {query!r}: {short(condition[2])} ({condition[1]}){_computed_by(steps)}", wall)
    first = next((line.strip() for line in wall.splitlines() if line.strip()), type(error).__name__)
    if first.endswith(":"):
        first = f"{first} {_root(error)}"
    return RunError(f"query {query!r}: {short(first)}", wall)


def refused(node: StepNode, error: Exception) -> RunError:
    """A step whose DataFrame Spark does not make."""
    wall = str(error)
    condition = _CONDITION.search(wall)
    text = f"{short(condition[2])} ({condition[1]})" if condition else short(wall.strip().partition("\n")[0])
    return RunError(f"{_placed(node)}: Spark refuses it: {text}", wall)


def short(text: str) -> str:
    """A message without the tail that names files of Spark, cut to two lines of a terminal."""
    return cut(_TAIL.sub("", text.strip()), _LONGEST_MESSAGE)


_TAIL = re.compile(r"[\s;]*SQLSTATE: \w+(?:; line \d+ pos \d+)?;?\s*$")
_LONGEST_MESSAGE = 300


def _computed_by(steps: Sequence[StepNode]) -> str:
    """Where to look: the steps of the query that Spark computes."""
    return f"; Spark computes {', '.join(_placed(node) for node in steps[:_MOST_STEPS])} here" if steps else ""


_MOST_STEPS = 5


def _placed(node: StepNode) -> str:
    return f"{node.id} (line {node.location[0]}, column {node.location[1]})" if node.location else node.id


_PIPE_ENDED = "Tried reading schema message"
"""What Arrow says in a task whose other end, in the JVM, has failed: Spark knows why."""


def _known_cause(wall: str) -> str | None:
    """What a wall comes from, where that is no matter of the query."""
    if _CRASHED in wall:
        return _KILLED
    if is_file_limit(wall):
        return f"too many open files; {too_few_files()}"
    return _NO_HEAP if "OutOfMemoryError: Java heap space" in wall or "GC overhead limit exceeded" in wall else None


def _root(error: BaseException) -> str:
    """What the innermost cause says that PySpark has taken along."""
    while isinstance(cause := getattr(error, "_cause", None), BaseException):
        error = cause
    return str(error).partition("\n")[0].strip()


def jvm_gone(status: int, log: Path) -> RunError:
    """What the exit status of Spark's JVM says, which ended while the run went on."""
    report = next(iter(sorted(log.parent.glob("hs_err_pid*.log"), key=lambda path: -path.stat().st_mtime)), None)
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    if status == -signal.SIGKILL:
        why = f"was killed ({name}); a system that runs out of memory kills processes, which its log tells (dmesg)"
    elif status < 0:
        why = f"crashed ({name}); {f'its report is {report}' if report else f'what it printed is in {log}'}"
    else:
        why = f"ended with status {status}; what it printed is in {log}"
    return RunError(f"Spark's JVM {why}. Nothing is lost: the next run goes on where this one was")


_STATE = re.compile(r"CANNOT_LOAD_STATE_STORE|STATE_STORE|FAILED_READ_DELTA|STATE_DATA_SOURCE|.*CHECKPOINT")
"""Conditions of Spark about what a query keeps from one run to the next."""


def _begin_anew(folder: Path | None) -> str:
    what = f"remove {folder}" if folder else "remove its folder there"
    return (
        f"restore the state folder from a backup; or {what}, and the query begins anew at its sources' start, and delivers again "
        "what was delivered"
    )


_CRASHED = "Python worker exited unexpectedly"
"""What Spark says when the process of a task is gone."""

_KILLED = (
    "a Python worker was killed or crashed; a system that runs out of memory kills processes, which its log tells (dmesg). "
    "Nothing is lost: the next run goes on where this one was"
)

_NO_HEAP = (
    "Spark's JVM has too little memory: give it more, such as --conf spark.driver.memory=1g. Nothing is lost: the next run "
    "goes on where this one was"
)

_NO_SPACE = "No space left on device"
"""What Java says without the place."""

_FULL = "no space is left for the state folder or for temporary files; nothing is lost: make room, and start again"


def _reported(staging: Path) -> dict[str, str] | None:
    """The first error a task of the last micro-batch put aside."""
    found = sorted(staging.glob("*/errors/*.json"), key=lambda path: path.stat().st_mtime)
    try:
        return json.loads(found[0].read_bytes()) if found else None
    except (OSError, ValueError):
        return None


def _said(error: dict[str, str]) -> str:
    if error["type"] in ("ComponentError", "DeliveryFailedError", "PlanError", "SplitLostError"):
        return error["message"]
    return f"{error['message'] or error['type']} ({error['type']})" if error["message"] else error["type"]
