"""Texts → calendar fields by one regular expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from parsers.timestamp.instants import NEVER, NO_OFFSET
from parsers.timestamp.patterns import MONTHS, ZONES

if TYPE_CHECKING:
    from parsers.timestamp.instants import Bools, Ints


def read_regex(texts: pa.StringArray, regex: str) -> tuple[dict[str, Ints], Bools, dict[str, Ints]]:
    """Texts → calendar fields, the rows (bool[n]) that match, and the rows of each IANA zone that texts name."""
    found = pc.extract_regex(texts, regex)
    good = pc.is_valid(found).to_numpy(zero_copy_only=False)
    parts = {
        _FIELD.get(member.name, member.name): _GROUPS.get(member.name, _group_number)(values)
        for member, values in zip(found.type, found.flatten(), strict=True)
    }
    offsets = [pc.struct_field(found, [number]) for number, member in enumerate(found.type) if member.name == "offset"]
    return parts, good, _named_zones(offsets[0]) if offsets else {}


_FIELD = {"year2": "year", "month_name": "month"}
"""Kinds of element → the field that they are another form of."""


# ── Groups of the regular expression: texts, empty or null where absent → values ──────────────────


def _group_number(texts: pa.StringArray) -> Ints:
    present = pc.if_else(pc.equal(texts, ""), None, texts)
    return pc.fill_null(present.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)


def _group_year2(texts: pa.StringArray) -> Ints:
    return _group_number(texts) + 2000


def _group_fraction(texts: pa.StringArray) -> Ints:
    return _group_number(pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 6, "0"), 0, 6))


def _group_month(texts: pa.StringArray) -> Ints:
    names = pa.array([name[:3] for name in MONTHS])
    index = pc.index_in(pc.utf8_slice_codeunits(pc.ascii_lower(texts), 0, 3), value_set=names)
    return pc.fill_null(index.cast(pa.int64()), -1).to_numpy(zero_copy_only=False) + 1


def _group_ampm(texts: pa.StringArray) -> Ints:
    return pc.fill_null(pc.equal(pc.ascii_lower(texts), "pm"), False).cast(pa.int64()).to_numpy(zero_copy_only=False)


def _group_offset(texts: pa.StringArray) -> Ints:
    """Distinct zones are few: each is read in Python once."""
    encoded = pc.fill_null(texts, "").dictionary_encode()
    seconds = pa.array([_zone_seconds(zone) for zone in encoded.dictionary.to_pylist()], pa.int64())
    return seconds.take(encoded.indices).to_numpy(zero_copy_only=False)


def _named_zones(texts: pa.StringArray) -> dict[str, Ints]:
    """Zone → the rows that name it, for zones that exist."""
    import numpy as np

    encoded = pc.fill_null(texts, "").dictionary_encode()
    names = {index: name.lower() for index, name in enumerate(encoded.dictionary.to_pylist()) if "/" in name}
    if not names:
        return {}
    which = encoded.indices.to_numpy(zero_copy_only=False)
    known = {index: _zone_ids()[name] for index, name in names.items() if name in _zone_ids()}
    rows = {zone: [index for index, name in known.items() if name == zone] for zone in dict.fromkeys(known.values())}
    return {zone: np.flatnonzero(np.isin(which, spellings)) for zone, spellings in rows.items()}


@cache
def _zone_ids() -> Mapping[str, str]:
    """Names of the IANA database by their small letters."""
    from zoneinfo import available_timezones

    return {name.lower(): name for name in available_timezones()}


def _zone_seconds(zone: str) -> int:
    if not zone:
        return NO_OFFSET
    if zone.lower() in ZONES:
        return int(ZONES[zone.lower()] * 3600)
    if "/" in zone:
        return NO_OFFSET if zone.lower() in _zone_ids() else NEVER
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 18 or minutes > 59:
        return NEVER
    return (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60)


_GROUPS: dict[str, Callable[[pa.StringArray], Ints]] = {
    "year2": _group_year2,
    "fraction": _group_fraction,
    "month_name": _group_month,
    "ampm": _group_ampm,
    "offset": _group_offset,
}
