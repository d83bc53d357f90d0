"""Columns of texts → their pairs, and the pairs in the values of pairs (``a=(b=1 c=2)`` is ``a.b=1 a.c=2``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, materialize_array
from parsers.common.escapes import JSON_ESCAPES, QUOTE_ESCAPES
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
    PairSyntax,
    cut_pairs,
)
from parsers.key_value.transforms import valid_texts
from parsers.pairs.pair_buffer import PairBuffer
from parsers.pairs.pair_columns import Pairs
from parsers.pairs.separators import STEP_NONE
from parsers.pairs.value_columns import make_text_column

if TYPE_CHECKING:
    from parsers.key_value.parser import KeyValue

Array = np.ndarray[Any, Any]

MAX_LEVELS = 5
"""Levels of values inside values that are read as pairs."""

_ALONE = {"flag": FLAG, "ignore": IGNORE, "reject": REJECT}


def compile_reader(options: KeyValue) -> Callable[[pa.Array], tuple[Pairs, Failures]]:
    """A function of a column: its pairs, and the rows that fail. Raises PatternError."""
    compiled = _Compiled(options)
    reasons = _reasons(options)
    meanings, unicode = (JSON_ESCAPES, True) if options.escapes == "json" else (QUOTE_ESCAPES, False)

    def cut(texts: Texts, syntax: PairSyntax) -> tuple[Pairs, PairBuffer]:
        buffer = PairBuffer.of(texts)
        cut_pairs(texts.address, texts.length, syntax, buffer.addresses(), buffer.bounds, buffer.outcomes)
        return buffer.pairs(texts, meanings, unicode), buffer

    def read(column: pa.Array) -> tuple[Pairs, Failures]:
        pairs, buffer = cut(Texts.of(column), compiled.syntax)
        if options.nested:
            pairs = _read_values(pairs, lambda values: cut(values, compiled.inner)[0])
        return pairs, buffer.failures(reasons)

    return read


def _tables(options: KeyValue) -> tuple[Any, ...]:
    """The kinds of each byte, the byte that closes it, and the separators of pairs, and of key and value."""
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
    """The syntax, and the tables whose addresses are in it."""

    def __init__(self, options: KeyValue) -> None:
        self.tables = _tables(options)
        kinds, closers, pairs, values = (np.uint64(table.ctypes.data) for table in self.tables)
        self.syntax = PairSyntax(
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
        self.inner = self.syntax._replace(fewest=1)
        """For values, which are pairs only when one of these has a value."""


def _reasons(options: KeyValue) -> dict[int, str]:
    few = "has no pair of key and value" if options.min_pairs == 1 else f"has fewer than {options.min_pairs} pairs"
    return {int(NO_TEXT): "is null", int(ALONE): "has a key without a value", int(FEW): few}


# ── Values that are pairs ─────────────────────────────────────────────────────────────────────────


def _read_values(pairs: Pairs, cut: Callable[[Texts], Pairs]) -> Pairs:
    """The pairs; a pair whose value has pairs gives way to these. ``cut`` reads values as rows of texts."""
    for _ in range(MAX_LEVELS):
        inner = cut(pairs.values)
        if not len(inner.keys.length):
            break
        pairs = _merge(pairs, inner)
    return pairs


def _merge(pairs: Pairs, inner: Pairs) -> Pairs:
    many = np.diff(inner.bounds)
    parents = np.repeat(np.arange(len(many)), many)
    starts = np.concatenate([[0], np.cumsum(np.maximum(many, 1))])
    childless = np.flatnonzero(many == 0)
    order = np.empty(starts[-1], np.int64)
    order[starts[childless]] = childless
    order[starts[parents] + np.arange(len(parents)) - inner.bounds[parents]] = len(many) + np.arange(len(parents))
    return Pairs(
        starts[pairs.bounds],
        _choose(pairs.keys, _join(pairs.keys, parents, inner.keys), order),
        _choose(pairs.values, inner.values, order),
    )


def _join(keys: Texts, parents: Array, inner: Texts) -> Texts:
    """``parent.key`` for each inner key."""
    front, inner_names = make_text_column(keys, parents), make_text_column(inner, np.arange(len(inner.length)))
    return Texts.of(
        pc.binary_join_element_wise(valid_texts(materialize_array(front)), valid_texts(materialize_array(inner_names)), ".")
    )


def _choose(texts: Texts, others: Texts, order: Array) -> Texts:
    """The texts of both, in this order of numbers; they may lie in any buffer."""
    address = np.concatenate([texts.address, others.address])[order]
    length = np.concatenate([texts.length, others.length])[order]
    if texts.buffer is not None and others.buffer is texts.buffer:
        return texts._replace(address=address, length=length, owner=(texts.owner, others.owner))
    return Texts(address, length, None, 0, (texts, others))
