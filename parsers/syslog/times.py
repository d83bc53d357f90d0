"""The times of syslog lines → instants.

Most have one of a few layouts, which a kernel reads without a copy. The others (fractions of any length, offsets of up to a
day, which RFC 5424 allows) are normalized first, so that the layouts read them too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.text_layout import boolean_values
from etl.columns.texts import materialize_array, take_rows
from parsers.timestamp.column_reader import instant_column
from parsers.timestamp.formats import TimeZoneContext, unambiguous_reader
from parsers.timestamp.instants import FIRST, LAST, SECOND
from parsers.timestamp.patterns import ZONES

if TYPE_CHECKING:
    from parsers.timestamp.formats import Read
    from parsers.timestamp.instants import Bools, Ints

TimeReader: TypeAlias = "Callable[[pa.Array, pa.Array], tuple[pa.Array, Bools]]"
"""Texts of any kind, and the zones that stand beside them → instants, and where a text is not a time that exists.

Null texts are null, not wrong.
"""

_FORMATS = (
    "MMM d HH:mm:ss[.SSSSSS]",
    "MMM d yyyy HH:mm:ss[.SSSSSS]",
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS][XXX]",
    "yyyy-MM-dd HH:mm:ss[.SSSSSSSSS][XXX]",
    "yyyy MMM d HH:mm:ss[.SSSSSS]",
    "MMM d HH:mm:ss[.SSSSSS] yyyy",
)
_PARTS = (
    r"^(?P<date>.*?)[Tt ]+(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d*))?"
    r"(?P<year> \d{4})?(?: ?(?P<zone>[A-Za-z]+|[+-]\d\d:?\d\d))?$"
)
_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>[01]\d|2[0-3]):?(?P<minutes>[0-5]\d)")


def time_reader(timezone: str, now: int, year: int | None) -> TimeReader:
    """A reader of texts; those without a zone are in ``timezone``, those without a year near ``now`` (µs since 1970)."""
    import numpy as np

    here, utc = (_compile_read(TimeZoneContext(zone, now, year)) for zone in (timezone, "UTC"))

    def read(texts: pa.Array, zones: pa.Array) -> tuple[pa.Array, Bools]:
        micros, good = here(texts)
        if zones.null_count < len(zones):
            rows = np.flatnonzero(boolean_values(zones.is_valid()))
            values, fits = utc(take_rows(texts, rows))
            micros[rows], good[rows] = _shift(values, fits, materialize_array(take_rows(zones, rows)))
        present = boolean_values(texts.is_valid())
        return instant_column(micros, good), present & ~good

    return read


def _compile_read(context: TimeZoneContext) -> Read:
    """A reader of texts by the layouts of the formats; other texts are normalized first."""
    import numpy as np

    layouts = unambiguous_reader(_FORMATS, context)
    if layouts is None:
        raise AssertionError("the formats have no layouts")

    def read(texts: pa.Array) -> tuple[Ints, Bools]:
        micros, good = layouts(texts)
        rest = np.flatnonzero(boolean_values(texts.is_valid()) & ~good)
        if len(rest):
            distinct = materialize_array(take_rows(texts, rest)).cast(pa.string()).dictionary_encode()
            written, zones = _normalize(distinct.dictionary)
            values, fits = _shift(*layouts(written), zones)
            indexes = distinct.indices.to_numpy()
            micros[rest], good[rest] = values[indexes], fits[indexes]
        return micros, good

    return read


def _normalize(texts: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
    """Texts as the layouts read them, with fractions of six digits, and their zones; a text with a zone becomes one in UTC."""
    date, clock, fraction, year, zone = pc.extract_regex(texts, _PARTS).flatten()
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, 6, "0"), 0, 6)
    date = pc.replace_substring_regex(date, r"\s+", " ")
    mark = pc.if_else(pc.equal(zone, ""), "", "Z")
    return pc.binary_join_element_wise(date, " ", clock, ".", fraction, year, mark, ""), pc.fill_null(zone, "")


def _shift(micros: Ints, good: Bools, zones: pa.StringArray) -> tuple[Ints, Bools]:
    """Times that were read as UTC, moved to their zones (empty: none). Each distinct zone is read once."""
    encoded = zones.dictionary_encode()
    seconds = [_seconds(zone) for zone in encoded.dictionary.to_pylist()]
    offsets = pa.array([offset or 0 for offset in seconds], pa.int64()).take(encoded.indices).to_numpy(zero_copy_only=False)
    known = pa.array([offset is not None for offset in seconds]).take(encoded.indices).to_numpy(zero_copy_only=False)
    micros = micros - offsets * SECOND
    return micros, good & known & (micros >= FIRST) & (micros <= LAST)


def _seconds(zone: str) -> int | None:
    if not zone or zone.lower() in ZONES:
        return int(ZONES.get(zone.lower(), 0) * 3600)
    found = _ZONE.fullmatch(zone)
    if found is None:
        return None
    seconds = int(found["hours"]) * 3600 + int(found["minutes"]) * 60
    return -seconds if found["sign"] == "-" else seconds
