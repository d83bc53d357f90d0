"""Which dead letters are settled: those that were replayed or dropped. Letters are named by file and line.

The record is ``dead/settled.json`` in the state folder. A replay takes its letters in the same moment in which its folder
appears, so that a letter is replayed once, whatever was killed in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from etl.running.dead_letters.letter_files import LetterFile
from etl.spark.state.json_files import read_json, write_json

Ranges: TypeAlias = Sequence[Sequence[int]]
"""Lines from one number to another, exclusive, in ascending order."""


@dataclass
class SettledLetters:
    """The record of one state folder."""

    folder: Path
    """``dead`` in the state folder."""
    _files: dict[tuple[str, str], Ranges] = field(default_factory=dict)
    """File and its head → its settled lines."""

    @staticmethod
    def load(folder: Path) -> SettledLetters:
        """Read the record; nothing is settled where there is none. Raises ComponentError if it is damaged."""
        replays = (one for one in sorted(folder.glob("replays/*/taken.json")) if not one.parent.suffix)  # no draft of a replay
        found: dict[tuple[str, str], Ranges] = {}
        for path in (folder / "settled.json", *replays):
            for name, one in (read_json(path, _is_valid) or {}).items():
                key = name, one["head"]
                found[key] = _unite([*found.get(key, ()), *one["lines"]])
        return SettledLetters(folder, found)

    def open(self, file: LetterFile) -> Iterator[pa.RecordBatch]:
        """The letters of a file that are not settled."""
        settled = self._lines(file)
        for batch in file.batches():
            lines = batch.column("line").to_numpy()
            yield batch.filter(pa.array(~_contains(settled, lines)))

    def count(self, file: LetterFile) -> int:
        """How many letters of a file are settled."""
        return sum(end - start for start, end in self._lines(file))

    def drop(self, files: Sequence[LetterFile], lines: Mapping[str, Iterable[int]]) -> None:
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


def lines_by_file(batches: Iterable[pa.RecordBatch]) -> dict[str, list[int]]:
    """The lines of letters by the name of their file."""
    found: dict[str, list[int]] = {}
    for batch in batches:
        for file, line in zip(batch.column("file").to_pylist(), batch.column("line").to_pylist(), strict=True):
            found.setdefault(file, []).append(line)
    return found


def to_record(files: Sequence[LetterFile], lines: Mapping[str, Iterable[int]]) -> dict[str, dict[str, Any]]:
    """The lines of files as a record: file → head and ranges."""
    return {
        file.name: {"head": file.head(), "lines": _unite([line, line + 1] for line in lines[file.name])}
        for file in files
        if file.name in lines
    }


def _unite(ranges: Iterable[Sequence[int]]) -> list[list[int]]:
    """Ranges in ascending order, those that touch as one."""
    found: list[list[int]] = []
    for start, end in sorted(map(tuple, ranges)):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


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
