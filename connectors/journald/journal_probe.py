"""Which journal files of a path can be read, for the check before a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

from connectors.journald.journal_file import NotAJournalError, read_header
from connectors.journald.journal_files import candidates
from etl.api import Finding

_HINT = "grant the right to read it: add the user to the group systemd-journal"


def probe_files(path: str) -> Iterator[Finding]:
    """Yield findings: a path that is missing or has no journal, and files that cannot be read."""
    if not os.path.exists(path):
        hint = "journald keeps its files in memory: read /run/log/journal" if path == "/var/log/journal" else None
        yield Finding("missing-input", f"{path!r} does not exist", ("path",), hint)
        return
    errors = {one: error for one in candidates(path) if (error := _error(one))}
    if errors:
        first, reason = next(iter(errors.items()))
        more = f", and {len(errors) - 1:,} more" if len(errors) > 1 else ""
        yield Finding("unreadable-file", f"{first!r} cannot be read{more}: {reason}", ("path",), _HINT)
    elif not any(True for _ in candidates(path)):
        hint = "give the folder of the *.journal files, or of the machines' folders"
        yield Finding("no-files", f"{path!r} has no journal file", ("path",), hint)


def _error(path: str) -> str | None:
    try:
        read_header(path)
    except (OSError, NotAJournalError) as error:
        return str(error)
    return None
