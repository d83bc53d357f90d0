"""Time zones: texts of one zone in another, and local times as moments."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.kernels import by_value
from etl.expressions.widening import INT64

_FORMAT = "%Y-%m-%d %H:%M:%S"
_BEGINNING = re.compile(r"\d{1,4}-\d{1,2}-\d{1,2} \d{1,2}:\d{1,2}:\d{1,2}")
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """A zone by its name or offset; UTC for an unknown name, as Java's ``TimeZone``."""
    return known_zone(name) or UTC


def known_zone(name: str) -> tzinfo | None:
    """A zone by its name or offset; None for an unknown name, as Java's ``ZoneId``."""
    from zoneinfo import ZoneInfo

    found = _OFFSET.fullmatch(name)
    if found:
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        return timezone(timedelta(minutes=minutes if found[1] == "+" else -minutes)) if minutes < 1440 else None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def convert_tz(text: str, source: str, target: str) -> str | None:
    """A local time of one zone as that of another; None if the text is not a time."""
    try:
        found = _BEGINNING.match(text)  # what follows does not matter
        local = datetime.strptime(found[0] if found else text, _FORMAT).replace(tzinfo=zone(source))
        return local.astimezone(UTC).astimezone(zone(target)).strftime(_FORMAT)
    except (ValueError, OverflowError):
        return None


def shift(time: BoundNode, name: BoundNode) -> BoundNode:
    """Local times of a zone, which are written as UTC's, as moments; null for an unknown zone."""

    def one(micros: int, given: str) -> Any:
        local = datetime(1970, 1, 1) + timedelta(microseconds=micros)
        known = known_zone(given)
        if known is None:
            return None
        offset = local.replace(tzinfo=known).utcoffset() or timedelta(0)
        return micros - offset // timedelta(microseconds=1)

    numbers = b.apply(INT64, lambda x: pc.cast(x, INT64), time)
    return b.apply(TIMESTAMP, lambda x: pc.cast(x, TIMESTAMP), by_value(INT64, one, fails=False)(numbers, name))
