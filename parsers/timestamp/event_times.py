"""Texts → values of a declared type, where times are written in a format's own ways."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.columns.texts import owned_array
from parsers.common.text_types import Read, reader
from parsers.common.view_values import truth
from parsers.timestamp.parser import Timestamp

if TYPE_CHECKING:
    from parsers.common.text_types import Bools


def event_times(type_: pa.DataType, formats: Sequence[str], timezone: str = "UTC") -> Read:
    """As `reader`, with these formats for timestamps, compiled at the first texts: lint has no numpy. An empty text is null."""
    if not pa.types.is_timestamp(type_):
        return reader(type_, timezone)
    parse = cache(Timestamp(formats=tuple(formats), timezone=timezone).compile)

    def read(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
        instants = parse()(texts).columns["timestamp"]
        wrong = None
        if instants.null_count != texts.null_count:
            empty = truth(pc.fill_null(pc.equal(pc.binary_length(owned_array(texts)), 0), False))
            wrong = truth(pc.and_(texts.is_valid(), instants.is_null())) & ~empty
        return instants if type_ == TIMESTAMP else pc.cast(instants, type_, safe=False), wrong

    return read
