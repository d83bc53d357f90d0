"""Columns of LEEF events → headers and attributes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from parsers.common.failures import Failures
from parsers.common.pipe_headers import cut, header_reasons
from parsers.leef.kernel import cut_attributes
from parsers.pairs.pairs import Pairs
from parsers.pairs.room import Room

_FIELDS = 5
_REASONS = header_reasons("LEEF:", _FIELDS)


def reading(delimiter: str) -> Callable[[pa.Array], tuple[list[pa.Array], Pairs, Failures]]:
    """Texts → the fields of their headers, their attributes, and what has failed; ``delimiter`` is one for all, or empty."""
    given = np.uint32(int.from_bytes(delimiter.encode("utf-8", "replace"), "little"))

    def read(column: pa.Array) -> tuple[list[pa.Array], Pairs, Failures]:
        texts = Texts.of(column)
        found = cut(texts, b"LEEF:", _FIELDS)
        room = Room.of(texts, found.outcomes)
        cut_attributes(found.version, found.body, found.body_end, given, room.found(), room.bounds, room.outcomes)
        return found.fields, room.pairs(texts, {}), room.failures(_REASONS)

    return read
