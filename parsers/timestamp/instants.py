"""Calendar fields as arrays → microseconds in UTC; an invalid date is found, never wrapped around."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Bools: TypeAlias = NDArray[np.bool_]

SECOND = 1_000_000
"""Microseconds."""

HOUR = 3600 * SECOND
DAY = 24 * HOUR
FIRST = -62_135_596_800 * SECOND
"""0001-01-01, Spark's first instant."""

LAST = 253_402_300_800 * SECOND - 1
"""The end of 9999."""

NO_OFFSET = -(2**62)
"""The offset from UTC of a text that names no zone."""

NEVER = 10**12
"""The offset from UTC, in seconds, of a text whose zone does not exist: it leads out of all years."""

_YEARS_BACK = 9
"""Years between two 29 February, at most: across 1900 or 2100."""


def to_micros(parts: dict[str, Ints], zone: str, now: int, year: int | None) -> tuple[Ints, Bools]:
    """Calendar fields → microseconds in UTC, and where they are a date that exists.

    ``offset`` holds seconds from UTC or `NO_OFFSET`, where the text is local time in ``zone``. Fields without
    ``year`` get ``year``, or the latest one that does not lead further than a day past ``now``.
    """
    import numpy as np

    clock, good = _time_of_day(parts)
    rows = len(parts["day"])
    if "year" in parts:
        local, exists = _local(parts["year"], parts, clock)
    else:
        local, exists = _nearest_past(parts, clock, *last_years(zone, now, year))
    offset = parts.get("offset", np.full(rows, NO_OFFSET, np.int64))
    named = offset != NO_OFFSET
    micros = np.where(named, local - np.where(named, offset, 0) * SECOND, local)
    if zone != "UTC" and not named.all():
        micros[~named] = to_utc(local[~named], zone)
    return micros, good & exists & (micros >= FIRST) & (micros <= LAST)


def to_utc(local: Ints, zone: str) -> Ints:
    """Wall clock microseconds in a zone → UTC. A time that happens twice is its first one; a time that is skipped
    is moved on by the length of the gap, as Spark does. Of equal ones side by side only the first is looked at."""
    import numpy as np

    if not len(local):
        return local
    begins = np.flatnonzero(np.concatenate(([True], local[1:] != local[:-1])))
    return np.repeat(_to_utc(local[begins], zone), np.diff(begins, append=len(local)))


def _to_utc(local: Ints, zone: str) -> Ints:
    import numpy as np

    utc = _assume_zone(local, zone)
    back = pc.local_timestamp(utc).cast(pa.int64()).to_numpy(zero_copy_only=False)
    micros = np.array(utc.cast(pa.int64()).to_numpy(zero_copy_only=False))
    gap = back != local
    if gap.any():
        before = local[gap] - DAY
        offset = before - _assume_zone(before, zone).cast(pa.int64()).to_numpy(zero_copy_only=False)
        micros[gap] = local[gap] - offset
    return micros


def _assume_zone(local: Ints, zone: str) -> pa.Array:
    naive = pa.array(local).cast(pa.timestamp("us"))
    return pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")


def _wall_clock(now: int, zone: str) -> int:
    instant = pa.array([now], pa.int64()).cast(TIMESTAMP).cast(pa.timestamp("us", zone))
    return pc.local_timestamp(instant).cast(pa.int64())[0].as_py()


def format_date(now: int, zone: str) -> str:
    """The date on the wall clock of a zone."""
    import numpy as np

    return str(np.datetime64(_wall_clock(now, zone), "us").astype("datetime64[D]"))


def _time_of_day(parts: dict[str, Ints]) -> tuple[Ints, Bools]:
    import numpy as np

    zero = np.zeros(len(parts["day"]), np.int64)
    hour, minute, second = (parts.get(name, zero) for name in ("hour", "minute", "second"))
    good = (hour < 24) & (minute < 60) & (second < 60)
    if "hour12" in parts:
        hour = parts["hour12"] % 12 + 12 * parts["ampm"]
        good &= (parts["hour12"] >= 1) & (parts["hour12"] <= 12)
    return ((hour * 60 + minute) * 60 + second) * SECOND + parts.get("fraction", zero), good


def _local(year: Ints, parts: dict[str, Ints], clock: Ints) -> tuple[Ints, Bools]:
    """Microseconds on the wall clock, and where the date exists."""
    import numpy as np

    month, day = parts["month"], parts["day"]
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
    known = (month >= 1) & (month <= 12)
    length = lengths[np.where(known, month, 0)] + (leap & (month == 2))
    good = known & (day >= 1) & (day <= length) & (year >= 1) & (year <= 9999)
    return _days(year, month, day) * DAY + clock, good


def _days(year: Ints, month: Ints, day: Ints) -> Ints:
    """Days since 1970-01-01, counted in years that begin in March, so that the leap day is their last."""
    shifted = year - (month <= 2)
    months = (month + 9) % 12
    days_before_month = (months * 153 + 2) // 5
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + days_before_month + day - 719_469


def last_years(zone: str, now: int, year: int | None) -> tuple[int, int, int]:
    """For dates without a year: the first year to try, how many years back, and the latest instant on the wall clock."""
    import numpy as np

    if year is not None:
        return year, 1, LAST
    latest = _wall_clock(now, zone) + DAY
    this_year = int(np.datetime64(latest, "us").astype("datetime64[Y]").astype(int)) + 1970
    return this_year, _YEARS_BACK, latest


def _nearest_past(parts: dict[str, Ints], clock: Ints, first: int, tries: int, latest: int) -> tuple[Ints, Bools]:
    """Each date in the latest year in which it exists and is not past ``latest``."""
    import numpy as np

    rows = len(clock)
    local = np.zeros(rows, np.int64)
    done = np.zeros(rows, bool)
    for year in range(first, first - tries, -1):
        candidate, exists = _local(np.full(rows, year, np.int64), parts, clock)
        fits = exists & (candidate <= latest) & ~done
        local[fits] = candidate[fits]
        done |= fits
        if done.all():
            break
    return local, done
