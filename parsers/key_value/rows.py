"""Columns of texts → the pairs in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from parsers.common.escapes import JSON, QUOTES
from parsers.common.failures import Failures
from parsers.key_value.kernel import (
    ALONE,
    BLANK,
    BRACKET,
    ESCAPE,
    FEW,
    FLAG,
    IGNORE,
    NO_TEXT,
    PAIR,
    QUOTE,
    REJECT,
    VALUE,
    Rules,
    cut_pairs,
)
from parsers.key_value.nested import nested
from parsers.pairs.pairs import Pairs
from parsers.pairs.room import Room
from parsers.pairs.separators import STEP_NONE

if TYPE_CHECKING:
    from parsers.key_value.parser import KeyValue

_ALONE = {"flag": FLAG, "ignore": IGNORE, "reject": REJECT}


def reading(options: KeyValue) -> Callable[[pa.Array], tuple[Pairs, Failures]]:
    """Compile how pairs are written. Raises PatternError."""
    compiled = _Compiled(options)
    reasons = _reasons(options)
    meanings, unicode = (JSON, True) if options.escapes == "json" else (QUOTES, False)

    def cut(texts: Texts, rules: Rules) -> tuple[Pairs, Room]:
        room = Room.of(texts)
        cut_pairs(texts.address, texts.length, rules, room.found(), room.bounds, room.outcomes)
        return room.pairs(texts, meanings, unicode), room

    def read(column: pa.Array) -> tuple[Pairs, Failures]:
        pairs, room = cut(Texts.of(column), compiled.rules)
        if options.nested:
            pairs = nested(pairs, lambda values: cut(values, compiled.inner)[0])
        return pairs, room.failures(reasons)

    return read


def _tables(options: KeyValue) -> tuple[Any, ...]:
    """What each byte may be, what closes it, and the two kinds of separators."""
    pairs, values = (np.array(options.separators(option), np.uint32) for option in ("pair", "value"))
    kinds, closers = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    kinds[pairs[0] != STEP_NONE] |= PAIR
    kinds[values[0] != STEP_NONE] |= VALUE
    kinds[ord(" ")] |= BLANK
    if not kinds[ord("\t")] & PAIR:
        kinds[ord("\t")] |= BLANK
    for kind, several in ((QUOTE, [quote * 2 for quote in options.quotes]), (BRACKET, options.brackets)):
        for both in several:
            kinds[ord(both[0])] |= kind
            closers[ord(both[0])] = ord(both[1])
    if options.escapes == "blanks":
        kinds[ord("\\")] |= ESCAPE
    return kinds, closers, pairs, values


class _Compiled:
    """Rules, and the tables whose addresses are in them."""

    def __init__(self, options: KeyValue) -> None:
        self.tables = _tables(options)
        kinds, closers, pairs, values = (np.uint64(table.ctypes.data) for table in self.tables)
        self.rules = Rules(
            kinds,
            closers,
            pairs,
            values,
            lenient=options.whitespace == "lenient",
            escapes=options.escapes in ("quotes", "json"),
            keeps_empty=options.keep_empty,
            alone=_ALONE[options.alone],
            fewest=options.min_pairs,
        )
        self.inner = self.rules._replace(fewest=1)
        """For values, which are pairs only when one of these has a value itself."""


def _reasons(options: KeyValue) -> dict[int, str]:
    few = "has no pair of key and value" if options.min_pairs == 1 else f"has fewer than {options.min_pairs} pairs"
    return {int(NO_TEXT): "is null", int(ALONE): "has a key without a value", int(FEW): few}
