"""Calls of a function on Python values: one for each event. An error of one event does not cost the others their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.declaration import UserFunction
from etl.udf.failures import FAILURES, failure_of

MAX_TIMEOUTS = 3
"""Calls for single events of a batch that may take too long; the events after them are not called for."""

MAX_RESULTS = 1 << 20
"""Rows or events that a function may give for one event: an iterator that does not end would take all memory."""


def call_for_each(
    function: UserFunction,
    call: Callable[..., Any],
    rows: Iterable[Sequence[Any]],
    length: int,
    guard: CallGuard | None = None,
) -> tuple[list[Any], dict[int, str]]:
    """The result for each row of arguments, and the reasons of failed ones by row number; those have None as result.

    ``guard``: the guard of these calls, where ``call`` itself makes several of the user's code.
    """
    found: list[Any] = [None] * length
    failures: dict[int, str] = {}
    guard = guard or CallGuard(function.timeout.total_seconds())
    numbered, at, timeouts = enumerate(rows), -1, 0  # the number comes with the row: an interrupt falls between no two of them
    while at < length - 1:
        try:
            with guard:
                for at, row in numbered:
                    guard.next_call()
                    found[at] = call(*row)
        except (*FAILURES, CallTimeoutError) as error:
            failures[at], found[at] = failure_of(error, function), None
            timeouts += isinstance(error, CallTimeoutError)
        if timeouts >= MAX_TIMEOUTS:
            reason = f"{function.name}() was not called: it took too long for {timeouts} events before it"
            failures |= dict.fromkeys(range(at + 1, length), reason)
            break
    return found, failures


def as_list(results: Iterable[Any]) -> list[Any]:
    """The results of a call. Raises ValueError for too many."""
    found = results if isinstance(results, list) else list(islice(results, MAX_RESULTS + 1))
    if len(found) > MAX_RESULTS:
        raise ValueError(f"it returned more than {MAX_RESULTS:,} results for one event")
    return found
