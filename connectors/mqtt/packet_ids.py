"""Which messages of QoS 2 are stored, but not yet released by the broker: what makes them exactly once across restarts.

A broker that has not got PUBREC sends a message again, after a restart too. The journal has the packet identifier of each
message; this file says up to where it was read for identifiers, and which the broker has released (PUBREL): those may belong
to another message next. Invariant: before PUBREC is sent the identifier is here or in the journal after the last position;
before PUBCOMP is sent its release is here.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.api import replace_file

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FILE_NAME = "packet-ids"
_COMPACT_BYTES = 1 << 20

IdsAfter = Callable[[int], "Array"]
"""Returns the identifiers of the messages of QoS 2 in the journal after a position."""


class PacketIds:
    """The identifiers of a client's session. One thread connects and subscribes, one records messages, one releases: each change
    is made alone."""

    def __init__(self, folder: str, client: str, syncs: bool) -> None:
        import numpy as np

        self._path, self._client, self._syncs = Path(folder) / FILE_NAME, client, syncs
        self.are_stored = np.zeros(1 << 16, bool)
        """By identifier: whether the message is stored and not released."""
        self.filters: tuple[str, ...] = ()
        """Filters of topics for which the session has subscriptions."""
        self._at = 0
        self._file, self._size = -1, 0
        self._changes = threading.Lock()

    def load(self, ids_after: IdsAfter, end: int) -> None:
        """Read what earlier runs have left; ``end`` is the end of the journal."""
        for number, entry in enumerate(_read_entries(self._path)):
            if number == 0 and entry.get("client") != self._client:
                break
            self.filters = tuple(entry.get("filters", self.filters))
            self.are_stored[entry.get("add", [])] = True
            self.are_stored[entry.get("drop", [])] = False
            self._at = entry["at"]
        else:
            self.are_stored[ids_after(self._at)] = True
        self._at = end
        self._compact()

    def reset(self) -> None:
        """The broker has no session of this client: what is stored will not come again."""
        with self._changes:
            self.are_stored[:] = False
            self.filters = ()
            self._compact()

    def subscribe(self, filters: Sequence[str]) -> None:
        """Record for which filters the session has subscriptions."""
        with self._changes:
            self.filters = tuple(filters)
            self._compact()

    def record(self, added: Array, end: int) -> None:
        """Record identifiers of stored messages; ``end`` is the end of the journal. An OSError means that none is recorded.

        No sync: after a loss of power the journal has what is missing here.
        """
        if not len(added):
            return
        with self._changes:
            self.are_stored[added] = True
            self._at = end
            if self._size > _COMPACT_BYTES:
                self._compact()
            else:
                self._append({"at": end, "add": added.tolist()})

    def release(self, released: Array) -> None:
        """Record identifiers that the broker has released. An OSError means that none of these releases may be answered.

        The journal is not read from a later position on: that of these messages was recorded before their PUBREC was sent.
        """
        with self._changes:
            self.are_stored[released] = False
            if self._size > _COMPACT_BYTES:
                self._compact()
                return
            self._append({"at": self._at, "drop": released.tolist()})
            file = os.dup(self._file) if self._syncs else -1
        if file >= 0:
            self._sync(file)

    def _sync(self, file: int) -> None:
        """Sync a file and close it. Messages are recorded meanwhile: a sync takes long."""
        try:
            os.fsync(file)
        except OSError:
            with self._changes:
                self._size = _COMPACT_BYTES + 1  # the system may have dropped what was not written: the next entry is a new file
            raise
        finally:
            os.close(file)

    def _append(self, entry: dict[str, Any]) -> None:
        line = f"{json.dumps(entry, separators=(',', ':'))}\n".encode()
        try:
            written = os.write(self._file, line)
            if written < len(line) and os.write(self._file, line[written:]) < len(line) - written:  # the second one says why
                raise OSError(errno.EIO, "only a part of the line was written")
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        """Close the file."""
        with self._changes:
            self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _compact(self) -> None:
        import numpy as np

        entry = {"client": self._client, "filters": self.filters, "at": self._at, "add": np.flatnonzero(self.are_stored).tolist()}
        content = f"{json.dumps(entry)}\n".encode()
        replace_file(self._path, content, sync_folder=self._syncs, sync=self._syncs)
        self._close()
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = len(content)


def _read_entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries up to the first that was not written completely."""
    entries: list[dict[str, Any]] = []
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except ValueError:
            break
    return entries
