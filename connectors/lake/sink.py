"""The ``lake`` sink: events as rows of a table of Delta Lake or Apache Iceberg."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from connectors.lake import option_checks
from connectors.lake.committer import LakeCommitter, Maintenance
from connectors.lake.lake_table import LakeTable, TableLayout, TableOptions
from connectors.lake.parquet_files import Compression
from connectors.lake.partition_fields import PATTERN, PartitionField, parse_partition_field
from connectors.lake.table_schema import LakeFormat, UnsupportedTypeError, event_columns, plan_evolution
from connectors.lake.writer import LakeWriter
from etl.api import Committer, ComponentError, Duration, Finding, Guarantee, Schema, Sink, Size, Task, Writer

LAYOUT_SECONDS = 60.0
"""How long a worker uses what it knows of a table: only changes by others are noticed late, and all commits check them."""

_SCHEMES = {"s3a": "s3", "abfss": "abfs"}
"""Scheme → the other name of the same object store."""

_layouts: dict[tuple[str, str, str], tuple[float, TableLayout]] = {}
"""Sink, query and fields → when the layout was fetched (monotonic seconds), and the layout."""

_PARTITION_ERROR = {
    "patternErrorMessage": "is not a field, nor one in year(…), month(…), day(…), hour(…), bucket(n, …), truncate(n, …)"
}


class CatalogOptions(BaseModel):
    """A catalog of Iceberg tables."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    type: Literal["sql", "rest", "glue"] = Field(
        description="The kind of catalog: a database through SQLAlchemy, a REST catalog (Polaris, Nessie, Unity …), or AWS Glue."
    )
    name: str = Field(default="default", description="The catalog's name; a database may have several catalogs.", min_length=1)
    uri: str | None = Field(
        default=None,
        description="Where the catalog is, for sql and rest.",
        examples=["https://catalog.example.org/api/catalog", "sqlite:////var/lib/sluice/catalog.db"],
    )
    warehouse: str | None = Field(
        default=None, description="Where the catalog creates tables, or its name.", examples=["s3://bucket/warehouse"]
    )
    properties: dict[str, SecretStr] = Field(
        default={},
        description="Further properties of the catalog, as PyIceberg names them; empty ones are left out.",
        examples=[{"credential": "${CATALOG_CREDENTIAL}"}],
    )

    @property
    def address(self) -> str:
        """Where the catalog is, without a login; its type if no address is given."""
        uri = self.uri or (self.properties["uri"].get_secret_value() if "uri" in self.properties else self.type)
        scheme, separator, rest = uri.partition("://")
        if not separator:
            return uri
        server, slash, path = rest.partition("/")
        if scheme == "sqlite" and not server:
            path = os.path.realpath(path.partition("?")[0])
        return f"{scheme}://{server.rpartition('@')[2]}{slash}{path.partition('?')[0].rstrip('/')}"

    def client_properties(self) -> dict[str, str]:
        """Properties as PyIceberg takes them, with secrets."""
        own = {"type": self.type, "uri": self.uri, "warehouse": self.warehouse}
        given = {name: value.get_secret_value() for name, value in self.properties.items()}
        return {name: value for name, value in (own | given).items() if value}


class CompactOptions(BaseModel):
    """When small data files are merged and old versions removed."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    every: Duration = Field(
        default=timedelta(hours=1), ge=timedelta(seconds=1), description="Time between two merges during a run."
    )
    target_size: Size = Field(
        default=128 << 20,
        ge=1 << 20,
        description="Size up to which data files are merged.",
        json_schema_extra={"default": "128MiB"},
    )
    keep: Duration = Field(
        default=timedelta(days=7),
        ge=timedelta(hours=1),
        description="How long versions of the table, and files that only they have, stay readable. Longer than any writer's "
        "micro-batch and any reader's query.",
    )


class LakeSink(Sink):
    """Write events as rows of a table of Delta Lake or Apache Iceberg.

    Exactly once: tasks write Parquet files, and the driver adds those of a micro-batch to the table in one commit, which also
    says which micro-batch it is. In Delta Lake that is the transaction identifier of the query (`txn`), in Iceberg the
    properties `sluice.query` and `sluice.batch` of the snapshot, and a property of the table that outlives the snapshot. A
    commit that the table has already is not repeated. Tested by killing runs at random moments and comparing the table. Other
    writers may write at the same time: a commit that one of them overtakes is tried again.

    A table that is missing is created with the fields of the pipeline as its columns; dotted fields become structs. New fields
    are added to the table, also inside structs, and Iceberg's columns become wider (`int` to `bigint`, `float` to `double`,
    decimals with more digits); ``evolve: false`` ends the run instead. A field with another type than its column ends the run
    before the first event. An integer that is too large for its column, and a null where the table forbids it, are dead letters
    (``does-not-fit``). Columns without a field are null.

    ``partition_by`` names fields; Iceberg also has ``year``, ``month``, ``day``, ``hour`` of times, ``bucket(16, field)`` and
    ``truncate(8, field)``. A split writes at least one file for each partition, of up to 64 at a time, and buffers up to 128 MiB.

    ``compact`` merges small files every so often while a run goes on, and removes versions older than ``keep``. Without it files
    are as large as splits make them. A killed run leaves files that no version has: Delta Lake's vacuum (``keep``)
    removes them.

    Needs the extra ``sluice-etl[lake]``.

    ```yaml
    type: lake
    format: delta
    table: out/events
    partition_by: [host]
    ```
    """

    type: Literal["lake"] = "lake"
    format: LakeFormat = Field(description="The table format.")
    table: str = Field(
        description="For delta the folder or URI of the table, for iceberg its name in the catalog with the namespace.",
        min_length=1,
        examples=["s3://bucket/events", "logs.events"],
    )
    catalog: CatalogOptions | None = Field(default=None, description="The catalog, for iceberg.")
    storage: dict[str, SecretStr] = Field(
        default={},
        description="Options of the object store, as delta-rs or PyIceberg names them; the environment has the rest.",
        examples=[{"AWS_ENDPOINT_URL": "https://s3.example.org", "AWS_SECRET_ACCESS_KEY": "${S3_SECRET}"}],
    )
    partition_by: tuple[Annotated[str, Field(pattern=f"^({PATTERN})$", json_schema_extra=_PARTITION_ERROR)], ...] = Field(
        default=(),
        description="Fields by which a created table is partitioned; an existing one must be partitioned so.",
        examples=[["host"], ["day(timestamp)", "bucket(16, user.name)"]],
    )
    evolve: bool = Field(default=True, description="Whether the table gets columns for new fields and, in Iceberg, wider types.")
    compression: Compression = Field(default="zstd", description="Compression of the data files.")
    table_properties: dict[str, str] = Field(
        default={},
        description="Properties of a table that is created.",
        examples=[{"delta.logRetentionDuration": "interval 7 days"}],
    )
    compact: CompactOptions | None = Field(default=None, description="When small files are merged; without it never.")

    guarantee: ClassVar[Guarantee] = "exactly once"
    any_order: ClassVar[bool] = True
    takes_views: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the address, fields of partitions, and types and names that the format does not have."""
        yield from option_checks.check_address(self.format, self.table, self.catalog is not None)
        yield from option_checks.check_columns(self.format, incoming)
        yield from option_checks.check_partitions(self.format, self._partition_fields, incoming)
        if self.catalog is not None:
            yield from option_checks.check_catalog(self.catalog.type, self.catalog.uri)

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """The table, if there is one, stores these events."""
        try:
            problems = self.lake_table().problems(event_columns(incoming, self.format), self._options)
        except (OSError, ComponentError, UnsupportedTypeError) as error:
            yield Finding("unreachable", str(error), ("table" if self.format == "delta" else "catalog",))
            return
        for problem in problems:
            yield Finding("table-mismatch", problem, ("table",))

    def host_path(self) -> str | None:
        """Return the folder of a local table."""
        return None if self.format == "iceberg" or "://" in self.table else self._location

    def targets(self) -> Iterable[str]:
        """Return the table."""
        if self.format == "delta":
            scheme, separator, path = self._location.partition("://")
            if not separator:
                return (os.path.realpath(self._location),)
            return (f"{_SCHEMES.get(scheme, scheme)}://{path}",)
        return (f"iceberg:{self.catalog.address if self.catalog else ''}/{self.table}",)

    def prepare(self, incoming: Schema) -> None:
        """Create the table, or change it so that it stores these events."""
        self.lake_table().prepare(event_columns(incoming, self.format), self._options)

    def open(self, task: Task) -> Writer:
        """Return a writer of data files."""
        return LakeWriter(task, self._layout(task), self.compression)

    def committer(self, folder: str) -> Committer:
        """Return what adds the data files to the table."""
        compact = self.compact
        maintenance = None
        if compact is not None:
            seconds = compact.every.total_seconds(), compact.keep.total_seconds()
            maintenance = Maintenance(seconds[0], compact.target_size, seconds[1], self.compression)
        return LakeCommitter(self.lake_table(), self.lake_table(), maintenance)

    def lake_table(self) -> LakeTable:
        """The table, which is not opened yet."""
        from connectors.lake.delta import DeltaLakeTable
        from connectors.lake.iceberg import IcebergLakeTable

        storage = {name: value.get_secret_value() for name, value in self.storage.items()}
        if self.format == "delta":
            return DeltaLakeTable(self._location, storage)
        if self.catalog is None:
            raise ComponentError("format: iceberg needs a catalog")
        return IcebergLakeTable(self.table, self.catalog.name, self.catalog.client_properties() | storage)

    def _layout(self, task: Task) -> TableLayout:
        """The layout of the table, known to this process for some time."""
        key = (self.model_dump_json(), task.batch.query, task.schema.to_string())
        known = _layouts.get(key)
        if known is not None and time.monotonic() - known[0] < LAYOUT_SECONDS:
            return known[1]
        layout = self.lake_table().layout()
        evolution = plan_evolution(layout.schema, event_columns(task.schema, self.format), self.format)
        if evolution or evolution.problems:
            changed = [*map(str, [*evolution.added, *evolution.widened]), *evolution.problems]
            raise ComponentError(f"{self.table} was changed during the run and lacks {'; '.join(changed)}: start again")
        _layouts.clear()
        _layouts[key] = time.monotonic(), layout
        return layout

    @property
    def _location(self) -> str:
        path = self.table.removeprefix("file://")
        return path.rstrip("/") if "://" in path else os.path.abspath(os.path.expanduser(path))

    @property
    def _partition_fields(self) -> tuple[PartitionField, ...]:
        return tuple(map(parse_partition_field, self.partition_by))

    @property
    def _options(self) -> TableOptions:
        return TableOptions(self._partition_fields, self.evolve, self.table_properties)
