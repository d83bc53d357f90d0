"""An object as a stream of text bytes, decompressed if necessary."""

from __future__ import annotations

from io import BytesIO
from typing import IO, Any

from connectors.file.objects.object_path import store_of
from connectors.file.reading.file_stream import Codec, FileStream

WINDOW_BYTES = 8 << 20
"""Bytes of one request: with fewer a store is slow by its delay, with more a task holds more memory."""


class ObjectStream(FileStream):
    """Reads an object forward, in requests of `WINDOW_BYTES`. Raises OSError; FileNotFoundError if there is no such object."""

    def __init__(self, uri: str, codec: Codec | None = None) -> None:
        self.system, self.key = store_of(uri)
        self._window: memoryview = memoryview(b"")
        super().__init__(uri, codec)

    def _open(self) -> IO[bytes]:
        if self.codec is not None:
            return BytesIO()  # `_source` opens the object
        opened: IO[bytes] = self.system.open_input_file(self.key)
        return opened

    def _source(self) -> Any:
        return self.system.open_input_stream(self.key, compression=None, buffer_size=WINDOW_BYTES)

    def readinto(self, view: memoryview) -> int:
        """Fill a part of the view; returns 0 at the end."""
        if self.codec is not None:
            return super().readinto(view)
        if not self._window:
            self._window = memoryview(self.file.read(WINDOW_BYTES))
        got = min(len(view), len(self._window))
        view[:got] = self._window[:got]
        self._window = self._window[got:]
        self.at += got
        return got

    def skip(self, size: int) -> None:
        """Move forward or back."""
        if self.codec is None and 0 <= size <= len(self._window):
            self._window = self._window[size:]
            self.at += size
            return
        self._window = memoryview(b"")
        if self.codec is None:
            self.at = self.file.seek(self.at + size)
        else:
            super().skip(size)
