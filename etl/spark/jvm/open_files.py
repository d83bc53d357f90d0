"""The system's limit of open files: raised as far as allowed, with an error that explains it where it is too small."""

from __future__ import annotations

import resource
from contextlib import suppress

from etl.api import EtlError
from etl.system_errors import describe_file_limit

FILES_OF_RUN, FILES_OF_QUERY = 400, 10
"""Open files that Spark's JVM has in a small run, and more for each streaming query (measured)."""

MAX_LIMIT = 65536
"""The limit is raised to at most this: some programs loop over all numbers below it."""


def allow_files(queries: int) -> None:
    """Raise the limit of this process and its children. Raises EtlError if it stays too small for a run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, MAX_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < raised:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = FILES_OF_RUN + FILES_OF_QUERY * queries
    if limit != resource.RLIM_INFINITY and limit < needed:
        run = f"a run of {queries} {'query' if queries == 1 else 'queries'}"
        raise EtlError(f"{run} needs {needed} open files; {describe_file_limit()}")
