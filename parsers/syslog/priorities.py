"""Decodes priorities to facility and severity, as numbers and names (RFC 5424, tables 1 and 2; names as in syslog.conf)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"),
    *("ntp", "security", "console", "solaris-cron"),
    *(f"local{number}" for number in range(8)),
)
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
SEVERITY_BITS = 3


def make_priority_columns(texts: pa.Array) -> dict[str, pa.Array]:
    """Return the columns of decimal priorities up to 191 (or null): priority, and facility and severity as codes and names."""
    import numpy as np

    from etl.columns.numbers import whole_numbers
    from etl.columns.texts import make_view_array

    priority = whole_numbers(texts)
    bits, values = priority.buffers()
    numbers = np.frombuffer(values, np.int64)
    valid = priority.is_valid().to_numpy(zero_copy_only=False) if priority.null_count else None
    columns = {"log.syslog.priority": priority}
    facility, severity = numbers >> SEVERITY_BITS, numbers & (1 << SEVERITY_BITS) - 1
    for part, codes, names in (("facility", facility, FACILITIES), ("severity", severity, SEVERITIES)):
        columns[f"log.syslog.{part}.code"] = pa.Array.from_buffers(pa.int64(), len(codes), [bits, pa.py_buffer(codes)])
        columns[f"log.syslog.{part}.name"] = make_view_array(_make_views(names)[codes], valid, None)
    return columns


@cache
def _make_views(names: tuple[str, ...]) -> Any:
    """Return the views (uint32[names, 4]) of names of at most 12 bytes, which are inline in their views."""
    import numpy as np

    raw = b"".join(len(name).to_bytes(4, "little") + name.encode().ljust(12, b"\0") for name in names)
    return np.frombuffer(raw, np.uint32).reshape(-1, 4)
