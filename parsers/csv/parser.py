"""The parser `csv`: delimited values, quoted or not."""

from __future__ import annotations

import csv as stdlib_csv
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import (
    FieldName,
    Finding,
    Outcome,
    Parsed,
    Parser,
    Schema,
    TypeName,
    format_type,
    nearest,
    parse_type,
)
from etl.columns.texts import filter_batch, materialize_array
from parsers.common.failures import Failures, wrong_values
from parsers.common.field_checks import check_type, field_conflicts
from parsers.common.text_types import make_reader
from parsers.common.view_values import equal_to
from parsers.csv.record_pattern import REST, Dialect, escaped, plain
from parsers.csv.record_scanner import record_scanner

MAX_COLUMNS = 500

_NO_NAME = re.compile(r"[^A-Za-z0-9_@\-]+")


class Csv(Parser):
    """Reads a record of delimited values (RFC 4180), one in each text.

    Columns get the names in ``names``, in their order (a column named ``""`` is skipped), or else those in ``header``, with
    ``_`` for what no field name may have. A value may stand in quotes, and
    then hold delimiters, new lines and doubled quotes. After a closing quote only a delimiter may follow; a quote inside
    an unquoted value is a character like others. An empty value is null, quoted or not.

    An event fails when it has more or fewer values than there are names (``rest`` takes more, ``short`` allows
    fewer), a quote that nothing closes, or a value that does not fit the type that ``fields`` declares: whole and real
    numbers are decimal, booleans ``true false 1 0``, times ISO 8601 (read others as text, then with `timestamp`). A text
    that is equal to ``header`` is dropped and counted as filtered.

    Runs on the scanner, over whole batches in linear time.

    ```yaml
    type: csv
    header: time,client,port,bytes
    names: [timestamp, source.ip, source.port, source.bytes]
    fields: {timestamp: timestamp, source.port: int, source.bytes: bigint}
    ```
    """

    type: Literal["csv"] = "csv"
    takes_views: ClassVar[bool] = True

    names: list[FieldName | Literal[""]] = Field(
        default=[],
        max_length=MAX_COLUMNS,
        description="The columns' fields in order; an empty name skips a column, no name means those of the header.",
        examples=[["timestamp", "", "source.ip"]],
    )
    declared: dict[FieldName, TypeName] = Field(
        default={}, alias="fields", description="Spark SQL types of the fields that are not text.", examples=[{"status": "int"}]
    )
    header: str | None = Field(default=None, min_length=1, description="The line that names the columns, dropped wherever it is.")
    delimiter: str = Field(
        default=",", min_length=1, max_length=1, description="The character between values.", examples=[",", "\t"]
    )
    quote: str = Field(default='"', max_length=1, description="The character around quoted values; empty when there is none.")
    escape: Literal["doubled", "backslash"] = Field(
        default="doubled", description="How a quote is written inside quotes: twice, or after a backslash."
    )
    trim: bool = Field(default=False, description="Whether blanks and tabs around values are left out.")
    short: bool = Field(default=False, description="Whether there may be fewer values than names; the missing are null.")
    rest: FieldName | None = Field(default=None, description="Text field for what follows the last column, as it was written.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Names that repeat or contradict each other, types that no text fills, characters with two meanings."""
        yield from super().check(incoming)
        columns = self.columns
        for number, name in enumerate(columns):
            if name and name in columns[:number]:
                path: tuple[str | int, ...] = ("names", number) if self.names else ("header",)
                yield Finding("field-conflict", f"{name!r} names a column already", path)
        if len(columns) > MAX_COLUMNS:
            yield Finding("too-many-columns", f"{len(columns)} columns; there may be {MAX_COLUMNS}", ("header",))
        for name, type_ in self.declared.items():
            yield from self._check_declared(name, type_)
        if self.rest in columns:
            yield Finding("field-conflict", f"{self.rest!r} names a column already", ("rest",))
        if self.delimiter in (self.quote, "\r", "\n"):
            yield Finding("bad-delimiter", f"{self.delimiter!r} cannot stand between values", ("delimiter",))
        if not any(columns) and (columns or self.rest is None):
            message = "all columns are skipped" if columns else "there is neither a header nor a list of names"
            yield Finding("no-field", message, ("names",), "write names: [first, second], or header: the first line of the files")
        yield from field_conflicts(self, "names")

    def _check_declared(self, name: str, type_: str) -> Iterable[Finding]:
        if name not in self.columns and not any(self.columns):
            return  # that there are no columns is reported as such
        if name not in self.columns:
            hint = nearest(name, self.columns) or f"columns are {', '.join(filter(None, self.columns))}"
            yield Finding("unknown-field", f"no column is named {name!r}", ("fields", name), hint)
        yield from check_type(name, type_, make_reader)

    def parsed_fields(self) -> Schema:
        """The columns that have names, and ``rest``."""
        names = list(dict.fromkeys(name for name in self.columns if name))
        types = {name: parse_type(self.declared.get(name, "string")) for name in names}
        return pa.schema(list((types if self.rest is None else types | {self.rest: pa.string()}).items()))

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """As every parser; a text equal to the header is dropped."""
        run, header = super().open(incoming), self.header
        if header is None:
            return run

        def without_header(batch: pa.RecordBatch) -> Outcome:
            found = equal_to(batch.column(self.field), header)
            return run(filter_batch(batch, pa.array(~found)) if found.any() else batch)

        return without_header

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Patterns over the whole column, and others over the texts with too few values."""
        is_captured = tuple([bool(name) for name in self.columns])
        records = record_scanner(self._dialect, is_captured, rest=self.rest is not None, short=self.short)
        columns = {name: number for number, name in enumerate(self.columns) if name}
        types = {name: parse_type(self.declared.get(name, "string")) for name in columns}
        readers = {name: make_reader(type_) for name, type_ in types.items()}
        reason, dialect = self._reason(), self._dialect

        def parse(text: pa.Array) -> Parsed:
            captures, unmatched = records.scan(text)
            failures = Failures(unmatched, reason)
            found: dict[str, pa.Array] = {}
            for name, number in columns.items():
                texts = _unescape(captures, number, dialect)
                found[name], wrong = readers[name](texts)
                if wrong is not None:
                    failures.add(wrong, wrong_values(name, texts, wrong, format_type(types[name])))
            if self.rest is not None:
                found[self.rest] = captures[REST]
            return failures.to_parsed(found)

        return parse

    @property
    def columns(self) -> list[str]:
        """The columns' names in order, from the header where none are given."""
        if self.names or self.header is None:
            return list(self.names)
        return _header_names(self.header, self.delimiter, self.quote)

    @property
    def _dialect(self) -> Dialect:
        return Dialect(self.delimiter, self.quote, self.escape == "backslash", self.trim)

    def _reason(self) -> str:
        many = len(self.columns)
        count = f"1 to {many}" if self.short and many > 1 else str(many)
        more = " or more" if self.rest else ""
        return f"is not a record of {count}{more} values with {self.delimiter!r} between"


def _unescape(captures: Mapping[str, pa.Array], column: int, dialect: Dialect) -> pa.Array:
    """A column's values; views, unless some had to be rewritten."""
    texts, written = captures[plain(column)], captures.get(escaped(column))
    if written is None or written.null_count == len(written):
        return texts
    real = _replace_quotes(materialize_array(written).cast(pa.string()), dialect)
    return pc.coalesce(real, materialize_array(texts).cast(pa.string()))


def _replace_quotes(texts: pa.StringArray, dialect: Dialect) -> pa.StringArray:
    if dialect.backslash:
        return pc.replace_substring_regex(texts, r"(?s)\\(.)", r"\1")
    return pc.replace_substring(texts, dialect.quote * 2, dialect.quote)


def _header_names(line: str, delimiter: str, quote: str) -> list[str]:
    """The fields of a header's columns, empty for one without title; no field when the line is not a record."""
    quoting: Literal[0, 3] = stdlib_csv.QUOTE_MINIMAL if quote else stdlib_csv.QUOTE_NONE
    blanks = not delimiter.isspace()
    try:
        records = stdlib_csv.reader(
            [line], delimiter=delimiter, quotechar=quote or None, quoting=quoting, skipinitialspace=blanks
        )
        return [_field_name(title.strip()) for title in chain.from_iterable(records)]
    except (stdlib_csv.Error, TypeError, ValueError):
        return []


def _field_name(title: str) -> str:
    """``bytes in total`` → ``bytes_in_total``."""
    parts = [_NO_NAME.sub("_", part) for part in title.split(".")]
    return ".".join(part if re.match("[A-Za-z_@]", part) else f"_{part}" for part in parts) if title else ""
