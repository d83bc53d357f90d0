"""Files as streams of text bytes, compressed or not."""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType
from typing import IO, Any, Literal

Codec = Literal["gzip", "zstd", "bz2"]

CODECS: dict[str, Codec] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""File name endings that mean a compressed file."""

_CHUNK = 1 << 20
_LADDER = (4096, 1)


def codec_of(path: str) -> Codec | None:
    """The compression that a file's name tells."""
    return CODECS.get(os.path.splitext(path)[1])


class Stream:
    """An open file read forward in decompressed bytes; `CorruptError` where compressed data is broken."""

    def __init__(self, path: str, codec: Codec | None = None) -> None:
        self.path, self.codec = path, codec
        self.file: IO[bytes] = open_regular(path)
        self.at = 0
        self._broken = ""
        if codec is not None:
            self._restart()

    @property
    def inode(self) -> tuple[int, int]:
        """Device and inode of the open file, whatever its name is by now."""
        status = os.fstat(self.file.fileno())
        return status.st_dev, status.st_ino

    def readinto(self, view: memoryview) -> int:
        """Fill a part of the view; 0 at the end. What stands before a break in compressed data is read to the byte."""
        if self.codec is None:
            got: int = self.file.readinto(view)  # type: ignore[attr-defined]
        else:
            got = self._decompress(view)
        self.at += got
        return got

    def skip(self, size: int) -> None:
        """Go forward or back; back in compressed data means from the beginning again."""
        if self.codec is None:
            self.at = self.file.seek(self.at + size)
            return
        if size < 0:
            size, self.at = self.at + size, 0
            self._restart()
        view = memoryview(bytearray(min(size, _CHUNK)))
        while size > 0:
            got = self.readinto(view[: min(size, len(view))])
            if not got:
                return
            size -= got

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the end or before a break, which the next read then meets."""
        view, filled = memoryview(bytearray(size)), 0
        try:
            while filled < size and (got := self.readinto(view[filled:])):
                filled += got
        except CorruptError:
            if not filled:
                raise
        return bytes(view[:filled])

    def _restart(self) -> None:
        """Decompress from the beginning, on a handle of its own, for Arrow closes what it is given."""
        import pyarrow as pa

        self.file.seek(0)
        handle = open(os.dup(self.file.fileno()), "rb", 0)  # noqa: SIM115
        self._data: Any = pa.CompressedInputStream(handle, self.codec)

    def _decompress(self, view: memoryview) -> int:
        size = min(len(view), _CHUNK)
        try:
            data = self._salvaged(size) if self._broken else self._data.read(size)
        except OSError as error:
            self._broken = str(error)
            data = self._salvaged(size)
        if self._broken and not data:
            raise CorruptError(f"{self.path}: {self.codec} data is broken after {self.at:,} bytes of text: {self._broken}")
        view[: len(data)] = data
        return len(data)

    def _salvaged(self, size: int) -> bytes:
        """Bytes that a failed read held back: read again in small steps up to the break."""
        found = b""
        for step in _LADDER:
            self._restart()
            try:
                self._forward(self.at + len(found))
                while len(found) < size and (data := self._data.read(min(step, size - len(found)))):
                    found += data
            except OSError:
                continue
        return found

    def _forward(self, size: int) -> None:
        while size > 0:
            size -= len(self._data.read(min(size, _CHUNK)))

    def close(self) -> None:
        """Let the file go."""
        if self.codec is not None:
            self._data.close()
        self.file.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_regular(path: str) -> IO[bytes]:
    """A regular file, unbuffered. Raises NotRegularError for anything else, without waiting for a pipe's other end."""
    try:
        file = open(path, "rb", 0, opener=_without_waiting)  # noqa: SIM115 — the caller closes it
    except IsADirectoryError:
        raise NotRegularError(errno.EISDIR, "it is no regular file", path) from None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotRegularError(errno.EINVAL, "it is no regular file", path)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


class NotRegularError(OSError):
    """A folder, a pipe, a socket or a device stands where a file was expected."""


class CorruptError(Exception):
    """Compressed data cannot be read further; the message says where."""
