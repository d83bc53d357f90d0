"""A sample: the first lines of a file."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from etl.api import EtlError, Limit, Rejects, Source
from etl.catalogue import installed

MAX_BYTES = 2 << 20
MAX_LINES = 5_000


@dataclass(frozen=True)
class Sample:
    """The first lines of the file ``origin``; ``path`` is an uncompressed file with these lines."""

    origin: Path
    path: Path
    lines: tuple[str, ...]


@contextmanager
def open_sample(origin: Path, max_lines: int = MAX_LINES) -> Iterator[Sample]:
    """Read the first lines of a file, compressed or not; a context manager. Raises EtlError if there are none."""
    lines = tuple(_read_lines(origin, max_lines))
    if not lines:
        raise EtlError(f"{origin} has no lines")
    with tempfile.TemporaryDirectory(prefix="etl-sample-") as folder:
        yield _write_plain_file(origin, Path(folder) / "sample.log", lines)


def _write_plain_file(origin: Path, path: Path, lines: tuple[str, ...]) -> Sample:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", "replace")
    return Sample(origin, path, lines)


def _read_lines(origin: Path, max_lines: int) -> Iterator[str]:
    if origin.is_dir():
        raise EtlError(f"{str(origin)!r} is a folder: name a file")
    if not origin.is_file():
        raise EtlError(f"there is no file {str(origin)!r}")
    reader = installed().families["source"]["file"].model_validate({"path": glob.escape(str(origin))})
    assert isinstance(reader, Source)
    start = reader.start()
    end = reader.latest(start, Limit(MAX_BYTES, None, bounded=True))
    for split in reader.splits(start, end, 1):
        for found in reader.read(split):
            batch: pa.RecordBatch = found.events if isinstance(found, Rejects) else found
            texts = batch.slice(0, max_lines).column("message").to_pylist()
            yield from texts
            max_lines -= len(texts)
            if max_lines <= 0:
                return
