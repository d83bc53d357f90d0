"""The index of patterns: LIKE patterns and regular expressions, found by literals that every match contains.

One scan finds the literals of all patterns. A pattern that needs more than its literal is then tested on the texts that contain
it; a pattern without a literal is tested on all texts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, materialize_array, take_rows
from etl.rules.search.backtracking import search_texts
from etl.tables.literal_index import LiteralIndex, PatternLiteral, literal_sections
from etl.tables.pattern_forms import ENGINES, PatternForm, pattern_forms
from etl.tables.section_file import SectionFile

log = logging.getLogger("sluice.tables")
_NONE = np.int32((1 << 31) - 1)


@dataclass
class PatternCollector:
    """Collects the patterns of a table while it is read."""

    match: str
    missing: int = 0
    """Rows without a valid pattern, which are left out."""
    _forms: list[PatternForm] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)

    def add(self, columns: Sequence[pa.Array]) -> Any | None:
        """Add the patterns (one text column) of further rows. Returns which rows have one (bool[n]), None for all."""
        patterns = columns[0].to_pylist()  # patterns are parsed one by one, in Python
        read = [one or ValueError() for one in patterns]
        found = iter(pattern_forms(self.match, [one for one in read if isinstance(one, str)]))
        all_ = [next(found) if isinstance(one, str) else one for one in read]
        self._forms += [one for one in all_ if isinstance(one, PatternForm)]
        self._errors += [str(one) for one in all_ if isinstance(one, ValueError) and one.args]
        valid = np.array([isinstance(one, PatternForm) for one in all_], np.bool_)
        self.missing += len(valid) - int(valid.sum())
        return None if valid.all() else valid

    def sections(self, several: bool) -> tuple[dict[str, Any], Any, int]:
        """The arrays of the file; which rows it holds (int64[m]: all); and 0, for each counts by itself."""
        self._log_findings()
        tests = [one.test.encode("utf-8", "surrogatepass") for one in self._forms]
        literals = [PatternLiteral(n, *literal) for n, one in enumerate(self._forms) for literal in one.literals]
        arrays = {
            "engines": np.array([ENGINES.index(one.engine) for one in self._forms], np.uint8),
            "tests": np.frombuffer(b"".join(tests), np.uint8),
            "test_ends": np.append(0, np.cumsum([len(test) for test in tests], dtype=np.int64)),
            "always": np.array([n for n, one in enumerate(self._forms) if not one.literals], np.int64),
        }
        return arrays | literal_sections(literals), np.arange(len(self._forms)), 0

    def _log_findings(self) -> None:
        always = sum(not one.literals for one in self._forms)
        if always:
            have = "has" if always == 1 else "have"
            text = "%d of %d patterns %s no literal of two letters that every match contains: each is tested on every event"
            log.warning(text, always, len(self._forms), have)
        if self._errors:
            wrong = (
                "1 pattern cannot be read and is"
                if len(self._errors) == 1
                else f"{len(self._errors):,} patterns cannot be read and are"
            )
            log.warning("%s left out; the first: %s", wrong, self._errors[0])


class PatternIndex:
    """Finds the patterns of a mapped table that match texts."""

    def __init__(self, sections: SectionFile) -> None:
        self._literals = LiteralIndex(sections)
        self._engines, self._tests = sections.numbers("engines"), sections.numbers("tests")
        self._ends, self._always = sections.numbers("test_ends"), sections.numbers("always")

    def find(self, columns: Sequence[pa.Array]) -> Any:
        """int64[n]: the first pattern that matches each text (one column), -1 if none does."""
        texts = columns[0]
        located = Texts.of(texts)
        best = np.full(len(texts), _NONE, np.int32)
        for pairs in self._literals.find_first(located, best):
            for pattern, rows in _group_by_pattern(pairs):
                self._improve(best, pattern, texts, rows)
        present = np.flatnonzero(located.length >= 0)
        for pattern in self._always.tolist():
            self._improve(best, pattern, texts, present)
        return np.where(best == _NONE, -1, best.astype(np.int64))

    def find_all(self, columns: Sequence[pa.Array]) -> tuple[Any, Any]:
        """The number of patterns that match each text (int64[n]), and these patterns, text after text."""
        texts = columns[0]
        located = Texts.of(texts)
        found = list(self._candidates(texts, located))
        rows, patterns = (
            np.concatenate([np.empty(0, np.int64), *some]) for some in (zip(*found, strict=True) if found else ((), ()))
        )
        pairs = np.unique(rows * len(self._engines) + patterns)  # by text, then in the order of the table; a pair may come twice
        rows, patterns = np.divmod(pairs, max(1, len(self._engines)))
        return np.bincount(rows, minlength=len(texts)), patterns

    def _candidates(self, texts: pa.Array, located: Texts) -> Iterator[tuple[Any, Any]]:
        for pairs in self._literals.find_all(located):
            decided = self._engines[pairs[0]] == 0
            yield pairs[1, decided].astype(np.int64), pairs[0, decided].astype(np.int64)
            for pattern, rows in _group_by_pattern(pairs[:, ~decided]):
                yield self._matches(pattern, texts, rows)
        present = np.flatnonzero(located.length >= 0)
        for pattern in self._always.tolist():
            yield self._matches(pattern, texts, present)

    def _matches(self, pattern: int, texts: pa.Array, rows: Any) -> tuple[Any, Any]:
        fit = _find_matching_rows(ENGINES[self._engines[pattern]], self._test(pattern), texts, rows)
        return fit, np.full(len(fit), pattern, np.int64)

    def _improve(self, best: Any, pattern: int, texts: pa.Array, rows: Any) -> None:
        """Test a pattern on the rows that no earlier pattern matches."""
        rows = rows[best[rows] > pattern]
        if len(rows):
            best[self._matches(pattern, texts, rows)[0]] = pattern

    def _test(self, pattern: int) -> str:
        data = self._tests[self._ends[pattern] : self._ends[pattern + 1]]
        return bytes(data).decode("utf-8", "surrogatepass")


def _group_by_pattern(pairs: Any) -> Iterator[tuple[int, Any]]:
    """Yield each pattern, in order, with its texts (int64[m], each once)."""
    if not pairs.shape[1]:
        return
    order = np.lexsort((pairs[1], pairs[0]))
    patterns, texts = pairs[0, order], pairs[1, order].astype(np.int64)
    again = (patterns[1:] == patterns[:-1]) & (texts[1:] == texts[:-1])
    patterns, texts = patterns[np.append(True, ~again)], texts[np.append(True, ~again)]
    bounds = np.append(np.flatnonzero(np.append(True, patterns[1:] != patterns[:-1])), len(patterns))
    for begin, end in pairwise(bounds.tolist()):
        yield int(patterns[begin]), texts[begin:end]


# ── Tests of texts against one pattern ─────────────────────────────────────────────────────────────


def _find_matching_rows(engine: str, pattern: str, texts: pa.Array, rows: Any) -> Any:
    """Return those of ``rows`` (int64[m]) whose text matches the pattern."""
    return rows[_MATCHERS[engine](pattern, materialize_array(texts if len(rows) == len(texts) else take_rows(texts, rows)))]


def _match_re2(pattern: str, texts: pa.Array) -> Any:
    """Match with RE2, in time linear in the length of the texts; it compiles the pattern at each call (20 to 50 µs)."""
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(zero_copy_only=False)


def _match_regex(pattern: str, texts: pa.Array) -> Any:
    """Match patterns with look-around or back-references: by backtracking, with a Python call for each text."""
    values = (text.as_py() for text in texts.cast(pa.large_binary()))
    decoded = (None if value is None else value.decode("utf-8", "replace") for value in values)
    return np.fromiter(search_texts(pattern, decoded, log), np.bool_, len(texts))


_MATCHERS: dict[str, Callable[[str, pa.Array], Any]] = {"re2": _match_re2, "regex": _match_regex}
