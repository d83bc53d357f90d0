"""The ``file`` sink: JSON lines, CSV or Parquet, in one file or in folders of parts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from connectors.file.writing import option_checks
from connectors.file.writing.appender import Appender
from connectors.file.writing.encodings import EXTENSIONS, Compression, Encoding, Format
from connectors.file.writing.part_layout import PartLayout
from connectors.file.writing.part_publisher import PartPublisher, join_bytes, join_parquet
from connectors.file.writing.staged_files import StagingWriter
from connectors.file.writing.stores import create_store
from connectors.shared.json_lines import Nulls
from connectors.shared.path_template import Template, example_path, parse_template
from etl.api import (
    Committer,
    Duration,
    FieldName,
    Finding,
    Guarantee,
    Schema,
    Sink,
    Size,
    Task,
    Writer,
    kind_findings,
    refused_changes,
    visible,
)


class RollOptions(BaseModel):
    """When a part is complete and the next begins: at whichever limit is reached first."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    max_bytes: Size = Field(default=128 << 20, gt=0, description="Maximum bytes of a part, as stored.")
    max_age: Duration = Field(
        default=timedelta(hours=1), gt=timedelta(0), description="How long events are added to a part after its begin."
    )


class FileSink(Sink):
    """Write events to a file, or to folders of parts.

    Exactly once: tasks stage their events; the commit of a micro-batch appends them and records the file's length. A restart
    truncates files to that length, so uncommitted bytes of a crash disappear; they are visible until then. Events of one
    split, the unit of parallelism, keep their order, and splits are in the order of the source. Tested by killing runs at
    random moments and comparing the output.

    A path that ends in ``/`` is a folder of parts named ``part-<begin in UTC>-<number>``, which are appended to until they
    are large or old (``roll``), so ``tail -f`` works. A name in braces is replaced by the value of a field
    (``{source.ip}``; null and empty are ``__null__``, unsafe characters are percent-encoded) or a date (``{yyyy-MM-dd}``,
    letters ``yyyy MM dd HH mm``, in UTC); such a path is a folder, too, unless its last part has an extension
    (``out/{host}.json``): one growing file for each value. All output is under the literal text before the first brace. An
    existing file is continued at its end; if another program moves, truncates or replaces a file while it is open, the sink
    warns and continues at its end or in a new file.

    Each value of a field in the path creates a file or a folder. ``max_paths`` limits the paths of one split: events of
    more paths become dead letters (``too-many-paths``). `etl lint` warns of a field in the path unless ``max_paths`` is
    set, and a run warns if a micro-batch writes a thousand files or more. The files of a micro-batch are synced together:
    100,000 new ones take 8 s of CPU in the tasks and 10 s in the commit. The first signal to stop waits for the commit, a second
    ends the run at once; the next run takes back what was not committed and does the micro-batch again.

    JSON lines nest dotted fields, and keep null members unless ``nulls: omit`` is set; CSV has a header in each file, dotted
    names, and JSON text in columns of lists and maps. Parquet cannot be appended to: committed events wait in the state
    folder until their part is full or old, or the run ends; so do events for a file system of `pyarrow.fs`
    (``s3://bucket/folder/``, ``hdfs://host/folder/``). A single Parquet file is written when the run ends. A full disk
    fails the write, which is retried and then ends the run: nothing is lost or repeated.

    Results that change, such as those of ``top`` with ``changelog: true``, are written with ``changes: kind`` with the field
    ``_kind``: `+I` for a row that is added, `-U` and `+U` for a row before and after a change, `-D` for one that is removed. With
    ``changes: debezium`` a line is ``{"before": null, "after": {…}, "op": "c"}`` or
    ``{"before": {…}, "after": null, "op": "d"}``, as Flink's format `debezium-json` writes it: a row that changes is removed and
    added.

    ```yaml
    type: file
    path: out/{yyyy-MM-dd}/
    format: json
    compression: gzip
    ```
    """

    type: Literal["file"] = "file"
    path: str = Field(
        description="The file to write, or with a slash at the end a folder of parts; `{field}` and `{yyyy-MM-dd}` are replaced.",
        min_length=1,
        examples=["out/events.json", "out/{yyyy-MM-dd}/{host}/"],
    )
    format: Format = Field(default="json", description="Format of the output: JSON lines, CSV or Parquet.")
    compression: Literal["auto", "none", "gzip", "zstd"] = Field(
        default="auto",
        description="Compression; auto derives it from the path's extension (.gz, .zst), else zstd for Parquet, else none.",
    )
    nulls: Nulls = Field(
        default="keep", description="Whether JSON lines contain null members; omit also removes objects without other members."
    )
    changes: Literal["none", "kind", "debezium"] = Field(
        default="none",
        description="How results that change are written: not at all, each as an event with its kind in the field `_kind`, or "
        "as JSON lines of Debezium, which events that are only added are then, too.",
    )
    roll: RollOptions = Field(default=RollOptions(), description="When a part of a folder is complete.")
    time_field: FieldName | None = Field(
        default=None,
        description="Timestamp for dates in the path; without it the field `timestamp`, else the time of writing.",
    )
    max_paths: int = Field(
        default=100_000,
        ge=1,
        description="Maximum number of paths for the events of one split; events of more paths become dead letters.",
    )

    guarantee: ClassVar[Guarantee] = "exactly once"
    any_order: ClassVar[bool] = True
    takes_views: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check placeholders, formats that contradict the path, and options without effect."""
        template = self._template
        wrong = [
            *option_checks.check_path(self.path),
            *option_checks.check_placeholders(self.path, self.time_field, visible(incoming)),
        ]
        yield from wrong
        if not wrong and "max_paths" not in self.model_fields_set:
            yield from option_checks.check_bounded_fields(self.path, visible(incoming))
        if not wrong and not self._is_remote:
            yield from option_checks.check_folders(template)
        yield from option_checks.check_format(self.path, self._encoding)
        if not template.is_folder:
            yield from option_checks.check_single_file(
                self.path, self._encoding, self._is_remote, "roll" in self.model_fields_set
            )
        if "max_paths" in self.model_fields_set and not template.fields:
            message = "the path contains no field, such as {host}"
            yield Finding("unused-option", message, ("max_paths",), severity="warning")
        if self.nulls == "omit" and self.format != "json":
            message = f"{self.format} has a column for every field; nulls is only used with format: json"
            yield Finding("unused-option", message, ("nulls",), severity="warning")
        if self.time_field is not None and not template.dates:
            yield Finding("unused-option", "the path has no date such as {yyyy-MM-dd}", ("time_field",), severity="warning")

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """Changes are written if the option says how."""
        if self.changes == "none":
            yield from refused_changes(incoming, "the file only adds events", "add changes: debezium or changes: kind")
        elif self.changes == "kind":
            yield from kind_findings(incoming)
        elif self.format != "json":
            yield Finding(
                "changes-conflict", "Debezium's changes are JSON lines", ("changes",), "write format: json, or changes: kind"
            )

    def host_path(self) -> str | None:
        """Return the path, unless it is a URI."""
        return None if "://" in self.path else self._location

    def targets(self) -> Iterable[str]:
        """Return the file or folder, absolute."""
        return (self._location.rstrip("/"),)

    def writes(self) -> Iterable[str]:
        """Return the file, or an example of a file in the folder."""
        if self._is_remote:
            return self.targets()
        path = example_path(self._template)
        part = f"part-20260101T000000Z-000000{self._encoding.extension}"
        return (os.path.join(path, part) if self._template.is_folder else path,)

    def open(self, task: Task) -> Writer:
        """Return a writer that stages the events of one split."""
        return StagingWriter(task, self._template, self._encoding, self._time(task.schema), self.max_paths)

    def committer(self, folder: str) -> Committer:
        """Return a committer that grows files if the target and format allow it, else one that publishes parts."""
        template, encoding = self._template, self._encoding
        age, private = self.roll.max_age.total_seconds(), _is_within(template.prefix, os.path.dirname(os.path.dirname(folder)))
        layout = PartLayout(template.is_folder, encoding.extension, self.roll.max_bytes, age, self.path, private)
        if encoding.format == "parquet":
            return PartPublisher(folder, layout, join_parquet, create_store(template.prefix, layout.folder_mode))
        if self._is_remote:
            return PartPublisher(folder, layout, join_bytes, create_store(template.prefix, layout.folder_mode))
        return Appender(folder, layout)

    @property
    def _location(self) -> str:
        """The path, absolute; a URI is unchanged."""
        path = self.path.removeprefix("file://")
        if "://" in path:
            return path
        return os.path.abspath(os.path.expanduser(path)) + ("/" if path.endswith("/") else "")

    @property
    def _is_remote(self) -> bool:
        return "://" in self._location

    @property
    def _template(self) -> Template:
        return parse_template(self._location)

    @property
    def _encoding(self) -> Encoding:
        return Encoding(self.format, self._compression, self.nulls, self.changes)

    @property
    def _compression(self) -> Compression:
        if self.compression != "auto":
            return self.compression
        by_path: Compression = next(
            (name for name, ending in EXTENSIONS.items() if ending and self.path.endswith(ending)), "none"
        )
        return "zstd" if self.format == "parquet" and by_path == "none" else by_path

    def _time(self, schema: pa.Schema) -> str | None:
        """Return the field of dates; None for the time of writing."""
        if self.time_field:
            return self.time_field
        return "timestamp" if "timestamp" in schema.names and option_checks.is_time(schema.field("timestamp").type) else None


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(os.path.abspath(folder), ""))
