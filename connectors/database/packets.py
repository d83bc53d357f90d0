"""The rows of a query on MySQL as they come out of the socket: columns of bytes, without a Python value for any of them.

PyMySQL sends the query and reads what the columns are; from there on a kernel cuts the packets (`packets_kernel`). Memory:
`ROOM` bytes of packets, or one row where that is larger, and the columns that are made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.columns.texts import gathered

if TYPE_CHECKING:
    import numpy as np

ROOM = 4 << 20
"""Bytes of packets that become one batch."""

ROWS = 65_536
"""Most rows of a batch."""

_READ = 256 << 10
"""Bytes that are asked of the socket at a time."""

_LOST = 2013
"""The number that clients of MySQL give to a connection that was lost during a query."""


def columns(driver: Any, sql: str) -> Iterator[list[pa.Array]]:
    """Run a query over PyMySQL's connection → batches of its columns, each value the bytes that the server sent, as strings
    that may be none. Raises the driver's errors. The connection is of use afterwards only if all rows were taken."""
    from pymysql.cursors import SSCursor  # type: ignore[import-untyped]

    with driver.cursor(SSCursor) as cursor:
        cursor.execute(sql)
        try:
            yield from _Packets(driver, len(cursor.description)).batches()
        finally:  # else closing the cursor would look for the rows' end
            cursor._result.unbuffered_active = False


class _Packets:
    """The packets of a result, from the first row on."""

    def __init__(self, driver: Any, width: int) -> None:
        import numpy as np

        self._file, self._next = driver._rfile, driver._next_seq_id
        self._bytes: np.ndarray[Any, Any] = np.empty(ROOM, np.uint8)
        self._begin = self._end = 0
        """What of the bytes is there and not cut yet."""
        self._address, self._length = np.empty((width, ROWS), np.uint64), np.empty((width, ROWS), np.int64)

    def batches(self) -> Iterator[list[pa.Array]]:
        """All rows."""
        import numpy as np

        from connectors.database import packets_kernel as kernel

        rows, state = 0, kernel.MORE
        while True:
            at = np.uint64(self._bytes.ctypes.data)
            state, self._begin, self._next, rows = kernel.cut_rows(
                at, self._begin, self._end, self._next, rows, self._address, self._length
            )
            if rows and (state != kernel.MORE or rows == ROWS or self._end == len(self._bytes)):
                yield self._columns(rows)
                rows = 0
            if state == kernel.END:
                return
            if state == kernel.LARGE:
                yield self._large()
            elif state != kernel.MORE:
                self._fail(state)
            elif rows < ROWS:
                self._receive(keep=rows > 0)

    def _columns(self, rows: int) -> list[pa.Array]:
        """The rows that were cut: copied, for other bytes will lie there."""
        return [gathered(address[:rows], length[:rows]) for address, length in zip(self._address, self._length, strict=True)]

    def _receive(self, keep: bool) -> None:
        """More bytes, as many as are there; what is cut already makes room unless its rows are kept."""
        if not keep and self._begin:
            left = self._end - self._begin
            self._bytes[:left] = self._bytes[self._begin : self._end].copy()
            self._begin, self._end = 0, left
        if self._end == len(self._bytes):  # a row that is larger
            self._bytes.resize(2 * len(self._bytes), refcheck=False)
        self._end += self._read(self._bytes[self._end :].data)

    def _read(self, room: memoryview) -> int:
        found = self._file.read1(min(len(room), _READ))  # readinto1 waits for more than is buffered
        if not found:
            raise _error("Lost connection to MySQL server during query")
        room[: len(found)] = found
        return len(found)

    def _exactly(self, size: int) -> bytes:
        """The next bytes."""
        taken = self._bytes[self._begin : min(self._begin + size, self._end)].tobytes()
        self._begin += len(taken)
        rest = bytearray(size - len(taken))
        at = 0
        while at < len(rest):
            at += self._read(memoryview(rest)[at:])
        return taken + bytes(rest)

    def _large(self) -> list[pa.Array]:
        """A row of several packets, as a batch."""
        import numpy as np

        from connectors.database import packets_kernel as kernel

        parts: list[bytes] = []
        while not parts or len(parts[-1]) == kernel.LARGEST:
            head = self._exactly(kernel.HEADER)
            if head[3] != self._next:
                self._fail(kernel.BROKEN)
            self._next = (self._next + 1) & 0xFF
            parts.append(self._exactly(int.from_bytes(head[:3], "little")))
        whole = np.frombuffer(b"".join(parts), np.uint8)
        if not kernel.cut_row(np.uint64(whole.ctypes.data), np.uint64(len(whole)), self._address, self._length):
            self._fail(kernel.BROKEN)
        return self._columns(1)

    def _fail(self, state: int) -> None:
        """Raise what the server says, or that it says nothing that can be read."""
        from pymysql.err import raise_mysql_exception  # type: ignore[import-untyped]

        from connectors.database import packets_kernel as kernel

        if state == kernel.REFUSED:
            head = self._exactly(kernel.HEADER)
            raise_mysql_exception(self._exactly(int.from_bytes(head[:3], "little")))
        raise _error("the server sent bytes that are no row")


def _error(text: str) -> Exception:
    from pymysql.err import OperationalError

    return OperationalError(_LOST, text)
