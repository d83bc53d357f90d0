"""Converts dates to days since 1970-01-01 and back, in the proleptic Gregorian calendar.

Years are counted from March, so that the leap day is the last day of a year.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel_function

FIRST_DAY, LAST_DAY = np.int64(-719_528), np.int64(2_932_896)
"""0000-01-01 and 9999-12-31."""

_DAYS_BEFORE_1970 = np.int64(719_468)
"""Days from 0000-03-01 to 1970-01-01."""

_DAYS_IN_400_YEARS = np.int64(146_097)
U = np.uint64


@kernel_function
def date_of(day: Any) -> Any:
    """Days since 1970 (int64, of year 0 or later) → year, month, day of the month (uint64)."""
    since = np.uint64(day + (_DAYS_BEFORE_1970 + _DAYS_IN_400_YEARS))  # January of year 0 lies before its March
    cycle = since // U(146_097)
    rest = since - cycle * U(146_097)
    year = (rest - rest // U(1460) + rest // U(36_524) - rest // U(146_096)) // U(365)
    day_of_year = rest - (U(365) * year + year // U(4) - year // U(100))
    month_from_march = (U(5) * day_of_year + U(2)) // U(153)
    day_of_month = day_of_year - (U(153) * month_from_march + U(2)) // U(5) + U(1)
    month = month_from_march + U(3) if month_from_march < U(10) else month_from_march - U(9)
    return year + cycle * U(400) - U(400) + U(month <= U(2)), month, day_of_month


@kernel_function
def days_of(year: Any, month: Any, day: Any) -> Any:
    """A date (of year 0 or later) → days since 1970."""
    shifted = year - np.int64(month <= 2)
    months = month - 3 if month > 2 else month + 9
    leap_days = (shifted + 400) // 4 - (shifted + 400) // 100 + (shifted + 400) // 400 - 97
    return shifted * 365 + leap_days + (months * 153 + 2) // 5 + day - 1 - _DAYS_BEFORE_1970


@kernel_function
def month_length(year: Any, month: Any) -> Any:
    """The number of days of a month (1 to 12)."""
    if month == 2:
        return np.int64(29) if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else np.int64(28)
    return np.int64(30) + ((month + (month >> 3)) & 1)
