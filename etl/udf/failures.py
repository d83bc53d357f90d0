"""Errors of the user's code as texts for dead letters."""

from __future__ import annotations

from traceback import extract_tb

from etl.contract.errors import cut
from etl.udf.call_guard import CallGuard, CallTimeoutError, UnusualError
from etl.udf.declaration import CodeFile, UserFunction

FAILURES = (Exception, SystemExit)
"""What the user's code raises for a reason of its own; a call of ``sys.exit`` ends no worker."""

_MESSAGE_SECONDS = 5
"""Seconds that the text of an error may take."""

_MAX_MESSAGE = 500
"""Characters of an error's message."""


def describe_failure(error: BaseException, code: CodeFile) -> str:
    """The last line of the traceback, with the last line of the user's file that it passed."""
    if isinstance(error, UnusualError) and error.__cause__ is not None:
        error = error.__cause__
    lines = [frame for frame in extract_tb(error.__traceback__) if frame.filename == code.path]
    name, text = type(error).__name__, cut(message_of(error), _MAX_MESSAGE)
    at = f" ({code.path}:{lines[-1].lineno})" if lines else ""
    if isinstance(error, SyntaxError):
        return f"{name}: {error.msg} ({code.path}:{error.lineno})"
    return f"{name}: {text}{at}" if text else f"{name}{at}"


def message_of(error: BaseException) -> str:
    """The text of an error; empty if its own code fails."""
    try:
        with CallGuard(_MESSAGE_SECONDS):
            return str(error)
    except (*FAILURES, CallTimeoutError):  # __str__ is the user's code, too
        return ""


def failure_of(error: BaseException, function: UserFunction) -> str:
    """Why a call gave no result."""
    return f"{function.name}() failed: {describe_failure(error, function.code)}"
