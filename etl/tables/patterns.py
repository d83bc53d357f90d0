"""The index of patterns: LIKE patterns and regular expressions, found by texts that they cannot do without.

All literals are scanned for together; a pattern whose literal does not decide is tried on the texts that hold one, and a
pattern without a literal on all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.tables.fitting import fitting
from etl.tables.literals import Literal, Literals, packed
from etl.tables.pattern_forms import ENGINES, Form, forms
from etl.tables.sections import Sections

log = logging.getLogger("sluice.tables")
_NONE = np.int32((1 << 31) - 1)


@dataclass
class GatheredPatterns:
    """The patterns of a table while it is read."""

    match: str
    missing: int = 0
    """Rows without a pattern, or with a text that is none; they are left out."""
    _forms: list[Form] = field(default_factory=list)
    _wrong: list[str] = field(default_factory=list)

    def add(self, columns: Sequence[pa.Array]) -> Any | None:
        """The patterns (one column of text) of further rows. Returns which of them have one (bool[n]), None for all."""
        patterns = columns[0].to_pylist()  # each is taken apart by itself: there is no way around Python
        read = [one or ValueError() for one in patterns]
        found = iter(forms(self.match, [one for one in read if isinstance(one, str)]))
        all_ = [next(found) if isinstance(one, str) else one for one in read]
        self._forms += [one for one in all_ if isinstance(one, Form)]
        self._wrong += [str(one) for one in all_ if isinstance(one, ValueError) and one.args]
        valid = np.array([isinstance(one, Form) for one in all_], np.bool_)
        self.missing += len(valid) - int(valid.sum())
        return None if valid.all() else valid

    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]:
        """The arrays of the file; which rows it holds (int64[m]: all); and 0, for each counts by itself."""
        self._tell()
        tests = [one.test.encode("utf-8", "surrogatepass") for one in self._forms]
        literals = [Literal(n, *literal) for n, one in enumerate(self._forms) for literal in one.literals]
        arrays = {
            "engines": np.array([ENGINES.index(one.engine) for one in self._forms], np.uint8),
            "tests": np.frombuffer(b"".join(tests), np.uint8),
            "test_ends": np.append(0, np.cumsum([len(test) for test in tests], dtype=np.int64)),
            "always": np.array([n for n, one in enumerate(self._forms) if not one.literals], np.int64),
        }
        return arrays | packed(literals), np.arange(len(self._forms)), 0

    def _tell(self) -> None:
        always = sum(not one.literals for one in self._forms)
        if always:
            have = "has" if always == 1 else "have"
            text = "%d of %d patterns %s no text of two letters that they cannot do without: each is tried on every event"
            log.warning(text, always, len(self._forms), have)
        if self._wrong:
            wrong = (
                "1 pattern cannot be read and is"
                if len(self._wrong) == 1
                else f"{len(self._wrong):,} patterns cannot be read and are"
            )
            log.warning("%s left out; the first: %s", wrong, self._wrong[0])


class Patterns:
    """The index of a mapped table of patterns."""

    def __init__(self, sections: Sections) -> None:
        self._literals = Literals(sections)
        self._engines, self._tests = sections.numbers("engines"), sections.numbers("tests")
        self._ends, self._always = sections.numbers("test_ends"), sections.numbers("always")

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the first pattern that each text (one column) fits, -1 where it fits none."""
        texts = columns[0]
        located = Texts.of(texts)
        best = np.full(len(texts), _NONE, np.int32)
        for pairs in self._literals.find(located, best, False):
            for pattern, rows in _grouped(pairs):
                self._improve(best, pattern, texts, rows)
        present = np.flatnonzero(located.length >= 0)
        for pattern in self._always.tolist():
            self._improve(best, pattern, texts, present)
        return np.where(best == _NONE, -1, best.astype(np.int64))

    def every(self, columns: Sequence[pa.Array]) -> tuple[Any, Any]:
        """How many patterns each text fits (int64[n]), and all of those, one text's behind the other's."""
        texts = columns[0]
        located = Texts.of(texts)
        found = list(self._all(texts, located))
        rows, patterns = (
            np.concatenate([np.empty(0, np.int64), *some]) for some in (zip(*found, strict=True) if found else ((), ()))
        )
        pairs = np.unique(rows * len(self._engines) + patterns)  # by text, then in the order of the table; a pair may come twice
        rows, patterns = np.divmod(pairs, max(1, len(self._engines)))
        return np.bincount(rows, minlength=len(texts)), patterns

    def _all(self, texts: pa.Array, located: Texts) -> Iterator[tuple[Any, Any]]:
        for pairs in self._literals.find(located, np.empty(0, np.int32), True):
            decided = self._engines[pairs[0]] == 0
            yield pairs[1, decided].astype(np.int64), pairs[0, decided].astype(np.int64)
            for pattern, rows in _grouped(pairs[:, ~decided]):
                yield self._fitting(pattern, texts, rows)
        present = np.flatnonzero(located.length >= 0)
        for pattern in self._always.tolist():
            yield self._fitting(pattern, texts, present)

    def _fitting(self, pattern: int, texts: pa.Array, rows: Any) -> tuple[Any, Any]:
        fit = fitting(ENGINES[self._engines[pattern]], self._test(pattern), texts, rows)
        return fit, np.full(len(fit), pattern, np.int64)

    def _improve(self, best: Any, pattern: int, texts: pa.Array, rows: Any) -> None:
        """Try a pattern on the rows that have none in front of it."""
        rows = rows[best[rows] > pattern]
        if len(rows):
            best[self._fitting(pattern, texts, rows)[0]] = pattern

    def _test(self, pattern: int) -> str:
        data = self._tests[self._ends[pattern] : self._ends[pattern + 1]]
        return bytes(data).decode("utf-8", "surrogatepass")


def _grouped(pairs: Any) -> Iterator[tuple[int, Any]]:
    """The texts of each pattern (int64[m], each once), patterns in their order."""
    if not pairs.shape[1]:
        return
    order = np.lexsort((pairs[1], pairs[0]))
    patterns, texts = pairs[0, order], pairs[1, order].astype(np.int64)
    again = (patterns[1:] == patterns[:-1]) & (texts[1:] == texts[:-1])
    patterns, texts = patterns[np.append(True, ~again)], texts[np.append(True, ~again)]
    bounds = np.append(np.flatnonzero(np.append(True, patterns[1:] != patterns[:-1])), len(patterns))
    for begin, end in pairwise(bounds.tolist()):
        yield int(patterns[begin]), texts[begin:end]
