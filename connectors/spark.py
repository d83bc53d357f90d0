"""The `spark` source: reads with Spark's own formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
from pydantic import BeforeValidator, Field, SecretStr

from etl.api import (
    TIMESTAMP,
    FieldName,
    Finding,
    FrameSource,
    Schema,
    TypeName,
    flat_schema,
    format_type,
    nearest,
    nested_schema,
    parse_type,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

FIXED_SCHEMAS: dict[str, Schema] = {
    "rate": pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64())]),
    "rate-micro-batch": pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64())]),
    "text": pa.schema([("value", pa.string())]),
    "socket": pa.schema([("value", pa.string())]),
}
"""Formats with fixed fields."""

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
"""Formats that need a path."""

FORMATS_WITH_SCHEMA = ("parquet", "orc", "json", "avro", "xml")
"""File formats that select columns by the names in the given schema."""

ENDLESS_FORMATS = ("rate", "rate-micro-batch", "socket")
"""Formats that can only stream."""
BOUNDED_FORMATS = ("jdbc",)
"""Formats that cannot stream."""
_KNOWN_FORMATS = sorted({*FIXED_SCHEMAS, *FILE_FORMATS, *BOUNDED_FORMATS, "kafka", "delta", "iceberg"})

_SECRET_NAME = re.compile(r"(?i)passw|secret|token|credential|private|key")
_SECRET_VALUE = re.compile(r"(?i)password=|://[^/\s:]*:[^/\s@]+@")


def _hide_secrets(options: object) -> object:
    """Wrap option values that look like secrets, by the option's name or the value, so that they are never printed."""
    if not isinstance(options, Mapping):
        return options
    return {
        name: SecretStr(_to_option_text(value))
        if isinstance(value, str | int | float) and _is_secret(str(name), value)
        else value
        for name, value in options.items()
    }


def _is_secret(name: str, value: object) -> bool:
    return bool(_SECRET_NAME.search(name) or (isinstance(value, str) and _SECRET_VALUE.search(value)))


def _to_option_text(value: object) -> str:
    """Return an option as Spark reads it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value).lower() if isinstance(value, bool) else str(value)


SparkOptions = Annotated[dict[str, bool | int | float | str | SecretStr], BeforeValidator(_hide_secrets)]


class SparkSource(FrameSource):
    """Read with one of Spark's own formats: parquet, orc, json, csv, text, rate, jdbc, kafka, delta and others.

    Spark stores the offset of a streaming read in its checkpoint and reads uncommitted data again; whether that is the same
    data depends on the format (files: yes). The format divides the work. A bounded read reads everything once and has no
    offset: a second run reads it again.

    Columns are selected by name and cast to the types in ``fields``; a failed cast ends the run, as in Spark's ANSI mode.
    ``rate`` and ``text`` have fixed fields, those of local ``parquet`` and ``orc`` files are read from the files, all other
    formats need ``fields``. Option values that look like secrets are never printed. The format's package must be on Spark's
    class path.

    ```yaml
    type: spark
    format: json
    path: /data/orders
    streaming: true
    options: {maxFilesPerTrigger: 10}
    fields:
      id: bigint
      customer.name: string
      ordered: timestamp
    ```
    """

    type: Literal["spark"] = "spark"
    format: str = Field(min_length=1, description="Spark's name of the format.", examples=["parquet", "jdbc"])
    options: SparkOptions = Field(
        default={}, description="Options of the format, by Spark's names.", examples=[{"maxFilesPerTrigger": 10}]
    )
    path: str | None = Field(default=None, min_length=1, description="File, folder or glob, for formats that read files.")
    follow: bool = Field(default=False, alias="streaming", description="Continue reading added data, instead of reading once.")
    declared: dict[FieldName, TypeName] | None = Field(
        default=None,
        alias="fields",
        min_length=1,
        description="Fields to read and their Spark SQL types; without it those of the format.",
        examples=[{"id": "bigint", "customer.name": "string"}],
    )

    @property
    def streaming(self) -> bool:
        """Value of the option."""
        return self.follow

    def check(self) -> Iterable[Finding]:
        """Check for a missing path, undeclared fields, and formats that cannot stream or cannot end."""
        if self.format not in _KNOWN_FORMATS and (hint := nearest(self.format, _KNOWN_FORMATS)):
            yield Finding("unknown-format", f"{self.format!r} is not a format of Spark", ("format",), hint, "warning")
        if self.format in FILE_FORMATS and self.path is None and "path" not in self.options:
            yield Finding("missing-path", f"format {self.format!r} needs a path", ("path",))
        if self.follow and self.format in BOUNDED_FORMATS:
            yield Finding("not-streaming", f"Spark cannot follow format {self.format!r}", ("streaming",), "remove 'streaming'")
        if not self.follow and self.format in ENDLESS_FORMATS:
            yield Finding("not-bounded", f"format {self.format!r} has no end", ("streaming",), "set 'streaming: true'")
        yield from self._check_fields()

    def _check_fields(self) -> Iterable[Finding]:
        if not self.fields().names:
            hint = "declare them: 'fields: {name: type}', such as 'fields: {id: bigint, source.ip: string}'"
            yield Finding(
                "missing-fields", f"the fields of format {self.format!r} are not known before it runs", ("fields",), hint
            )
            return
        try:
            nested_schema(self.fields())
        except ValueError as error:
            yield Finding("field-conflict", str(error), ("fields",))
        first: dict[str, str] = {}
        for name in self.declared or {}:
            if (other := first.setdefault(name.lower(), name)) != name:
                yield Finding(
                    "field-conflict", f"{name!r} and {other!r} are one column to Spark", ("fields", name), "rename one of them"
                )
        for name, text in (self.declared or {}).items() if self.format == "csv" else ():
            if pa.types.is_nested(parse_type(text)):
                yield Finding("wrong-type", f"a column of csv is a single value, not {text}", ("fields", name))

    def fields(self) -> Schema:
        """Return the declared fields, or those of the format or its files; empty if they are unknown."""
        if self.declared is not None:
            return flat_schema(pa.schema([(name, parse_type(text)) for name, text in self.declared.items()]))
        if self.format in FIXED_SCHEMAS:
            return FIXED_SCHEMAS[self.format]
        if self.format in ("parquet", "orc") and self.path is not None:
            return _read_file_schema(self.path, self.format)
        return pa.schema([])

    def load(self, session: SparkSession) -> DataFrame:
        """Return the declared columns, structs nested."""
        reader: DataFrameReader | DataStreamReader = session.readStream if self.follow else session.read
        reader = reader.format(self.format).options(**{name: _to_option_text(value) for name, value in self.options.items()})
        if schema := self._read_schema():
            reader = reader.schema(schema)
        if self.format == "csv" and self._has_header:
            reader = reader.option("enforceSchema", "false")
        events = reader.load() if self.path is None else reader.load(self.path)
        return events.select(*_select_columns(self.fields(), self.format == "csv"))

    @property
    def _has_header(self) -> bool:
        return any(name.lower() == "header" and _to_option_text(value).lower() == "true" for name, value in self.options.items())

    def _read_schema(self) -> str | None:
        """Return DDL for formats that accept it. A CSV file with a header has its own names, unless it is followed."""
        if self.format in FORMATS_WITH_SCHEMA or (self.format == "csv" and (self.follow or not self._has_header)):
            fields = self.fields() if self.format == "csv" else nested_schema(self.fields())
            return ", ".join(f"`{field.name}` {_to_ddl(field.type)}" for field in fields)
        return None


def _select_columns(schema: Schema, flat: bool) -> list[Column]:
    """Return columns, cast to their types and gathered into structs. ``flat``: the format has dotted names instead of structs."""
    tree: dict[str, Any] = {}
    for field in schema:
        *parents, last = field.name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = field.type
    return [_build_column((name,), node, flat) for name, node in tree.items()]


def _build_column(path: tuple[str, ...], node: Any, flat: bool) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if isinstance(node, dict):
        return F.struct(*(_build_column((*path, name), child, flat) for name, child in node.items())).alias(path[-1])
    name = f"`{'.'.join(path)}`" if flat else ".".join(f"`{part}`" for part in path)
    return F.col(name).cast(_to_ddl(node)).alias(path[-1])


def _to_ddl(type_: pa.DataType) -> str:
    """Like `format_type`, with the names of members quoted, because they may contain ``@`` or ``-``."""
    if pa.types.is_struct(type_):
        return "struct<" + ", ".join(f"`{member.name}`: {_to_ddl(member.type)}" for member in type_) + ">"
    if pa.types.is_list(type_):
        return f"array<{_to_ddl(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{_to_ddl(type_.key_type)}, {_to_ddl(type_.item_type)}>"
    return format_type(type_)


# ── Fields of local files ─────────────────────────────────────────────────────────────────────────


def _read_file_schema(path: str, format_: str) -> Schema:
    """Return the first file's flat schema in Spark's types; empty if no file can be read."""
    from glob import glob

    import pyarrow.dataset

    found = sorted(glob(path.removeprefix("file://")))
    if not found:
        return pa.schema([])
    try:
        schema = pyarrow.dataset.dataset(found[0], format=format_).schema
    except (OSError, pa.ArrowException):
        return pa.schema([])
    return flat_schema(pa.schema([(field.name, _to_spark_type(field.type)) for field in schema]))


def _to_spark_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that Spark uses for a file's column."""
    for applies, convert in _SPARK_TYPES:
        if applies(type_):
            return convert(type_)
    return type_


_SPARK_TYPES: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_struct, lambda t: pa.struct([(member.name, _to_spark_type(member.type)) for member in t])),
    (pa.types.is_list, lambda t: pa.list_(_to_spark_type(t.value_type))),
    (pa.types.is_large_list, lambda t: pa.list_(_to_spark_type(t.value_type))),
    (pa.types.is_map, lambda t: pa.map_(_to_spark_type(t.key_type), _to_spark_type(t.item_type))),
    (pa.types.is_dictionary, lambda t: _to_spark_type(t.value_type)),
    (pa.types.is_timestamp, lambda t: TIMESTAMP if t.tz else pa.timestamp("us")),
    (pa.types.is_large_string, lambda t: pa.string()),
    (pa.types.is_large_binary, lambda t: pa.binary()),
    (pa.types.is_fixed_size_binary, lambda t: pa.binary()),
    (pa.types.is_uint8, lambda t: pa.int16()),
    (pa.types.is_uint16, lambda t: pa.int32()),
    (pa.types.is_uint32, lambda t: pa.int64()),
    (pa.types.is_uint64, lambda t: pa.decimal128(20, 0)),
)
