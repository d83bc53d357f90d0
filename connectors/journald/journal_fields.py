"""The fields of journal entries: which the source gives, as what, and how their columns are made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from etl.api import TIMESTAMP, Finding, nearest, parse_type

REALTIME, MONOTONIC, CURSOR, SEQNUM, SEQNUM_ID = (
    "__REALTIME_TIMESTAMP",
    "__MONOTONIC_TIMESTAMP",
    "__CURSOR",
    "__SEQNUM",
    "__SEQNUM_ID",
)
"""Fields of the entry itself, named as ``journalctl -o json`` does."""

ENTRY_FIELDS: Mapping[str, frozenset[pa.DataType]] = {
    REALTIME: frozenset((TIMESTAMP, pa.int64())),
    MONOTONIC: frozenset((pa.int64(),)),
    CURSOR: frozenset((pa.string(),)),
    SEQNUM: frozenset((pa.int64(),)),
    SEQNUM_ID: frozenset((pa.string(),)),
}

DEFAULT_FIELDS = {
    REALTIME: "timestamp",
    "MESSAGE": "string",
    "PRIORITY": "int",
    "SYSLOG_IDENTIFIER": "string",
    "_PID": "int",
    "_UID": "bigint",
    "_COMM": "string",
    "_SYSTEMD_UNIT": "string",
    "_TRANSPORT": "string",
    "_HOSTNAME": "string",
}

TEXTS = pa.list_(pa.string())
VALUE_TYPES = (pa.string(), pa.binary(), pa.int32(), pa.int64(), TIMESTAMP, TEXTS)
"""Types of values. A timestamp is microseconds since 1970 in the journal, as in ``_SOURCE_REALTIME_TIMESTAMP``."""

FIELD_NAME = r"^[A-Z0-9_]{1,64}$"
"""Names of fields in a journal (systemd's ``journal-file.c``)."""
_NAME = re.compile(FIELD_NAME)
_ACCEPTED = "string, array<string>, binary, int, bigint or timestamp"


def check_fields(declared: Mapping[str, str], rest: str | None) -> Iterable[Finding]:
    """Check names and types of the declared fields."""
    for name, type_name in declared.items():
        path, type_ = ("fields", name), parse_type(type_name)
        if name.startswith("__"):
            if name not in ENTRY_FIELDS:
                message = f"{name!r} is not a field of an entry; those with two underscores are {', '.join(ENTRY_FIELDS)}"
                yield Finding("unknown-field", message, path, nearest(name, ENTRY_FIELDS))
            elif type_ not in ENTRY_FIELDS[name]:
                hint = f"write {'timestamp' if name == REALTIME else 'bigint' if pa.int64() in ENTRY_FIELDS[name] else 'string'}"
                yield Finding("unreadable-type", f"{name} cannot be {type_name}", path, hint)
        elif not _NAME.fullmatch(name):
            cure = f"write {name.upper()}" if _NAME.fullmatch(name.upper()) else None
            message = f"{name!r} is not a field of a journal: up to 64 capital letters, digits and underscores"
            yield Finding("unknown-field", message, path, cure)
        elif type_ not in VALUE_TYPES:
            yield Finding("unreadable-type", f"{name} is {type_name}; a journal has texts: {_ACCEPTED}", path, "write string")
    if rest in declared:
        yield Finding("duplicate-field", f"{rest!r} is declared in fields, too", ("rest",), "take another name")
