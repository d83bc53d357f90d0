"""Tables of Apache Iceberg, through PyIceberg.

Exactly once: the snapshot of a commit has the query and the number of the micro-batch among its properties, and the commit also
sets a property of the table, atomically with the snapshot, that outlives the snapshot. Both are looked up before a commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from connectors.lake import iceberg_history
from connectors.lake.iceberg_compaction import merge_small_files
from connectors.lake.iceberg_history import BATCH, QUERY, committed_batch, committed_key
from connectors.lake.iceberg_partitions import (
    describe_partition_field,
    partition_folder,
    partition_record,
    partition_spec,
    partition_values,
    spell_partition,
)
from connectors.lake.iceberg_types import arrow_columns, iceberg_schema, iceberg_type
from connectors.lake.lake_table import TableLayout, TableOptions
from connectors.lake.parquet_files import Compression, ParquetFiles, WrittenFile
from connectors.lake.partition_division import Key
from connectors.lake.table_schema import Evolution, plan_evolution
from etl.api import ComponentError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

ATTEMPTS = 20
"""Attempts to change a table's columns while others change it."""

_DEFAULT_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "100"}
"""Properties of a created table: without them each commit leaves a file with all metadata for ever."""

_PERMANENT = (
    "BadRequestError",
    "ForbiddenError",
    "NoSuchNamespaceError",
    "NoSuchTableError",
    "NotInstalledError",
    "OAuthError",
    "UnauthorizedError",
    "ValidationError",
    "ValidationException",
)
"""Errors of PyIceberg that a retry does not mend."""

_CLIENTS = ("sqlalchemy", "botocore", "requests", "urllib3")
"""Libraries below PyIceberg whose errors a retry may mend."""

_PERMANENT_OF_CLIENTS = ("ArgumentError", "NoSuchModuleError")
"""Errors of SQLAlchemy about the catalog's address."""


@dataclass
class IcebergLakeTable:
    """A table of a catalog."""

    name: str
    catalog_name: str
    properties: Mapping[str, str]
    """Properties of the catalog and the object store."""
    _table: Table | None = field(default=None, init=False)
    _committed: dict[str, int] = field(default_factory=dict, init=False)
    """Query → number of the last micro-batch that this process has committed."""

    def prepare(self, columns: pa.Schema, options: TableOptions) -> None:
        """Create the table if it is missing, else add the columns that it lacks and widen those that are too narrow."""
        with self._errors():
            from pyiceberg.exceptions import CommitFailedException

            table = self._find() or self._create(columns, options)
            for _ in range(ATTEMPTS):
                if problems := _problems(table, columns, options):
                    raise ComponentError(f"{self.name} cannot store these events: {'; '.join(problems)}")
                evolution = plan_evolution(arrow_columns(table.schema(), with_ids=False), columns, "iceberg")
                if not evolution:
                    return
                with suppress(CommitFailedException):
                    _evolve(table, evolution)
                table.refresh()
        raise OSError(f"{self.name}: other writers change the table all the time, its columns could not be changed")

    def problems(self, columns: pa.Schema, options: TableOptions) -> Sequence[str]:
        """What `prepare` would refuse."""
        with self._errors():
            table = self._find()
            return () if table is None else _problems(table, columns, options)

    def layout(self) -> TableLayout:
        """Data files lie where the table's location provider says, and have the ids of columns."""
        with self._errors():
            table = self._open()
            schema, spec = table.schema(), table.spec()
            transforms = [
                (
                    schema.find_column_name(one.source_id),
                    one.transform.pyarrow_transform(schema.find_field(one.source_id).field_type),
                )
                for one in spec.fields
            ]
            file_system, _, _ = self._resolve(table, table.location())
            uris: dict[str, str] = {}

        def partition_keys(rows: pa.RecordBatch) -> Sequence[pa.Array]:
            return [
                partition_values(transform, rows.column(name)) if name in rows.schema.names else pa.nulls(rows.num_rows)
                for name, transform in transforms
            ]

        def new_path(key: Key, name: str) -> str:
            folder = f"{partition_folder(spec, schema, key)}/" if key else ""
            uri = table.location_provider().new_data_location(f"{folder}{name}")
            _, _, path = self._resolve(table, uri)
            uris[path] = uri
            return path

        def describe(file: WrittenFile) -> dict[str, Any]:
            return _describe(table, file, uris.pop(file.path))

        return TableLayout(
            arrow_columns(schema, with_ids=True), partition_keys, lambda columns: columns, new_path, file_system, describe
        )

    def commit(self, query: str, number: int, added: Sequence[Any]) -> bool:
        """One snapshot with all files, the query and the number of the micro-batch."""
        with self._errors():
            table = self._open()
            if query not in self._committed:  # the first commit of a run, or one after an error: only the table knows
                found = committed_batch(table, query)
                if found is not None:
                    self._committed[query] = found
            if self._committed.get(query, -1) >= number:
                return False
            self._committed.pop(query, None)  # until the commit has succeeded
            files = [_data_file(table, one) for one in added]
            transaction = table.transaction()
            with transaction.update_snapshot(snapshot_properties={QUERY: query, BATCH: str(number)}).merge_append() as append:
                for one in files:
                    append.append_data_file(one)
            transaction.set_properties({committed_key(query): str(number)})
            transaction.commit_transaction()
            self._committed[query] = number
        return True

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove data files that no commit has added."""
        with self._errors():
            table = self._open()
            file_system, _, _ = self._resolve(table, table.location())
        for path in paths:
            with suppress(OSError):
                file_system.delete_file(path)

    def compact(self, target_bytes: int, compression: Compression) -> int:
        """Merge the small files of each partition."""
        with self._errors():
            table = self._open()
            file_system, _, _ = self._resolve(table, table.location())
            uris: dict[str, str] = {}
            keys: dict[str, Key] = {}

            def files_of(key: Key, stem: str, schema: pa.Schema) -> ParquetFiles:
                numbers = count()

                def new_path(_: Key) -> str:
                    folder = f"{partition_folder(table.spec(), table.schema(), key)}/" if key else ""
                    uri = table.location_provider().new_data_location(f"{folder}{stem}-{next(numbers)}.parquet")
                    path = self._resolve(table, uri)[2]
                    uris[path], keys[path] = uri, key
                    return path

                return ParquetFiles(file_system, new_path, schema, compression, nested=True)

            def describe(file: WrittenFile) -> dict[str, Any]:
                return _describe(table, file, uris[file.path]) | {"key": keys[file.path]}

            return merge_small_files(table, target_bytes, describe, lambda one: _data_file(table, one), files_of)

    def expire(self, keep_seconds: float) -> None:
        """Remove snapshots that are older, and the files that only they have."""
        import time

        with self._errors():
            iceberg_history.expire(self._open(), int((time.time() - keep_seconds) * 1000))

    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        properties = dict(self.properties)
        if properties.get("type") == "rest":
            del properties["type"]
            properties["py-catalog-impl"] = "connectors.lake.rest_catalog.RestCatalogWithTimeout"
        return load_catalog(self.catalog_name, **properties)

    def _find(self) -> Table | None:
        """The table, or None if the catalog has none of this name."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            self._table = self._catalog().load_table(self.name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        return self._table

    def _open(self) -> Table:
        """The newest version of the table."""
        if self._table is None:
            self._table = self._catalog().load_table(self.name)
            return self._table
        identity = self._table.metadata.table_uuid
        try:
            self._table.refresh()
        except ValueError as error:  # PyIceberg compares the identities of tables, too
            raise ComponentError(f"{self.name} was replaced during the run: start again") from error
        if self._table.metadata.table_uuid != identity:
            raise ComponentError(f"{self.name} was replaced during the run: start again")
        return self._table

    def _create(self, columns: pa.Schema, options: TableOptions) -> Table:
        from pyiceberg.exceptions import TableAlreadyExistsError

        catalog, schema = self._catalog(), iceberg_schema(columns)
        namespace = self.name.rpartition(".")[0]
        if namespace:
            catalog.create_namespace_if_not_exists(namespace)
        spec = partition_spec(schema, options.partition_by)
        with suppress(TableAlreadyExistsError):  # another writer was faster
            catalog.create_table(
                self.name, schema, partition_spec=spec, properties=_DEFAULT_PROPERTIES | dict(options.properties)
            )
        self._table = catalog.load_table(self.name)
        return self._table

    def _resolve(self, table: Table, location: str) -> tuple[Any, str, str]:
        """File system, scheme and path of a location."""
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
        scheme, host, path = io.parse_location(location, io.properties)
        return io.fs_by_scheme(scheme, host), scheme, path

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of PyIceberg and the clients below as ours: what a retry may mend is an OSError."""
        try:
            import pyiceberg.exceptions
        except ImportError as error:
            raise ComponentError("tables of Iceberg need: pip install 'sluice-etl[lake]'") from error
        try:
            yield
        except ValueError as error:  # addresses and answers that nobody understands; those of requests are OSErrors, too
            kind = OSError if type(error).__name__ == "JSONDecodeError" else ComponentError
            hint = "; set catalog.warehouse to where tables are created" if "No default path" in str(error) else ""
            raise kind(f"{self.name}: {_first_line(error)}{hint}") from error
        except OSError as error:
            raise OSError(f"{self.name}: {_first_line(error)}") from error
        except ImportError as error:
            raise ComponentError(f"{self.name}: {error}; pip install 'sluice-etl[lake]'") from error
        except Exception as error:
            library = type(error).__module__.partition(".")[0]
            name = type(error).__name__
            if type(error).__module__ == pyiceberg.exceptions.__name__:
                kind = ComponentError if name in _PERMANENT else OSError
                raise kind(f"{self.name}: {name}: {_first_line(error)}") from error
            if library in _CLIENTS:
                kind = ComponentError if name in _PERMANENT_OF_CLIENTS else OSError
                raise kind(f"{self.name}: {_first_line(error)}") from error
            raise


def _problems(table: Table, columns: pa.Schema, options: TableOptions) -> list[str]:
    """Why the table does not take these columns."""
    existing = arrow_columns(table.schema(), with_ids=False)
    found = [f"its column {name!r} has a dot in its name" for name in existing.names if "." in name]
    requested = [spell_partition(one.field, one.transform, one.count) for one in options.partition_by]
    actual = [describe_partition_field(table, one) for one in table.spec().fields]
    if requested and requested != actual:
        by = ", ".join(actual) if actual else "nothing"
        found.append(f"it is partitioned by {by}, and partition_by says {', '.join(requested)}")
    evolution = plan_evolution(existing, columns, "iceberg")
    found += evolution.problems
    if evolution and not options.evolve:
        changes = ", ".join(map(str, [*evolution.added, *evolution.widened]))
        found.append(f"it would have to change its columns {changes}, and evolve is false")
    return found


def _evolve(table: Table, evolution: Evolution) -> None:
    """Add and widen columns in one commit."""
    ids = count(100_000)
    with table.update_schema() as update:
        for change in evolution.added:
            update.add_column(change.path, iceberg_type(change.after, ids))
        for change in evolution.widened:
            update.update_column(change.path, iceberg_type(change.after, ids))


def _describe(table: Table, file: WrittenFile, uri: str) -> dict[str, Any]:
    """What the driver needs of a data file, picklable."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )

    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.metadata,
        stats_columns=compute_statistics_plan(table.schema(), table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
    )
    return {
        "table": str(table.metadata.table_uuid),
        "spec": table.spec().spec_id,
        "uri": uri,
        "bytes": file.bytes,
        "key": file.key,
        "statistics": statistics.to_serialized_dict(),
    }


def _data_file(table: Table, one: Mapping[str, Any]) -> DataFile:
    """The entry of a data file in a manifest."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    if one["table"] != str(table.metadata.table_uuid) or one["spec"] != table.spec().spec_id:
        raise ComponentError(f"{'.'.join(table.name())} was replaced or partitioned otherwise during the run: start again")
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=one["uri"],
        file_format=FileFormat.PARQUET,
        partition=partition_record(table.spec(), table.schema(), one["key"]),
        file_size_in_bytes=one["bytes"],
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **one["statistics"],
    )


def _first_line(error: BaseException) -> str:
    """The message on one line; SQLAlchemy's later lines have the statement and its values."""
    if problem := _connection_problem(error):
        return problem
    return (str(error).strip() or type(error).__name__).splitlines()[0][:400]


def _connection_problem(error: BaseException) -> str:
    """The server and the operating system's reason of a connection that requests could not make; empty for other errors."""
    request, reason = getattr(error, "request", None), getattr(error.args[0] if error.args else None, "reason", None)
    if request is None or not isinstance(reason, BaseException):
        return ""
    while cause := reason.__cause__ or reason.__context__:
        reason = cause
    address = urlsplit(request.url)
    server = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"
    return f"cannot connect to {server}: {getattr(reason, 'strerror', None) or reason}"
