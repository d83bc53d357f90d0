"""Add columns of a table to events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from etl.api import (
    ArrowStep,
    CountingOperator,
    FieldName,
    Finding,
    LookupTable,
    Names,
    Schema,
    format_type,
    nearest,
    unknown_field,
    with_fields,
)

if TYPE_CHECKING:
    from etl.tables.table_store import LiveTable, TableRequest

_KEYS: Mapping[str, int] = {"cidr": 1, "range": 2, "prefix": 1, "suffix": 1, "like": 1, "regex": 1}
"""How matches are made → how many columns the table's key has; ``exact`` takes any number."""


class Lookup(ArrowStep):
    """Add columns of a table to the events whose key it has.

    The table is declared under `tables` and read when the run starts, into a file that all workers map: ten million addresses
    take 80 MB once, not once a worker, and none of them passes through Python. With the table's `refresh` it is read again
    while the events flow; if that fails, the previous version stays in use, and the run reports it.

    An exact match compares whole numbers with whole numbers and texts with texts, letter by letter. A `cidr` table holds
    networks, of which the longest prefix counts; a `range` table the first and last values of numbers or times, of which the
    range that begins last counts; a `prefix` or `suffix` table texts, of which the longest counts, a suffix only as whole
    labels of a domain's name, whatever the case of its letters. The key of a `like` or `regex` table is a pattern, and the
    first one in the table's order that the field fits counts; `regex` is that of RE2, with look-around and back-references
    left to a slower engine that has a tenth of a second for each text. A key that is null is in no table.

    ```yaml
    type: lookup
    table: intel
    on: source.ip
    add: {threat.category: category, threat.score: score}
    miss: keep
    ```
    """

    type: Literal["lookup"] = "lookup"
    table: str = Field(description="The table, as `tables` of the file names it.")
    on: Names = Field(description="The field to look up, or several that are one key together.", examples=["source.ip"])
    add: Mapping[FieldName, str] = Field(
        min_length=1,
        description="New field → the column of the table it is filled from.",
        examples=[{"threat.category": "category"}],
    )
    match: Literal["exact", "cidr", "range", "prefix", "suffix", "like", "regex"] = Field(
        default="exact",
        description="When a row belongs to an event: its key is equal, holds it, is how it begins or ends, or a pattern it fits.",
    )
    miss: Literal["keep", "drop", "dead_letter"] = Field(
        default="keep", description="What happens to an event whose key the table lacks; kept, its new fields are null."
    )
    several: Literal["first", "all", "list"] = Field(
        default="first",
        description="Of several rows with one key: the first, an event for each, or a list of all their values.",
    )
    replaces: Sequence[FieldName] | None = Field(
        default=None,
        description="Fields of `add` that an event may have before, and that are replaced; that it has another is an error of "
        "lint. None means that all may be replaced.",
        examples=[["user_name"]],
    )
    defaults: Mapping[FieldName, str | int | float | bool] = Field(
        default={}, description="Values of new fields where the table lacks the key, instead of null."
    )

    _table: LookupTable | None = PrivateAttr(default=None)
    _folder: str | None = PrivateAttr(default=None)

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        return {("table",): self.table}

    def with_tables(self, tables: Mapping[str, LookupTable], folder: str | None = None) -> Self:
        step = self.model_copy()
        step._table, step._folder = tables.get(self.table, self._table), folder
        return step

    def table_requests(self) -> Iterable[TableRequest]:
        """The columns of its table that it needs."""
        from etl.tables.table_file import Shape
        from etl.tables.table_store import TableRequest

        assert self._table is not None
        columns = pa.schema([(name, self._table.column(name)) for name in dict.fromkeys(self.add.values())])
        key = tuple(self._table.key)
        return [TableRequest(self.table, self._table, Shape(key, columns, self.match, self.several != "first"))]

    def check(self, incoming: Schema) -> Iterable[Finding]:
        for at, name in enumerate(self.on):
            if name not in incoming.names:
                path = ("on", at) if len(self.on) > 1 else ("on",)
                yield unknown_field(name, incoming, path)
        for name, column in self.add.items():
            if self.replaces is not None and name not in self.replaces and name in incoming.names:
                message = f"events have a field {name!r}, which the column {column!r} of {self.table!r} would replace"
                yield Finding("name-conflict", message, ("add", name), f"give the column another name, in SQL {column} AS other")
        for at, name in enumerate(self.replaces or ()):
            if name not in self.add:
                yield Finding("unknown-field", f"{name!r} is not a field of `add`", ("replaces", at), nearest(name, self.add))
        for name in self.defaults:
            if name not in self.add:
                yield Finding("unknown-field", f"{name!r} is not a field of `add`", ("defaults", name), nearest(name, self.add))
            elif self._table is not None and not _castable(self.defaults[name], self._table.column(self.add[name])):
                accepted = format_type(self._table.column(self.add[name]))
                yield Finding("wrong-type", f"{self.defaults[name]!r} is not of type {accepted}", ("defaults", name))
        if self.defaults and self.miss != "keep":
            message = "events whose key the table lacks are not kept, so no default applies"
            yield Finding("useless-option", message, ("defaults",), "leave it out, or write `miss: keep`")
        if self.several != "first" and self.match in ("cidr", "range"):
            yield Finding("useless-option", f"of a {self.match} table one row belongs to an event at most", ("several",))
        if self._table is not None:
            yield from self._table_findings(self._table, incoming)

    def _table_findings(self, table: LookupTable, incoming: Schema) -> Iterable[Finding]:
        known = table.names()
        for name, column in self.add.items():
            if known is not None and column not in known:
                yield Finding("unknown-column", f"the table has no column {column!r}", ("add", name), nearest(column, known))
        accepted = _KEYS.get(self.match, len(self.on))
        if len(table.key) != accepted:
            message = f"the key of table {self.table!r} has {_columns(len(table.key))}, and this needs {accepted}"
            yield Finding("wrong-key", message, ("table",), "one for each field of `on`; first and last value for `match: range`")
        elif self.match != "exact" and len(self.on) != 1:
            yield Finding("wrong-key", f"`match: {self.match}` looks up one field", ("on",))
        else:
            yield from self._type_findings(table, incoming)

    def _type_findings(self, table: LookupTable, incoming: Schema) -> Iterable[Finding]:
        pairs = zip(self.on, table.key, strict=True) if self.match == "exact" else ((self.on[0], key) for key in table.key)
        for field, key in pairs:
            mine = incoming.field(field).type if field in incoming.names else pa.null()
            theirs = table.column(key)
            if self.match not in ("exact", "range") and _kind(mine) != "text" and mine != pa.null():
                yield Finding(
                    "wrong-type", f"`match: {self.match}` looks up texts, and {field!r} is {format_type(mine)}", ("on",)
                )
                return
            if pa.null() not in (mine, theirs) and _kind(mine) != _kind(theirs):
                message = f"field {field!r} is {format_type(mine)}, and the table's {key!r} is {format_type(theirs)}"
                yield Finding(
                    "wrong-type", message, ("on",), f"declare it under the table's `columns`: {{{key}: {format_type(mine)}}}"
                )

    def fields(self, incoming: Schema) -> Schema:
        types = {name: self._table.column(column) if self._table else pa.null() for name, column in self.add.items()}
        return with_fields(
            incoming, {name: pa.list_(type_) if self.several == "list" else type_ for name, type_ in types.items()}
        )

    def notes(self, incoming: Schema) -> Iterable[str]:
        """How the table is looked up, and what happens to an event without a row."""
        keys = f" (key {', '.join(self._table.key)})" if self._table is not None else ""
        outcome = {"keep": "kept", "drop": "dropped", "dead_letter": "a dead letter"}[self.miss]
        yield f"{', '.join(self.on)} looked up in table {self.table!r}{keys}, match {self.match}; a miss is {outcome}"

    takes_views = True

    def may_multiply_events(self) -> bool:
        return self.several == "all"

    def open(self, incoming: Schema) -> CountingOperator:
        from etl.steps.table_lookup import TableLookup

        given = self.fields(incoming)
        defaults = {name: pa.scalar(value).cast(given.field(name).type) for name, value in self.defaults.items()}
        return TableLookup(self, self._live(), defaults)

    def _live(self) -> LiveTable:
        from etl.tables.table_store import LiveTable, build_temporary

        (request,) = self.table_requests()
        return build_temporary(request) if self._folder is None else LiveTable(Path(self._folder) / request.id)


def _castable(value: object, type_: pa.DataType) -> bool:
    try:
        pa.scalar(value).cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_integer(type_):
        return "whole number"
    return "text" if type_ in (pa.string(), pa.string_view(), pa.large_string()) else format_type(type_)


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def tables_of(steps: Sequence[object]) -> dict[str, TableRequest]:
    """The requests of steps for tables by id, each once."""
    from etl.tables.table_store import TableReader

    return {request.id: request for step in steps if isinstance(step, TableReader) for request in step.table_requests()}
