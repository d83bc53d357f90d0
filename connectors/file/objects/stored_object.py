"""An object of a store, as a listing or a notification names it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b


@dataclass(frozen=True)
class StoredObject:
    """Its path with the bucket, size in bytes, and time of writing in seconds since the epoch."""

    path: str
    size: int
    written: float

    @cached_property
    def key(self) -> str:
        """A hash that identifies this version of the object."""
        return blake2b(f"{self.path}\n{self.size}\n{self.written}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
