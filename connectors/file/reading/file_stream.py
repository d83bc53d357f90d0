"""Reads a regular file as a stream of bytes, decompressed if its name ends in the extension of a codec."""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType
from typing import IO, Any, Literal

Codec = Literal["gzip", "zstd", "bz2"]

CODECS: dict[str, Codec] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Extensions of compressed files."""

_CHUNK_BYTES = 1 << 20
"""Maximum number of bytes that are decompressed at once."""
_SALVAGE_STEPS = (4096, 1)
"""Sizes of reads in bytes, with which the bytes before corrupt data are searched: fast first, then exact."""


def codec_of(path: str) -> Codec | None:
    """Return the compression of a file by its name."""
    return CODECS.get(os.path.splitext(path)[1])


class FileStream:
    """An open file that is read forward in decompressed bytes; raises `CorruptError` if compressed data is corrupt."""

    def __init__(self, path: str, codec: Codec | None = None) -> None:
        self.path, self.codec = path, codec
        self.file: IO[bytes] = self._open()
        self.at = 0
        """Position in the decompressed bytes."""
        self._broken = ""
        """Why the data cannot be decompressed further; empty while it can."""
        if codec is not None:
            self._restart()

    @property
    def inode(self) -> tuple[int, int]:
        """Device and inode of the open file, whatever its name is now."""
        status = os.fstat(self.file.fileno())
        return status.st_dev, status.st_ino

    def readinto(self, view: memoryview) -> int:
        """Read into the view; returns the number of bytes, 0 at the end. Raises `CorruptError` after the last intact byte."""
        if self.codec is None:
            got: int = self.file.readinto(view)  # type: ignore[attr-defined]
        else:
            got = self._decompress(view)
        self.at += got
        return got

    def skip(self, size: int) -> None:
        """Move by ``size`` bytes, back if it is negative; to move back, compressed data is read again from the beginning."""
        if self.codec is None:
            self.at = self.file.seek(self.at + size)
            return
        if size < 0:
            size, self.at = self.at + size, 0
            self._restart()
        view = memoryview(bytearray(min(size, _CHUNK_BYTES)))
        while size > 0:
            got = self.readinto(view[: min(size, len(view))])
            if not got:
                return
            size -= got

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes; fewer only at the end, or before corrupt data: then the next call raises `CorruptError`."""
        view, filled = memoryview(bytearray(size)), 0
        try:
            while filled < size and (got := self.readinto(view[filled:])):
                filled += got
        except CorruptError:
            if not filled:
                raise
        return bytes(view[:filled])

    def _restart(self) -> None:
        """Decompress from the beginning, on a duplicate of the file handle, because Arrow closes the one it gets."""
        import pyarrow as pa

        self._data: Any = pa.CompressedInputStream(self._source(), self.codec)

    def _open(self) -> IO[bytes]:
        return open_regular(self.path)

    def _source(self) -> Any:
        """Return a duplicate handle of the file, at its beginning."""
        self.file.seek(0)
        return open(os.dup(self.file.fileno()), "rb", 0)

    def _decompress(self, view: memoryview) -> int:
        size = min(len(view), _CHUNK_BYTES)
        try:
            data = self._salvage(size) if self._broken else self._data.read(size)
        except OSError as error:
            self._broken = str(error)
            data = self._salvage(size)
        if self._broken and not data:
            raise CorruptError(f"{self.path}: {self.codec} data is broken after {self.at:,} bytes of text: {self._broken}")
        view[: len(data)] = data
        return len(data)

    def _salvage(self, size: int) -> bytes:
        """Return the bytes before corrupt data that a failed read did not return, by reading in small steps."""
        found = b""
        for step in _SALVAGE_STEPS:
            self._restart()
            try:
                self._skip_text(self.at + len(found))
                while len(found) < size and (data := self._data.read(min(step, size - len(found)))):
                    found += data
            except OSError:
                continue
        return found

    def _skip_text(self, size: int) -> None:
        while size > 0:
            size -= len(self._data.read(min(size, _CHUNK_BYTES)))

    def close(self) -> None:
        """Close the file."""
        if self.codec is not None:
            self._data.close()
        self.file.close()

    def __enter__(self) -> FileStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_regular(path: str) -> IO[bytes]:
    """Open a regular file, unbuffered. Raises NotRegularError for anything else, without blocking on a pipe."""
    try:
        file = open(path, "rb", 0, opener=_open_nonblocking)  # noqa: SIM115 — the caller closes it
    except IsADirectoryError:
        raise NotRegularError(errno.EISDIR, "it is not a regular file", path) from None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotRegularError(errno.EINVAL, "it is not a regular file", path)


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


class NotRegularError(OSError):
    """The path is a folder, a pipe, a socket or a device."""


class CorruptError(Exception):
    """Compressed data is corrupt; the message gives the number of intact bytes before it."""
