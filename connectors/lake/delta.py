"""Tables of Delta Lake, through delta-rs.

Exactly once: a commit carries the transaction of its query, ``txn: {appId, version}``, whose version is the number of the
micro-batch (protocol, "Transaction Identifiers").
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.lake.delta_statistics import file_statistics
from connectors.lake.lake_table import TableLayout, TableOptions
from connectors.lake.parquet_files import Compression, WrittenFile
from connectors.lake.partition_division import Key
from connectors.lake.table_schema import Change, plan_evolution
from etl.api import ComponentError

if TYPE_CHECKING:
    from deltalake import DeltaTable

COMMIT_ATTEMPTS = 100
"""Attempts of a commit that other writers overtake, each with a new version of the log."""

_WRITABLE_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "timestampNtz",
        "v2Checkpoint",
        "v2Checkpoints",
        "vacuumProtocolCheck",
    }
)
"""Writer features whose rules an append of files follows; whether a table uses constraints is checked apart."""

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]")
"""What a folder's name gets ``_`` for: the values of partitions are in the log, not in paths."""

MAX_FOLDER_PART = 80
"""Characters of a column's name, and of its value, in a folder's name, which file systems limit to 255 bytes."""

_CODECS: Mapping[Compression, Any] = {"zstd": "ZSTD", "snappy": "SNAPPY", "none": "UNCOMPRESSED"}
"""Compressions as delta-rs names them."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def import_deltalake() -> Any:
    """The library. Raises ComponentError."""
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError as error:
        raise ComponentError("tables of Delta Lake need: pip install 'sluice-etl[lake]'") from error
    return deltalake


@dataclass
class DeltaLakeTable:
    """A table at a path or URI."""

    uri: str
    storage: Mapping[str, str]
    """Options of the object store."""
    _table: DeltaTable | None = field(default=None, init=False)
    """The table as it was opened last."""
    _known_entry: tuple[int, int, int | None] | None = field(default=None, init=False)
    """`_log_entry` of the version that the last commit left."""

    def prepare(self, columns: pa.Schema, options: TableOptions) -> None:
        """Create the table if it is missing, else add the columns that it lacks."""
        deltalake = import_deltalake()
        with self._errors():
            if not deltalake.DeltaTable.is_deltatable(self.uri, self._storage):
                self._create(columns, options)
            for _ in range(COMMIT_ATTEMPTS):
                table = self._open()
                if problems := _problems(table, columns, options):
                    raise ComponentError(f"{self.uri} cannot store these events: {'; '.join(problems)}")
                evolution = plan_evolution(_columns(table), columns, "delta")
                if not evolution.added:
                    return
                with suppress(deltalake.exceptions.CommitFailedError):  # another writer changes the table: look again
                    _add_columns(table, evolution.added)
        raise OSError(f"{self.uri}: other writers change the table all the time, its columns could not be added")

    def problems(self, columns: pa.Schema, options: TableOptions) -> Sequence[str]:
        """What `prepare` would refuse."""
        deltalake = import_deltalake()
        with self._errors():
            if not deltalake.DeltaTable.is_deltatable(self.uri, self._storage):
                return ()
            return _problems(self._open(), columns, options)

    def layout(self) -> TableLayout:
        """Data files are in a folder for each partition; partition columns are only in the log."""
        with self._errors():
            table = self._open()
            columns, partition_columns = _columns(table), list(table.metadata().partition_columns)
            identity = str(table.metadata().id)
            file_system, root = self._file_system()

        def new_path(key: Key, name: str) -> str:
            folders = [_folder_name(column, value) for column, value in zip(partition_columns, key, strict=True)]
            return "/".join([*root, *folders, name])

        def describe(file: WrittenFile) -> dict[str, Any]:
            values = {column: _partition_value(value) for column, value in zip(partition_columns, file.key, strict=True)}
            path = file.path.removeprefix("/".join([*root, ""]))
            statistics = file_statistics(file.metadata)
            return {"table": identity, "path": path, "size": file.bytes, "partition_values": values, "stats": statistics}

        return TableLayout(
            columns,
            lambda rows: [
                rows.column(name) if name in rows.schema.names else pa.nulls(rows.num_rows) for name in partition_columns
            ],
            lambda schema: pa.schema([column for column in schema if column.name not in partition_columns]),
            new_path,
            file_system,
            describe,
        )

    def commit(self, query: str, number: int, added: Sequence[Any]) -> bool:
        """One transaction with all files and the number of the micro-batch."""
        deltalake = import_deltalake()
        transactions = deltalake.transaction
        with self._errors():
            table = self._open_current()
            application = f"sluice-{query}"
            committed = table.transaction_version(application)
            if committed is not None and committed >= number:
                return False
            self._check_same(table, added)
            now = int(time.time() * 1000)
            files = [{name: value for name, value in one.items() if name != "table"} for one in added]
            actions = [transactions.AddAction(modification_time=now, data_change=True, **one) for one in files]
            properties = transactions.CommitProperties(
                custom_metadata={"engine": "sluice", "query": query, "batch": str(number)},
                max_commit_retries=COMMIT_ATTEMPTS,
                app_transactions=[transactions.Transaction(application, number)],
            )
            columns = list(table.metadata().partition_columns)
            table.create_write_transaction(actions, "append", table.schema(), columns, commit_properties=properties)
            before = table.version()
            table.update_incremental()
            self._sync_log(before, table.version())
            self._known_entry = self._log_entry(table.version())
        return True

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove data files that no commit has added."""
        with self._errors():
            file_system, _ = self._file_system()
        for path in paths:
            with suppress(OSError):
                file_system.delete_file(path)

    def compact(self, target_bytes: int, compression: Compression) -> int:
        """Delta-rs merges the files of each partition; appends of other writers do not conflict with that."""
        with self._errors():
            properties = import_deltalake().WriterProperties(compression=_CODECS[compression])
            metrics = self._open().optimize.compact(target_size=target_bytes, writer_properties=properties)
        return int(metrics["numFilesRemoved"])

    def expire(self, keep_seconds: float) -> None:
        """Vacuum: removes files that no version within the time has, those of killed tasks included."""
        with self._errors():
            hours = math.ceil(keep_seconds / 3600)
            self._open().vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True)

    @property
    def _storage(self) -> dict[str, str] | None:
        return dict(self.storage) or None

    def _open(self) -> DeltaTable:
        """The newest version of the table."""
        if self._table is None:
            self._table = import_deltalake().DeltaTable(self.uri, storage_options=self._storage)
        else:
            self._table.update_incremental()
        return self._table

    def _open_current(self) -> DeltaTable:
        """The newest version of the table that is there now: one that was dropped and created again has another log."""
        if self._table is not None and self._log_entry(self._table.version()) != self._known_entry:
            self._table = None  # also if log retention has removed the entry
        return self._open()

    def _log_entry(self, version: int) -> tuple[int, int, int | None]:
        """The version, the size and the time (nanoseconds) of its file in the log."""
        file_system, root = self._file_system()
        found = file_system.get_file_info("/".join([*root, "_delta_log", f"{version:020d}.json"]))
        return version, found.size, found.mtime_ns

    def _check_same(self, table: DeltaTable, added: Sequence[Mapping[str, Any]]) -> None:
        """Files were written for this table. Raises ComponentError."""
        metadata = table.metadata()
        expected = str(metadata.id), set(metadata.partition_columns)
        if any((one["table"], set(one["partition_values"])) != expected for one in added):
            raise ComponentError(f"{self.uri} was replaced or partitioned otherwise during the run: start again")

    def _create(self, columns: pa.Schema, options: TableOptions) -> None:
        deltalake = import_deltalake()
        partition_by = [one.field for one in options.partition_by]
        # a lost race with another creator is not an error: the table is there
        deltalake.DeltaTable.create(
            self.uri,
            _nullable(columns),
            mode="ignore",
            partition_by=partition_by or None,
            configuration=dict(options.properties) or None,
            storage_options=self._storage,
        )

    def _file_system(self) -> tuple[Any, Sequence[str]]:
        """The file system of the data files, and the parts of the path before the table's root in it."""
        from pyarrow.fs import LocalFileSystem, PyFileSystem

        if "://" not in self.uri:
            return LocalFileSystem(), (self.uri.rstrip("/"),)
        from deltalake.fs import DeltaStorageHandler

        return PyFileSystem(DeltaStorageHandler(self.uri, self._storage)), ()

    def _sync_log(self, before: int, version: int) -> None:
        """Make the versions after ``before`` durable on a local disk, where delta-rs leaves that to the kernel."""
        if "://" in self.uri:
            return
        folder = os.path.join(self.uri, "_delta_log")
        for path in (*(os.path.join(folder, f"{one:020d}.json") for one in range(before + 1, version + 1)), folder):
            with suppress(FileNotFoundError):
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of delta-rs as ours: what a retry may mend is an OSError."""
        exceptions = import_deltalake().exceptions
        try:
            yield
        except exceptions.CommitFailedError as error:
            raise OSError(f"{self.uri}: {_first_lines(error)}") from error
        except exceptions.DeltaError as error:
            raise ComponentError(f"{self.uri}: {_first_lines(error)}") from error
        except OSError as error:
            raise OSError(_first_lines(error) if self.uri in str(error) else f"{self.uri}: {_first_lines(error)}") from error


def _columns(table: DeltaTable) -> pa.Schema:
    """The table's columns as Arrow has them."""
    found: pa.Schema = pa.schema(table.schema().to_arrow())
    return found


def _nullable(columns: pa.Schema) -> pa.Schema:
    return pa.schema([column.with_nullable(True) for column in columns])


def _problems(table: DeltaTable, columns: pa.Schema, options: TableOptions) -> list[str]:
    """Why the table does not take these columns."""
    features = set(table.protocol().writer_features or ())
    configuration = table.metadata().configuration
    found = [f"it needs the feature {one!r}, which this sink does not write" for one in sorted(features - _WRITABLE_FEATURES)]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        found.append("its columns are mapped (delta.columnMapping.mode)")
    if any(name.startswith("delta.constraints.") for name in configuration):
        found.append("it has constraints, which this sink does not check")
    existing = _columns(table)
    partition_columns = list(table.metadata().partition_columns)
    binary = [name for name in partition_columns if pa.types.is_binary(existing.field(name).type)]
    found += [f"it is partitioned by the bytes of {name!r}, which this sink does not write" for name in binary]
    found += [f"its column {name!r} has a dot in its name" for name in existing.names if "." in name]
    for column in table.schema().fields:
        rules = {"delta.generationExpression", "delta.invariants", "delta.identity.start"} & set(column.metadata or {})
        found += [f"its column {column.name!r} has {rule}" for rule in sorted(rules)]
    requested, actual = [one.field for one in options.partition_by], partition_columns
    if requested and requested != actual:
        by = ", ".join(actual) if actual else "nothing"
        found.append(f"it is partitioned by {by}, and partition_by says {', '.join(requested)}")
    evolution = plan_evolution(existing, columns, "delta")
    found += evolution.problems
    if evolution.added and not options.evolve:
        found.append(f"it has no columns for {', '.join(map(str, evolution.added))}, and evolve is false")
    return found


def _add_columns(table: DeltaTable, added: Sequence[Change]) -> None:
    """Add columns, and members of structs, in one commit."""
    from deltalake import Schema

    columns = _columns(table)
    for change in added:
        columns = _with_column(columns, change.path, change.after)
    names = {change.path[0] for change in added}
    fields = Schema.from_arrow(pa.schema([column for column in columns if column.name in names])).fields
    table.alter.add_columns(list(fields))


def _with_column(columns: pa.Schema, path: Sequence[str], type_: pa.DataType) -> pa.Schema:
    at = columns.get_field_index(path[0])
    if at < 0:
        return columns.append(pa.field(path[0], type_))
    column = columns.field(at)
    return columns.set(at, column.with_type(_with_member(column.type, path[1:], type_)))


def _with_member(parent: pa.DataType, path: Sequence[str], type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(parent):
        return pa.struct(list(_with_column(pa.schema(list(parent)), path, type_)))
    if pa.types.is_list(parent):
        return pa.list_(parent.value_field.with_type(_with_member(parent.value_type, path[1:], type_)))
    items = parent.item_field.with_type(_with_member(parent.item_type, path[1:], type_))
    return pa.map_(parent.key_type, items)


def _partition_value(value: Any) -> str | None:
    """A partition value as the log has it (protocol, "Partition Value Serialization")."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else str(value)


def _folder_name(column: str, value: Any) -> str:
    text = _partition_value(value)
    shown = "__HIVE_DEFAULT_PARTITION__" if text is None else _UNSAFE_CHARACTERS.sub("_", text)[:MAX_FOLDER_PART]
    return f"{_UNSAFE_CHARACTERS.sub('_', column)[:MAX_FOLDER_PART]}={shown}"


def _first_lines(error: BaseException) -> str:
    """The message of a chain of errors, without colours and on one line."""
    lines = [line.strip(" ↳\t") for line in _COLOURS.sub("", str(error)).splitlines()]
    return ": ".join(line for line in lines if line)[:600]
