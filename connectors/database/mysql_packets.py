"""Reads the rows of a MySQL query from the socket as columns of bytes, without a Python value for each.

PyMySQL sends the query and reads the column definitions; after that a kernel cuts the packets (`mysql_packets_kernel`).
Memory: `BUFFER_BYTES` of packets, or one row if that is larger, and the columns made from them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.columns.texts import copy_texts

if TYPE_CHECKING:
    import numpy as np

BUFFER_BYTES = 4 << 20
"""Bytes of packets that become one batch."""

MAX_BATCH_ROWS = 65_536
"""Maximum number of rows of a batch."""

_READ_BYTES = 256 << 10
"""Bytes requested from the socket at a time."""

_CR_SERVER_LOST = 2013
"""Error number of MySQL clients for a connection lost during a query."""


def read_columns(driver: Any, sql: str) -> Iterator[list[pa.Array]]:
    """Run a query on PyMySQL's connection. Yields batches of columns; values are the bytes that the server sent, in string
    arrays that may not be UTF-8.

    Raises the driver's errors. The connection can be used again only if all rows were read.
    """
    from pymysql.cursors import SSCursor  # type: ignore[import-untyped]

    with driver.cursor(SSCursor) as cursor:
        cursor.execute(sql)
        try:
            yield from _PacketReader(driver, len(cursor.description)).batches()
        finally:  # else closing the cursor would read the remaining rows
            cursor._result.unbuffered_active = False


class _PacketReader:
    """Reads the packets of a result, from the first row on."""

    def __init__(self, driver: Any, width: int) -> None:
        import numpy as np

        self._file, self._next = driver._rfile, driver._next_seq_id
        self._bytes: np.ndarray[Any, Any] = np.empty(BUFFER_BYTES, np.uint8)
        self._begin = self._end = 0
        """Begin and end of the received bytes that are not cut yet."""
        self._address, self._length = np.empty((width, MAX_BATCH_ROWS), np.uint64), np.empty((width, MAX_BATCH_ROWS), np.int64)

    def batches(self) -> Iterator[list[pa.Array]]:
        """Yield all rows."""
        import numpy as np

        from connectors.database import mysql_packets_kernel as kernel

        rows, state = 0, kernel.NEEDS_MORE
        while True:
            at = np.uint64(self._bytes.ctypes.data)
            state, self._begin, self._next, rows = kernel.cut_rows(
                at, self._begin, self._end, self._next, rows, self._address, self._length
            )
            if rows and (state != kernel.NEEDS_MORE or rows == MAX_BATCH_ROWS or self._end == len(self._bytes)):
                yield self._columns(rows)
                rows = 0
            if state == kernel.END:
                return
            if state == kernel.LARGE_ROW:
                yield self._read_large_row()
            elif state != kernel.NEEDS_MORE:
                self._raise_error(state)
            elif rows < MAX_BATCH_ROWS:
                self._receive(keep=rows > 0)

    def _columns(self, rows: int) -> list[pa.Array]:
        """Copy the cut rows to columns, because the buffer is reused."""
        return [copy_texts(address[:rows], length[:rows]) for address, length in zip(self._address, self._length, strict=True)]

    def _receive(self, keep: bool) -> None:
        """Receive available bytes. Overwrites cut bytes, unless their rows are still needed."""
        if not keep and self._begin:
            left = self._end - self._begin
            self._bytes[:left] = self._bytes[self._begin : self._end].copy()
            self._begin, self._end = 0, left
        if self._end == len(self._bytes):  # a row larger than the buffer
            self._bytes.resize(2 * len(self._bytes), refcheck=False)
        self._end += self._read(self._bytes[self._end :].data)

    def _read(self, room: memoryview) -> int:
        found = self._file.read1(min(len(room), _READ_BYTES))  # readinto1 waits for more than is buffered
        if not found:
            raise _error("Lost connection to MySQL server during query")
        room[: len(found)] = found
        return len(found)

    def _take_bytes(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        taken = self._bytes[self._begin : min(self._begin + size, self._end)].tobytes()
        self._begin += len(taken)
        rest = bytearray(size - len(taken))
        at = 0
        while at < len(rest):
            at += self._read(memoryview(rest)[at:])
        return taken + bytes(rest)

    def _read_large_row(self) -> list[pa.Array]:
        """Read a row of several packets, as a batch."""
        import numpy as np

        from connectors.database import mysql_packets_kernel as kernel

        parts: list[bytes] = []
        while not parts or len(parts[-1]) == kernel.MAX_PACKET_BYTES:
            head = self._take_bytes(kernel.HEADER_BYTES)
            if head[3] != self._next:
                self._raise_error(kernel.MALFORMED)
            self._next = (self._next + 1) & 0xFF
            parts.append(self._take_bytes(int.from_bytes(head[:3], "little")))
        whole = np.frombuffer(b"".join(parts), np.uint8)
        if not kernel.cut_row(np.uint64(whole.ctypes.data), np.uint64(len(whole)), self._address, self._length):
            self._raise_error(kernel.MALFORMED)
        return self._columns(1)

    def _raise_error(self, state: int) -> None:
        """Raise the server's error, or one for malformed data."""
        from pymysql.err import raise_mysql_exception  # type: ignore[import-untyped]

        from connectors.database import mysql_packets_kernel as kernel

        if state == kernel.SERVER_ERROR:
            head = self._take_bytes(kernel.HEADER_BYTES)
            with suppress(struct.error, IndexError, UnicodeDecodeError):  # of a packet that is cut off or holds no error
                raise_mysql_exception(self._take_bytes(int.from_bytes(head[:3], "little")))
        raise _error("the server sent a malformed row")


def _error(text: str) -> Exception:
    from pymysql.err import OperationalError

    return OperationalError(_CR_SERVER_LOST, text)
