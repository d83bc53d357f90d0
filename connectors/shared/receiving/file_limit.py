"""The limit of open files of this process, for receivers with many connections."""

from __future__ import annotations

import resource

OTHER_OPEN_FILES = 512
"""Files that a driver has open besides connections."""


def raise_file_limit(connections: int) -> None:
    """Raise this process's limit of open files for the connections, as far as the system allows."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_OPEN_FILES
    if now != resource.RLIM_INFINITY and now < wanted:
        allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
