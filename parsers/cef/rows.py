"""Columns of CEF events → headers and extensions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from etl.columns.texts import Texts
from parsers.cef.kernel import EQUALS, NO_KEY, cut_extensions
from parsers.cef.labels import UNLABELLED, labelled
from parsers.common.failures import Failures
from parsers.common.pipe_headers import cut, header_reasons
from parsers.pairs.pairs import Pairs
from parsers.pairs.room import Room

_FIELDS = 7
_MEANINGS = {"=": "=", "\\": "\\", "n": "\n", "r": "\r"}
_REASONS = header_reasons("CEF:", _FIELDS) | {
    int(NO_KEY): "has text in front of its first extension",
    int(EQUALS): "has an extension with '=' in its value and no backslash in front",
}


def reading(strict: bool, custom_labels: bool) -> Callable[[pa.Array], tuple[list[pa.Array], Pairs, Failures]]:
    """Texts → the fields of their headers, their extensions, and what has failed."""

    def read(column: pa.Array) -> tuple[list[pa.Array], Pairs, Failures]:
        texts = Texts.of(column)
        found = cut(texts, b"CEF:", _FIELDS)
        room = Room.of(texts, found.outcomes)
        cut_extensions(found.body, found.body_end, strict, room.found(), room.bounds, room.outcomes)
        pairs = room.pairs(texts, _MEANINGS)
        failures = room.failures(_REASONS)
        if custom_labels:
            pairs, wrong = labelled(pairs)
            failures.add(wrong, pa.repeat(UNLABELLED, len(column)))
        return found.fields, pairs, failures

    return read
