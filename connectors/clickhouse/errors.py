"""Errors of ClickHouse: which rows, which server or which option they concern.

Codes are those of ClickHouse's source (src/Common/ErrorCodes.cpp). Its HTTP statuses say less: most errors are 500.
"""

from __future__ import annotations

import re

from connectors.http.connection import Response
from connectors.http.statuses import Handling

CODE_HEADER = "x-clickhouse-exception-code"

_CODE = re.compile(rb"\ACode: (\d{1,6})")
_VERSION = re.compile(r" \(version [^()]*(?:\([^()]*\))?\)\s*$")

_TOO_MANY_PARTS = 252
_PARTITIONS = b"partitions for single INSERT block"

ROW_CODES = frozenset(
    {6, 26, 27, 32, 33, 36, 38, 41, 43, 53, 69, 70, 72, 117, 130, 131, 190, 321, 349, 376, 395, 407, 469, 636, 675, 676, 691}
)
"""A value that does not fit its column: parse errors, ranges, null, UUIDs, addresses, enums, constraints, throwIf."""

TEMPORARY_CODES = frozenset(
    {159, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 279, 285, 286, 319, 394, 425, 439, 473, 499, 574, 598, 734, 745, 999}
)
"""Time limits, too many queries or parts, network, memory, disk full, read-only replicas, quorum, Keeper, an unknown result."""


def error_code(response: Response) -> int | None:
    """Return ClickHouse's code of an error; None if the response does not come from ClickHouse."""
    header = response.headers.get(CODE_HEADER, "")
    if header.isdecimal():
        return int(header[:6])
    found = _CODE.match(response.body)
    return int(found[1]) if found else None


def handling_of(response: Response) -> Handling | None:
    """Return what is done about a response; None if it has no code, so that its status decides."""
    code = error_code(response)
    if code is None:
        return None
    if code in ROW_CODES or (code == _TOO_MANY_PARTS and _PARTITIONS in response.body):
        return "dead"
    return "retry" if code in TEMPORARY_CODES else "stop"


def describe_error(response: Response, length: int = 300) -> str:
    """Return ClickHouse's message without its version."""
    return _VERSION.sub("", response.reason(length))
