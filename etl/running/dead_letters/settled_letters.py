"""Which dead letters are settled: those that were replayed or dropped. Letters are named by file and line.

The record is ``dead/settled.json`` in the state folder. A replay takes its letters in the same moment in which its folder
appears, so that a letter is replayed once, whatever was killed in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.running.dead_letters.letter_files import LetterFile
from etl.spark.state.json_files import read_json, write_json

Ranges: TypeAlias = Sequence[Sequence[int]]
"""Lines from one number to another, exclusive, in ascending order."""

Lines: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers of lines, in any order."""


@dataclass
class SettledLetters:
    """The record of one state folder."""

    folder: Path
    """``dead`` in the state folder."""
    _files: dict[tuple[str, str], Ranges] = field(default_factory=dict)
    """File and its head → its settled lines."""

    @staticmethod
    def version(folder: Path) -> tuple[object, ...]:
        """What differs whenever `load` gives another record, read from the names and times of its files alone."""
        found = []
        for path in _record_files(folder):
            with suppress(FileNotFoundError):
                stat = path.stat()
                found.append((str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    @staticmethod
    def load(folder: Path) -> SettledLetters:
        """Read the record; nothing is settled where there is none. Raises ComponentError if it is damaged."""
        found: dict[tuple[str, str], Ranges] = {}
        for path in _record_files(folder):
            for name, one in (read_json(path, _is_valid) or {}).items():
                key = name, one["head"]
                found[key] = _unite([*found.get(key, ()), *one["lines"]])
        return SettledLetters(folder, found)

    def open(self, file: LetterFile) -> Iterator[pa.RecordBatch]:
        """The letters of a file that are not settled."""
        settled = self._lines(file)
        return (_without(settled, batch) for batch in file.batches())

    def keep_open(self, file: LetterFile, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Letters of a file without those that are settled."""
        return _without(self._lines(file), batch)

    def count(self, file: LetterFile) -> int:
        """How many letters of a file are settled."""
        return sum(end - start for start, end in self._lines(file))

    def drop(self, files: Sequence[LetterFile], lines: Mapping[str, Lines]) -> None:
        """Record letters as dropped."""
        for name, one in to_record(files, lines).items():
            key = name, one["head"]
            self._files[key] = _unite([*self._files.get(key, ()), *one["lines"]])
        heads = {file.name: file.head() for file in files}
        settled = {name: {"head": head, "lines": self._files.get((name, head), ())} for name, head in heads.items()}
        write_json(self.folder / "settled.json", settled)

    def _lines(self, file: LetterFile) -> Ranges:
        """The settled lines of a file, if it is still the one that they were in."""
        return self._files.get((file.name, file.head()), ())


def _record_files(folder: Path) -> list[Path]:
    """The files of the record, of which the first need not exist."""
    replays = (one for one in sorted(folder.glob("replays/*/taken.json")) if not one.parent.suffix)  # no draft of a replay
    return [folder / "settled.json", *replays]


def lines_by_file(batches: Iterable[pa.RecordBatch]) -> dict[str, Lines]:
    """The lines of letters by the name of their file. Memory: 8 bytes for each letter."""
    found: dict[str, list[Lines]] = {}
    for batch in batches:
        for file in batch.column("file").unique().to_pylist():
            lines = batch.filter(pc.equal(batch.column("file"), file)).column("line")
            found.setdefault(file, []).append(lines.to_numpy())
    return {file: np.concatenate(lines) for file, lines in found.items()}


def to_record(files: Sequence[LetterFile], lines: Mapping[str, Lines]) -> dict[str, dict[str, Any]]:
    """The lines of files as a record: file → head and ranges."""
    return {file.name: {"head": file.head(), "lines": _ranges(lines[file.name])} for file in files if file.name in lines}


def _ranges(lines: Lines) -> list[list[int]]:
    """Lines as ranges in ascending order."""
    ordered = np.unique(lines)
    gaps = np.flatnonzero(np.diff(ordered) > 1)
    starts, ends = np.append(ordered[:1], ordered[gaps + 1]), np.append(ordered[gaps], ordered[-1:]) + 1
    return np.stack([starts, ends], 1).tolist()


def _unite(ranges: Iterable[Sequence[int]]) -> list[list[int]]:
    """Ranges in ascending order, those that touch as one."""
    found: list[list[int]] = []
    for start, end in sorted(map(tuple, ranges)):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def _without(settled: Ranges, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.array(~_contains(settled, batch.column("line").to_numpy())))


def _contains(ranges: Ranges, lines: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whether each line is in one of the ranges."""
    if not ranges:
        return np.zeros(len(lines), bool)
    starts, ends = np.array(ranges, np.int64).T
    at = np.searchsorted(starts, lines, "right") - 1
    return (at >= 0) & (lines < ends[np.maximum(at, 0)])


def _is_valid(found: Any) -> bool:
    """Whether the value has a head and lines for each file."""
    return isinstance(found, dict) and all(isinstance(one, dict) and {"head", "lines"} <= set(one) for one in found.values())
