"""Texts → calendar fields: fixed layouts by slicing bytes, everything else by one regular expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsers.instants import NEVER, NO_OFFSET
from parsers.time_patterns import MONTHS, WEEKDAYS, ZONES, Element

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from parsers.instants import Bools, Ints

    Columns = NDArray[np.uint8]
    """ASCII texts of one length: a row for each place, a column for each text."""

Layout = Sequence[tuple[Element, int, int]]


def read_layout(texts: pa.StringArray, layout: Layout) -> tuple[dict[str, Ints], Bools]:
    """Texts (no nulls, each as long as the layout) → fields, and where the text has that layout."""
    import numpy as np

    width = layout[-1][2]
    data = np.frombuffer(texts.buffers()[2], np.uint8, len(texts) * width, _first_byte(texts))
    columns = np.ascontiguousarray(data.reshape(-1, width).T)
    good = np.ones(len(texts), bool)
    parts: dict[str, Ints] = {}
    for element, start, end in layout:
        values, fits = _READERS[element.kind](columns[start:end], element)
        good &= fits
        if values is not None:
            parts[_FIELD.get(element.kind, element.kind)] = values
    return parts, good


def read_regex(texts: pa.StringArray, regex: str) -> tuple[dict[str, Ints], Bools]:
    """Texts → fields, and where the text matches."""
    found = pc.extract_regex(texts, regex)
    good = pc.is_valid(found).to_numpy(zero_copy_only=False)
    parts = {
        _FIELD.get(member.name, member.name): _GROUPS.get(member.name, _group_number)(values)
        for member, values in zip(found.type, found.flatten(), strict=True)
    }
    return parts, good


_FIELD = {"year2": "year", "month_name": "month"}
"""Kinds of element that are another way to write a field."""


def _first_byte(texts: pa.StringArray) -> int:
    import numpy as np

    return int(np.frombuffer(texts.buffers()[1], np.int32, 1, texts.offset * 4)[0])


# ── Elements of a layout: columns of bytes → values and where they fit ────────────────────────────


def _number(columns: Columns, element: Element) -> tuple[Ints, Bools]:
    import numpy as np

    digits = columns - np.uint8(ord("0"))
    value = digits[0].astype(np.int64)
    for digit in digits[1:]:
        value = value * 10 + digit
    return value, np.all(digits <= 9, axis=0)


def _fraction(columns: Columns, element: Element) -> tuple[Ints, Bools]:
    value, good = _number(columns, element)
    digits = len(columns)
    return (value * 10 ** (6 - digits) if digits <= 6 else value // 10 ** (digits - 6)), good


def _year2(columns: Columns, element: Element) -> tuple[Ints, Bools]:
    value, good = _number(columns, element)
    return value + 2000, good


def _literal(columns: Columns, element: Element) -> tuple[None, Bools]:
    import numpy as np

    wanted = np.frombuffer(element.text.encode(), np.uint8)
    return None, (columns == wanted[:, None]).all(axis=0)


def _point(columns: Columns, element: Element) -> tuple[None, Bools]:
    return None, (columns[0] == ord(".")) | (columns[0] == ord(","))


def _name(names: Sequence[str]) -> Callable[[Columns, Element], tuple[Ints, Bools]]:
    """Position from 1 of the first letters of a name."""

    def read(columns: Columns, element: Element) -> tuple[Ints, Bools]:
        import numpy as np

        codes = np.array([_code(name[: len(columns)].encode()) for name in names])
        order = np.argsort(codes)
        found = _code([column.astype(np.int64) | 0x20 for column in columns])
        place = order[np.searchsorted(codes, found, sorter=order).clip(0, len(codes) - 1)]
        return place + 1, codes[place] == found

    return read


def _code(letters: Any) -> Any:
    code = 0
    for letter in letters:
        code = code * 256 + letter
    return code


def _ampm(columns: Columns, element: Element) -> tuple[Ints, Bools]:
    value, good = _name(("am", "pm"))(columns, element)
    return value - 1, good


def _offset(columns: Columns, element: Element) -> tuple[Ints, Bools]:
    """Z, +hh, +hhmm, +hh:mm by the number of columns → seconds."""
    import numpy as np

    rows = columns.shape[1]
    if len(columns) == 1:
        return np.zeros(rows, np.int64), (columns[0] == ord("Z")) | (columns[0] == ord("z"))
    hours, good = _number(columns[1:3], element)
    minutes = np.zeros(rows, np.int64)
    if len(columns) > 3:
        minutes, fits = _number(columns[-2:], element)
        good &= fits & (minutes < 60)
    if len(columns) == 6:
        good &= columns[3] == ord(":")
    negative = columns[0] == ord("-")
    good &= (negative | (columns[0] == ord("+"))) & (hours <= 18)
    return np.where(negative, -1, 1) * (hours * 3600 + minutes * 60), good


_READERS: dict[str, Callable[[Columns, Element], tuple[Ints | None, Bools]]] = {
    "year": _number,
    "year2": _year2,
    "month": _number,
    "month_name": _name(MONTHS),
    "day": _number,
    "weekday": lambda columns, element: (None, _name(WEEKDAYS)(columns, element)[1]),
    "hour": _number,
    "hour12": _number,
    "ampm": _ampm,
    "minute": _number,
    "second": _number,
    "fraction": _fraction,
    "offset": _offset,
    "literal": _literal,
    "space": _literal,
    "point": _point,
}


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
    place = pc.index_in(pc.utf8_slice_codeunits(pc.ascii_lower(texts), 0, 3), value_set=names)
    return pc.fill_null(place.cast(pa.int64()), -1).to_numpy(zero_copy_only=False) + 1


def _group_ampm(texts: pa.StringArray) -> Ints:
    return pc.fill_null(pc.equal(pc.ascii_lower(texts), "pm"), False).cast(pa.int64()).to_numpy(zero_copy_only=False)


def _group_offset(texts: pa.StringArray) -> Ints:
    """Distinct zones are few: each is read in Python once."""
    encoded = pc.fill_null(texts, "").dictionary_encode()
    seconds = pa.array([_zone_seconds(zone) for zone in encoded.dictionary.to_pylist()], pa.int64())
    return seconds.take(encoded.indices).to_numpy(zero_copy_only=False)


def _zone_seconds(zone: str) -> int:
    if not zone:
        return NO_OFFSET
    if zone.lower() in ZONES:
        return ZONES[zone.lower()] * 3600
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
