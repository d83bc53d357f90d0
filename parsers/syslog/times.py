"""The times of syslog lines → instants.

Most have one of a few layouts and are read where they lie. What is left (fractions of any length, offsets of up to a day,
which RFC 5424 allows) is taken apart first, so that the layouts read it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.columns.texts import owned_array, taken
from parsers.timestamp.formats import TimeZoneContext, sure_reader
from parsers.timestamp.instants import FIRST, LAST, SECOND
from parsers.timestamp.patterns import ZONES

if TYPE_CHECKING:
    from parsers.timestamp.formats import Read
    from parsers.timestamp.instants import Bools, Ints

TimeReader: TypeAlias = "Callable[[pa.Array, pa.Array], tuple[pa.Array, Bools]]"
"""Texts of any kind, and the zones that stand beside them → instants, and where a text is no time that exists.

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
    """A reader of texts that were written around ``now`` (microseconds) and, unless they name a zone, in ``timezone``."""
    import numpy as np

    here, utc = (_reading(TimeZoneContext(zone, now, year)) for zone in (timezone, "UTC"))

    def read(texts: pa.Array, zones: pa.Array) -> tuple[pa.Array, Bools]:
        micros, good = here(texts)
        if zones.null_count < len(zones):
            rows = np.flatnonzero(zones.is_valid().to_numpy(zero_copy_only=False))
            values, fits = utc(taken(texts, rows))
            micros[rows], good[rows] = _shifted(values, fits, owned_array(taken(zones, rows)))
        present = texts.is_valid().to_numpy(zero_copy_only=False)
        return _instants(micros, good), present & ~good

    return read


def _reading(place: TimeZoneContext) -> Read:
    """Reads texts by the layouts of the formats, and what is left once it is taken apart."""
    import numpy as np

    layouts = sure_reader(_FORMATS, place)
    if layouts is None:
        raise AssertionError("the formats have no layouts")

    def read(texts: pa.Array) -> tuple[Ints, Bools]:
        micros, good = layouts(texts)
        rest = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False) & ~good)
        if len(rest):
            distinct = owned_array(taken(texts, rest)).cast(pa.string()).dictionary_encode()
            written, zones = _taken_apart(distinct.dictionary)
            values, fits = _shifted(*layouts(written), zones)
            places = distinct.indices.to_numpy()
            micros[rest], good[rest] = values[places], fits[places]
        return micros, good

    return read


def _taken_apart(texts: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
    """Texts written anew with fractions of six digits, in which the layouts find them, and their zones.

    A text with a zone of its own is written as one of UTC.
    """
    date, clock, fraction, year, zone = pc.extract_regex(texts, _PARTS).flatten()
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, 6, "0"), 0, 6)
    date = pc.replace_substring_regex(date, r"\s+", " ")
    mark = pc.if_else(pc.equal(zone, ""), "", "Z")
    return pc.binary_join_element_wise(date, " ", clock, ".", fraction, year, mark, ""), pc.fill_null(zone, "")


def _shifted(micros: Ints, good: Bools, zones: pa.StringArray) -> tuple[Ints, Bools]:
    """Times that were read as those of UTC, in their zones (empty: none), of which distinct ones are few."""
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


def _instants(micros: Ints, good: Bools) -> pa.Array:
    import numpy as np

    bits = None if good.all() else pa.py_buffer(np.packbits(good, bitorder="little"))
    return pa.Array.from_buffers(TIMESTAMP, len(micros), [bits, pa.py_buffer(micros)])
