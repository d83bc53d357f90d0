"""Spark's long errors become one message."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from etl.plan.segments import StepNode
from etl.spark.reports.errors import explain_error, explain_failed_start, explain_jvm_exit, explain_refused_step
from etl.steps.sql import Sql

CRASHED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "clientserver.py", line 617, in _call_proxy
py4j.protocol.Py4JJavaError: An error occurred while calling o81.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times:
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
	at org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException
"""


TOO_MANY_FILES = "query 'main': too many open files; the system lets a process of this user have"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CRASHED, "query 'main': a Python worker was killed or crashed"),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table x cannot be found.\nmore", "query 'main': The table x cannot be found."),
        ("[STREAM_FAILED] Query [id = 1] terminated\nValueError: no such thing\n", "query 'main': no such thing"),
        (
            "[STREAM_FAILED] Query [id = 1]\njava.io.IOException: No space left on device\n",
            "query 'main': the state folder or a temporary file cannot be written: No space left on device; nothing is lost: ",
        ),
        (
            "[STREAM_FAILED] Query [id = 1]\njava.io.IOException: File too large\n",
            "query 'main': the state folder or a temporary file cannot be written: File too large; nothing is lost: raise",
        ),
        (
            "[STREAM_FAILED] Query [id = 1]\nOSError: cannot write x: No space left on device\n",
            "query 'main': cannot write x: No",
        ),
        ("a word\nand more", "query 'main': a word"),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030",
            "query 'main': the state of its windows cannot be read: An error occurred during loading state.",
        ),
        ('[X] y\njava.io.IOException: Cannot run program "chmod": error=24, Too many open files', TOO_MANY_FILES),
        ("An error occurred while calling o95.start.\n: java.io.IOException: Too many open files", TOO_MANY_FILES),
        ("[X] y\njava.lang.OutOfMemoryError: Java heap space", "query 'main': Spark's JVM has too little memory: give it more"),
        ("", "query 'main': Exception"),
    ],
)
def test_a_failed_query_has_one_line(text: str, message: str, tmp_path: Path) -> None:
    error = explain_error("main", Exception(text), tmp_path)

    assert str(error).startswith(message)
    assert "\n" not in str(error)
    assert not text or text in "".join(error.__notes__)


EXITED = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."

NO_THREAD = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.lang.OutOfMemoryError: unable to create native thread
\tat java.base/java.lang.Thread.start0(Native Method)
"""

NO_FILES = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" java.lang.NoClassDefFoundError: Could not initialize class sun.util.calendar.ZoneInfoFile
\tat java.base/sun.util.calendar.ZoneInfo.getTimeZone(ZoneInfo.java:589)
Caused by: java.io.FileNotFoundException: tzdb.dat (Too many open files)
"""

NO_OPTION = """Unrecognized VM option 'UseNothing'
Error: Could not create the Java Virtual Machine.
"""


@pytest.mark.parametrize(
    ("text", "printed", "why"),
    [
        (EXITED, NO_FILES.partition("Caused")[0], "java.lang.NoClassDefFoundError: Could not initialize class sun.util.c"),
        (EXITED, NO_OPTION, "Unrecognized VM option 'UseNothing'"),
        (EXITED, "", EXITED),
        (NO_THREAD, "Setting default log level\n", "java.lang.OutOfMemoryError: unable to create native thread"),
    ],
)
def test_the_cause_of_a_failed_start_is_one_line(text: str, printed: str, why: str, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(printed)

    error = explain_failed_start(Exception(text), log)

    assert str(error).startswith(f"Spark did not start: {why}")
    assert str(error).endswith(f"; what Java printed is in {log}")
    assert "\n" not in str(error)
    assert text in "".join(error.__notes__)


def test_the_error_for_too_many_open_files_has_the_limit(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(NO_FILES)

    error = explain_failed_start(Exception(EXITED), log)

    assert re.match(r"Spark did not start: too many open files; .* have \d+ open \(ulimit -n\): raise it to 4096", str(error))


@pytest.mark.parametrize("cause", ["Cannot call methods on a stopped SparkContext", "All masters are unresponsive! Giving up."])
def test_a_master_without_an_answer_is_the_cause_of_a_failed_start(cause: str, tmp_path: Path) -> None:
    error = explain_failed_start(
        Exception(f"An error occurred.\n: java.lang.IllegalStateException: {cause}"), tmp_path / "spark.log"
    )

    assert str(error).startswith("Spark's master did not take the application: what answers at its address is not a Spark master")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (-9, "was killed (SIGKILL); a system that runs out"),
        (-6, "crashed (SIGABRT); its report is"),
        (1, "ended with status 1; "),
    ],
)
def test_the_error_for_a_jvm_that_ended_has_its_status(status: int, why: str, tmp_path: Path) -> None:
    (tmp_path / "hs_err_pid7.log").touch()

    assert str(explain_jvm_exit(status, tmp_path / "spark.log")).startswith(f"Spark's JVM {why}")


def test_the_stored_error_of_a_task_comes_first(tmp_path: Path) -> None:
    (tmp_path / "0" / "errors").mkdir(parents=True)
    stored = {"type": "ComponentError", "message": "localhost:9092: no such topic", "traceback": "…"}
    (tmp_path / "0" / "errors" / "1.json").write_text(json.dumps(stored))

    assert str(explain_error("main", Exception(CRASHED), tmp_path)) == "query 'main': localhost:9092: no such topic"


def test_a_line_that_ends_with_a_colon_is_followed_by_its_cause(tmp_path: Path) -> None:
    class CapturedError(Exception):
        _cause: BaseException | None = None

    inner, middle, outer = (
        CapturedError("The value 'x' is not a number.\nJVM stacktrace:"),
        CapturedError("between:"),
        CapturedError("Error while:"),
    )
    middle._cause, outer._cause = inner, middle

    assert str(explain_error("main", outer, tmp_path)) == "query 'main': Error while: The value 'x' is not a number."


NODE = StepNode("steps[1] sql", Sql(query="SELECT * FROM events"), pa.schema([]), pa.schema([]), location=(7, 5))


def test_an_error_of_a_value_names_the_steps_that_spark_computes(tmp_path: Path) -> None:
    text = (
        "[STREAM_FAILED] Query \norg.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' SQLSTATE: 22018"
    )

    error = explain_error("main", Exception(text), tmp_path, steps=[NODE])

    assert str(error) == ("query 'main': [CAST_INVALID_INPUT] The value 'x'; Spark computes steps[1] sql (line 7, column 5) here")


def test_the_error_for_a_step_that_spark_refuses_names_it() -> None:
    text = '[DATATYPE_MISMATCH.X] Cannot resolve "y". SQLSTATE: 42K09; line 1 pos 7;\n\'Project [y]\n+- SubqueryAlias\n' * 50

    error = explain_refused_step(NODE, Exception(text))

    assert str(error) == 'steps[1] sql (line 7, column 5): Spark refuses it: Cannot resolve "y". (DATATYPE_MISMATCH.X)'
    assert error.__notes__ == [text]


def test_long_messages_are_cut(tmp_path: Path) -> None:
    error = explain_error("main", Exception("[X] " + "y" * 6000), tmp_path)

    assert len(str(error)) < 400


def test_a_task_whose_input_ended_early_is_not_the_cause(tmp_path: Path) -> None:
    (tmp_path / "0" / "errors").mkdir(parents=True)
    stored = {"type": "ArrowInvalid", "message": "Tried reading schema message, was null or length 0", "traceback": ""}
    (tmp_path / "0" / "errors" / "0.json").write_text(json.dumps(stored))

    error = explain_error("main", Exception("[CAST_INVALID_INPUT] The value 'x' is malformed."), tmp_path)

    assert str(error) == "query 'main': The value 'x' is malformed. (CAST_INVALID_INPUT)"
