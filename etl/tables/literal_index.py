"""The literals of a table's patterns; all are searched for in one scan a batch.

The tables of the search are arrays of the table's file, so that workers map them: nothing is built in a worker, and their memory
is shared. There are no texts yet when a file is built, so the rarest grams are those that the fewest literals have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from etl.columns.texts import Texts
from etl.rules.search.gram_choice import choose_grams
from etl.rules.search.literal_arrays import LiteralArrays, LiteralBytes
from etl.rules.search.literal_database import LiteralSearch
from etl.rules.search.literal_tables import LiteralTables, build_tables
from etl.rules.search.literals import ANYWHERE, AT_END, AT_START, FOLD, WHOLE
from etl.tables.section_file import SectionFile

MUST_START, MUST_END, TESTED, FOLDED = (1 << bit for bit in range(4))
"""Traits of a literal: must be at the start or end of the text, needs a further test, ignores the case of ASCII letters."""

_KINDS = np.array([ANYWHERE, AT_START, AT_END, WHOLE], np.uint8)
"""By the traits `MUST_START` and `MUST_END`."""


class PatternLiteral(NamedTuple):
    """A text to search for, and the number of its pattern."""

    pattern: int
    text: str
    traits: int


def literal_sections(literals: Sequence[PatternLiteral]) -> dict[str, Any]:
    """The arrays for the file; no literal may be empty."""
    texts = [_bytes(one) for one in literals]
    traits = np.array([one.traits for one in literals], np.uint8)
    patterns = np.array([one.pattern for one in literals], np.int32)
    arrays = LiteralArrays(
        np.frombuffer(b"".join(texts), np.uint8),
        np.array([len(text) for text in texts], np.int64),
        _KINDS[traits & (MUST_START | MUST_END)],
        (traits & FOLDED) == 0,
        patterns.astype(np.int64),
    )
    tables = build_tables(arrays, LiteralBytes.of(arrays), choose_grams(arrays))
    return {"literal_traits": traits, "literal_patterns": patterns, **dict(tables.sections())}


def _bytes(literal: PatternLiteral) -> bytes:
    data = literal.text.encode("utf-8", "surrogatepass")
    return data.translate(FOLD) if literal.traits & FOLDED else data


class LiteralIndex:
    """The literals of a mapped table."""

    def __init__(self, sections: SectionFile) -> None:
        self._patterns, self._traits = sections.numbers("literal_patterns"), sections.numbers("literal_traits")
        self._search = LiteralSearch(LiteralTables.read(sections.numbers))

    def find_all(self, texts: Texts) -> Iterator[Any]:
        """Yield pairs of pattern and text (int32[2, m]): the text contains a literal of the pattern. A pair may come twice."""
        for literals, rows in self._find(texts):
            yield np.stack([self._patterns[literals], rows])

    def find_first(self, texts: Texts, best: Any) -> Iterator[Any]:
        """Lower ``best`` (int32[n]) to each text's first pattern that needs no test, and yield pairs (int32[2, m]) of earlier
        patterns that need one."""
        for literals, rows in self._find(texts):
            patterns, tested = self._patterns[literals], self._traits[literals] & TESTED != 0
            np.minimum.at(best, rows[~tested], patterns[~tested])
            earlier = tested & (patterns < best[rows])
            yield np.stack([patterns[earlier], rows[earlier]])

    def _find(self, texts: Texts) -> Iterator[tuple[Any, Any]]:
        if len(self._patterns):
            for found, count in self._search.find(texts):
                yield found[0, :count], found[1, :count].copy()
