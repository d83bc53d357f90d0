"""The ``clickhouse`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from connectors.clickhouse.insert_bodies import InsertBodies
from connectors.http.sink_options import LoginOptions
from etl.api import (
    Batching,
    ComponentError,
    FieldName,
    Finding,
    Guarantee,
    Schema,
    Task,
    Writer,
    unknown_field,
    visible,
)

MAX_BLOCK_EVENTS = 1_000_000
"""Largest block: ClickHouse divides larger ones (max_insert_block_size)."""

TableName = Annotated[
    str,
    Field(
        pattern=r"^[^\s.`'\"\\]+(\.[^\s.`'\"\\]+)?$",
        json_schema_extra={"patternErrorMessage": "is not a table such as logs or web.logs"},
    ),
]
Setting = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]

_DELIVERY_SETTINGS = {"async_insert": "0", "insert_deduplicate": "1", "deduplicate_blocks_in_dependent_materialized_views": "1"}
"""What exactly once needs: errors of a block are those of its request, and blocks are recognised, in materialized views, too."""

_OWN_SETTINGS = ("query", "insert_deduplication_token", "default_format", "user", "password", *_DELIVERY_SETTINGS)


class ClickHouseSink(LoginOptions):
    """Insert events as rows of a ClickHouse table, over its HTTP interface, as Arrow.

    Exactly once, where ClickHouse recognises blocks: each batch is one INSERT with a token (``insert_deduplication_token``)
    made of the identities of its events, and a block whose token the table remembers is not inserted again. The batches of
    a split are the same when it is written again, so they are cut by ``max_events`` and ``max_bytes`` alone, not by
    ``timeout``. This holds

    - for ReplicatedMergeTree tables (and SharedMergeTree of ClickHouse Cloud), which remember blocks by default, and for
      MergeTree tables with the setting ``non_replicated_deduplication_window``, which is 0 by default. A run that finds
      another table ends with the statement that is needed; ``delivery: at_least_once`` takes every table and sends no token.
    - as long as the table remembers: a window counts blocks (of all writers), and replicated tables also forget after
      ``replicated_deduplication_window_seconds``. A run that continues later may repeat its last blocks.
    - if all ``urls`` are replicas of one table. Servers with tables of their own do not know each other's blocks.
    - as long as neither the table nor ``batch`` changes between a killed run and the next.

    Results that Spark computes may come in another order when they are computed again; their blocks are known by their
    content, so they are at least once. With several partitions in a block ClickHouse stores each partition alone; a block
    that was stored in part is completed by the retry.

    A field goes to the column of its name, else to the one with dots as underscores (``source.ip`` to ``source_ip``), or to
    the one in ``columns``. A field without a column ends the run at its start. ClickHouse converts values to the column's
    type; null becomes the column's default where it is not Nullable (a text that is null only in columns of texts). Columns
    without a field get their defaults. Numbers and times that do not fit a column are dead letters: ClickHouse would store
    others. So are texts that a Nullable column would read as null. Elements of arrays, maps and tuples are not checked, and
    fractions are cut to the digits of the column. ClickHouse reads texts as times without a zone only; in columns that are not
    Nullable also others, if ``settings`` say ``cast_string_to_date_time_mode: best_effort``.

    ClickHouse rejects a block with a bad value as a whole: the block is halved until the bad rows are alone, and they become
    dead letters (``clickhouse-rejected``). A busy server (too many parts, queries or memory, a read-only replica), statuses in
    ``retry_on`` and lost connections are retried as ``retry`` says. A missing table or right, a wrong login and statuses in
    ``stop_on`` end the run without loss; statuses count where a response, such as that of a proxy, has no code of ClickHouse.
    Events of a split are inserted in order; splits are inserted in parallel, one request at a time each.

    Tested with chDB 26.5, ClickHouse's engine as a library, behind a small HTTP server of the tests: types, bad values,
    blocks that are sent again, runs and servers that are killed. Replicated tables, clusters and TLS of a ClickHouse server
    were not tried.

    ```yaml
    type: clickhouse
    urls: ["http://localhost:8123"]
    user: etl
    password: ${CLICKHOUSE_PASSWORD:-}
    table: web.logs
    ```
    """

    type: Literal["clickhouse"] = "clickhouse"
    table: TableName = Field(description="The table, or `database.table`.", examples=["logs", "web.logs"])
    columns: dict[FieldName, str] | None = Field(
        default=None,
        min_length=1,
        description="Field → column; only these fields are written. Without it all fields are.",
        examples=[{"source.ip": "ip", "message": "text"}],
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once",
        description="With tokens by which the table recognises blocks, or without; then a crash repeats rows.",
    )
    settings: dict[Setting, str] = Field(
        default={}, description="ClickHouse's settings of each INSERT.", examples=[{"insert_quorum": "2"}]
    )
    batch: Batching = Field(
        default=Batching(max_events=100_000, max_bytes=64 << 20),
        description="How events are divided into blocks; `timeout` counts with `delivery: at_least_once` only.",
    )

    guarantee: ClassVar[Guarantee] = "exactly once"
    identified: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check URLs, the login, fields, columns that two fields share, settings, and the size of blocks."""
        yield from self.check_requests()
        for number, url in enumerate(self.urls):
            if "?" in url:
                yield Finding("invalid-value", "the sink appends its own parameters", ("urls", number), "see the option settings")
        yield from self._check_columns(visible(incoming))
        for name in self.settings:
            if name in _OWN_SETTINGS:
                yield Finding("invalid-value", f"the sink sets {name} itself", ("settings", name), "remove it")
        if self.delivery == "exactly_once":
            yield from self._check_batch()

    def guaranteed(self) -> Guarantee:
        """Return the guarantee that ``delivery`` chooses."""
        return "exactly once" if self.delivery == "exactly_once" else "at least once"

    def repeats_batches(self) -> bool:
        """Return whether ClickHouse has to recognise batches."""
        return self.delivery == "exactly_once"

    def writes(self) -> Iterable[str]:
        """Return the table at each URL."""
        return [f"table {url.rstrip('/')}/{self.table}" for url in self.urls]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Log in, compare the table with the fields, and check that it recognises blocks."""
        from connectors.clickhouse.tables import QueryError, check_columns, find_forgetting, read_columns

        client = self.shared_client()
        try:
            columns = read_columns(client, self.statuses(), self.table)
            yield from check_columns(visible(incoming), self.columns, columns, self.table)
            if self.repeats_batches() and (reason := find_forgetting(client, self.statuses(), self.table)):
                yield Finding("no-deduplication", reason, ("delivery",), "or write delivery: at_least_once")
        except QueryError as error:
            yield Finding("not-ready", str(error), ("table",), "check table, user and password")

    def prepare(self, incoming: Schema) -> None:
        """Check the table before the first event."""
        for finding in self.probe(incoming):
            raise ComponentError(f"{finding.message}; {finding.hint}")

    def open(self, task: Task) -> Writer:
        """Return a writer, after reading the table's columns once in this process."""
        from connectors.clickhouse.tables import check_columns, match_columns, shared_columns
        from connectors.clickhouse.writer import InsertWriter

        fields = visible(task.schema)
        types = shared_columns(self.connection_settings(), self.statuses(), self.table)
        columns = match_columns(fields, self.columns, types)
        names = self.columns or fields.names
        if any(name not in columns for name in names):  # perhaps columns were added since this process has read them
            shared_columns.cache_clear()
            types = shared_columns(self.connection_settings(), self.statuses(), self.table)
            for finding in check_columns(fields, self.columns, types, self.table):
                raise ComponentError(f"{finding.message}; {finding.hint}")
            columns = match_columns(fields, self.columns, types)
        bodies = InsertBodies(self.table, columns, types, self._request_settings())
        is_ordered = task.ordered if self.repeats_batches() else None
        return InsertWriter(self.shared_client(), bodies, self.statuses(), is_ordered)

    def _request_settings(self) -> Mapping[str, str]:
        return {**self.settings, **_DELIVERY_SETTINGS}

    def _check_columns(self, fields: Schema) -> Iterable[Finding]:
        fields_by_column: dict[str, str] = {}
        for field, column in (self.columns or {}).items():
            if field not in fields.names:
                yield unknown_field(field, fields, ("columns", field))
            other = fields_by_column.setdefault(column, field)
            if other != field:
                message = f"fields {other!r} and {field!r} both go to column {column!r}"
                yield Finding("duplicate-column", message, ("columns",), "use another column for one of them")

    def _check_batch(self) -> Iterable[Finding]:
        if (self.batch.max_events or MAX_BLOCK_EVENTS + 1) > MAX_BLOCK_EVENTS:
            message = f"a block has at most {MAX_BLOCK_EVENTS:,} rows, so exactly once needs max_events up to it"
            yield Finding("invalid-value", message, ("batch",), "set max_events, or delivery: at_least_once")
        if "timeout" in self.batch.model_fields_set:
            message = "blocks that are recognised are not cut by time"
            yield Finding("unused-option", message, ("batch", "timeout"), "remove it", severity="warning")
