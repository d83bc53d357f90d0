"""The limit of open files of this process, for receivers with many connections."""

from __future__ import annotations

import resource

OTHER_OPEN_FILES = 512
"""Files that a driver has open besides connections."""


def raise_file_limit(connections: int) -> None:
    """Raise this process's limit of open files for the connections, as far as the system allows."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_OPEN_FILES
    if soft_limit != resource.RLIM_INFINITY and soft_limit < needed:
        allowed = needed if hard_limit == resource.RLIM_INFINITY else min(needed, hard_limit)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard_limit))
