"""Plain values, as JSON and YAML have them → Arrow columns: events of tests, and dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from etl.api import EtlError, format_type


def to_column(field: pa.Field, values: Sequence[Any], origin: str) -> pa.Array:
    """A column of a field. Raises EtlError, which begins with ``origin``, for a value that is not of its type."""
    try:
        plain = [_parse_times(value, field.type) for value in values]
        return pa.array(plain) if pa.types.is_null(field.type) else pa.array(plain, field.type)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise EtlError(
            f"{origin} gives field {field.name!r} a value that is not of type {format_type(field.type)}: {error}"
        ) from None


def _parse_times(value: Any, type_: pa.DataType) -> Any:
    """Parse texts of times; other values do not change."""
    if isinstance(value, str) and pa.types.is_timestamp(type_):
        return parse_instant(value) if type_.tz else datetime.fromisoformat(value)
    if isinstance(value, str) and pa.types.is_date(type_):
        return date.fromisoformat(value)
    if isinstance(value, Mapping) and pa.types.is_map(type_):
        return list(value.items())
    return value


def parse_instant(text: str) -> datetime:
    """Parse an ISO 8601 time; without a zone it is UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
