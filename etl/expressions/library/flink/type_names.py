"""Names of types in casts: Spark's, and ``time``, ``char(n)``, ``varchar(n)``, ``timestamp(n)``."""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa

from etl.api import TIMESTAMP, parse_type
from etl.expressions.library.function import TIME

_WITH_LENGTH = re.compile(
    r"(char|varchar|timestamp|timestamp_ltz|timestamp_ntz|time|string|binary|varbinary|bytes)(?:\((\d+)\))?"
)
_NAMES = {
    "char": pa.string(), "varchar": pa.string(), "string": pa.string(), "time": TIME, "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP, "timestamp_ntz": TIMESTAMP, "binary": pa.binary(), "varbinary": pa.binary(), "bytes": pa.binary(),
}  # fmt: skip


class TypeName(NamedTuple):
    """A type, and the length of a text or the digits of a fraction (None: any)."""

    type: pa.DataType
    length: int | None = None
    is_padded: bool = False


def parse_type_name(text: str) -> TypeName:
    """The type of a name. Raises ValueError that names the accepted ones."""
    found = _WITH_LENGTH.fullmatch(text.strip().lower())
    if found is None:
        return TypeName(parse_type(text))
    name, length = found[1], None if found[2] is None else int(found[2])
    return TypeName(_NAMES[name], length, name == "char")
