"""Shortens Spark's long errors to one message with a remedy; ``--debug`` shows the full text."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etl.api import EtlError, cut
from etl.spark.reports.failed_steps import describe_failed_step, describe_step
from etl.system_errors import advice_for_text, describe_file_limit, is_file_limit

if TYPE_CHECKING:
    from etl.plan.segments import StepNode

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*([^\n]+)")
_LAST_LINE = re.compile(r"^(?:[A-Za-z_.]+(?:Error|Exception)): (.+)$", re.MULTILINE)


_CAUSES = (
    re.compile(r"^Caused by: (.+)$", re.MULTILINE),
    re.compile(r"^(?:: |Exception in thread \"[^\"]*\" )(.+)$", re.MULTILINE),
)
"""Patterns of Java's error messages, the ones nearest to the root cause first."""

_NO_MASTER = ("All masters are unresponsive", "Cannot call methods on a stopped SparkContext")
"""Spark's errors after it has tried to register with a master for a minute."""

_NO_ERROR = re.compile(r"WARNING: Using incubator|Setting |To adjust |(?:NOTE: )?Picked up |\s")
"""Lines that are printed without an error too, or after the message."""


class RunError(EtlError):
    """A failed run; details are added as a note, which a traceback shows."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        if details:
            self.add_note(details)


def explain_failed_start(error: BaseException, log: Path) -> RunError:
    """The error for a Spark that did not start: the root cause, and the log with the rest."""
    full_text = str(error)
    printed = log.read_text("utf-8", "replace") if log.is_file() else ""
    if any(text in full_text + printed for text in _NO_MASTER):
        return RunError(
            "Spark's master did not take the application: what answers at its address is not a Spark master (its port is usually "
            f"7077, and 8080 that of its web page), or one of another version of Spark, or it hangs; see {log}",
            full_text,
        )
    if is_file_limit(full_text + printed):
        return RunError(f"Spark did not start: too many open files; {describe_file_limit()}", full_text)
    found = (causes[-1] for text in (full_text, printed) for cause in _CAUSES if (causes := cause.findall(text)))
    lines = (line for line in [*printed.splitlines(), full_text] if line and not _NO_ERROR.match(line))
    why = next(found, None) or next(lines, type(error).__name__)
    return RunError(f"Spark did not start: {why.strip()}; what Java printed is in {log}", full_text)


def explain_error(
    query: str, error: BaseException, staging: Path, folder: Path | None = None, steps: Sequence[StepNode] = ()
) -> RunError:
    """The error for a failed query: the one that a task stored in the staging folder, else Spark's condition and steps.

    ``folder`` is the query's folder in the state folder.
    """
    full_text = str(error)
    reported = _stored_error(staging)
    if reported is not None and _PIPE_ENDED not in reported["message"]:
        return RunError(f"query {query!r}: {_message(reported)}", f"{reported['traceback']}\n{full_text}")
    if isinstance(error, EtlError):
        return RunError(f"query {query!r}: {error}", full_text)
    if known := _common_cause(full_text):
        return RunError(f"query {query!r}: {known}", full_text)
    condition = _CONDITION.search(full_text)
    inner = _LAST_LINE.findall(full_text)
    if inner and (not condition or "PYTHON" in condition[1] or condition[1] in ("STREAM_FAILED", "UDF_USER_CODE_ERROR")):
        message = inner[-1].strip()
        text = _explain_system_error(message) or shorten(message) + describe_failed_step(full_text, steps)
        return RunError(f"query {query!r}: {text}", full_text)
    if condition and _STATE.match(condition[1]):
        text = f"the state of its windows cannot be read: {condition[2].strip()} ({condition[1]})"
        return RunError(f"query {query!r}: {text}; {_state_advice(folder)}", full_text)
    if condition:
        return RunError(
            f"query {query!r}: {shorten(condition[2])} ({condition[1]}){describe_failed_step(full_text, steps)}", full_text
        )
    first = next((line.strip() for line in full_text.splitlines() if line.strip()), type(error).__name__)
    if first.endswith(":"):
        first = f"{first} {_root_cause(error)}"
    return RunError(f"query {query!r}: {shorten(first)}", full_text)


def explain_refused_step(node: StepNode, error: Exception) -> RunError:
    """The error for a step whose DataFrame Spark rejects."""
    full_text = str(error)
    condition = _CONDITION.search(full_text)
    text = f"{shorten(condition[2])} ({condition[1]})" if condition else shorten(full_text.strip().partition("\n")[0])
    return RunError(f"{describe_step(node)}: Spark refuses it: {text}", full_text)


def shorten(text: str) -> str:
    """A message without Spark's suffix, shortened to two lines of a terminal."""
    return cut(_TAIL.sub("", text.strip()), _LONGEST_MESSAGE)


_TAIL = re.compile(r"[\s;]*SQLSTATE: \w+(?:; line \d+ pos \d+)?;?\s*$")
_LONGEST_MESSAGE = 300


_PIPE_ENDED = "Tried reading schema message"
"""Arrow's error in a task after its JVM side has failed; Spark reports the cause."""


def _common_cause(full_text: str) -> str | None:
    """The message for causes outside of the query, such as a full disk; None for others."""
    if _WORKER_ENDED in full_text:
        return _WORKER_ENDED_TEXT
    if is_file_limit(full_text):
        return f"too many open files; {describe_file_limit()}"
    return (
        _NO_HEAP_TEXT if "OutOfMemoryError: Java heap space" in full_text or "GC overhead limit exceeded" in full_text else None
    )


def _root_cause(error: BaseException) -> str:
    """The message of the innermost cause in PySpark's error."""
    while isinstance(cause := getattr(error, "_cause", None), BaseException):
        error = cause
    return str(error).partition("\n")[0].strip()


def explain_jvm_exit(status: int, log: Path) -> RunError:
    """The error for a JVM that ended during the run, by its exit status."""
    report = next(iter(sorted(log.parent.glob("hs_err_pid*.log"), key=lambda path: -path.stat().st_mtime)), None)
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    if status == -signal.SIGKILL:
        why = f"was killed ({name}); a system that runs out of memory kills processes, as its log shows (dmesg)"
    elif status < 0:
        why = f"crashed ({name}); {f'its report is {report}' if report else f'what it printed is in {log}'}"
    else:
        why = f"ended with status {status}; what it printed is in {log}"
    return RunError(f"Spark's JVM {why}. Nothing is lost: the next run continues where this one was")


_STATE = re.compile(r"CANNOT_LOAD_STATE_STORE|STATE_STORE|FAILED_READ_DELTA|STATE_DATA_SOURCE|.*CHECKPOINT")
"""Spark's error conditions about a query's checkpoint or state."""


def _state_advice(folder: Path | None) -> str:
    what = f"remove {folder}" if folder else "remove its folder there"
    return (
        f"restore the state folder from a backup; or {what}, and the query starts over at its sources' start, and delivers again "
        "what was delivered"
    )


_WORKER_ENDED = "Python worker exited unexpectedly"
"""Spark's error when the process of a task has ended."""

_WORKER_ENDED_TEXT = (
    "a Python worker was killed or crashed; a system that runs out of memory kills processes, as its log shows (dmesg), and a "
    "function of your own ends its process by os._exit, by a crash of native code, or by not ending long after its timeout, as "
    "logs/spark.log in the state folder shows. Nothing is lost: the next run continues where this one was"
)

_NO_HEAP_TEXT = (
    "Spark's JVM has too little memory: give it more, such as --conf spark.driver.memory=1g. Nothing is lost: the next run "
    "continues where this one was"
)


def _explain_system_error(message: str) -> str:
    """The message for a text of the system, such as of a full disk, which Java gives without the path; empty for others."""
    advice = advice_for_text(message)
    return (
        f"the state folder or a temporary file cannot be written: {message}; nothing is lost: {advice}, and start again"
        if advice
        else ""
    )


def _stored_error(staging: Path) -> dict[str, str] | None:
    """The first error that a task of the last micro-batch stored."""
    found = sorted(staging.glob("*/errors/*.json"), key=lambda path: path.stat().st_mtime)
    try:
        return json.loads(found[0].read_bytes()) if found else None
    except (OSError, ValueError):
        return None


def _message(error: dict[str, str]) -> str:
    if error["type"] in ("ComponentError", "DeliveryFailedError", "PlanError", "SplitLostError"):
        return error["message"]
    return f"{error['message'] or error['type']} ({error['type']})" if error["message"] else error["type"]
