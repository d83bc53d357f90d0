"""The ``file`` sink: JSON lines, CSV or Parquet, in one file or in folders of parts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from connectors.file import checks
from connectors.file.appending import Appender
from connectors.file.encodings import EXTENSIONS, Compression, Encoding, Format
from connectors.file.gathering import Gatherer, join_bytes, join_parquet
from connectors.file.parts import Layout
from connectors.file.staging import StagingWriter
from connectors.file.stores import store_of
from connectors.file.templates import Template, example, parse_template
from connectors.json_lines import Nulls
from etl.api import Committer, Duration, FieldName, Finding, Schema, Sink, Size, Task, Writer, visible


class Roll(BaseModel):
    """When a part is finished and another begun; whichever comes first."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    max_bytes: Size = Field(default=128 << 20, gt=0, description="Most bytes in a part, as stored.")
    max_age: Duration = Field(
        default=timedelta(hours=1), gt=timedelta(0), description="How long events may be added to a part after it was begun."
    )


class FileSink(Sink):
    """Write events to a file, or to folders of parts.

    Exactly once: tasks stage their events under the identity of what they read; the commit of a micro-batch appends
    them and records the file's length. A restart cuts files back to that length, so what a crash left uncommitted
    disappears; it may be seen until then. Events of one split, the unit of parallelism, keep their order, and splits follow
    each other in the order of the source. Tested by killing runs at random moments and comparing what is there.

    A path that ends in ``/`` is a folder of parts named ``part-<begin in UTC>-<number>``, which are appended to
    until they are large or old (``roll``), so ``tail -f`` works. In braces, a path takes the value of a field
    (``{source.ip}``; null and empty are ``__null__``, anything unsafe is percent-encoded) or a date
    (``{yyyy-MM-dd}``, letters ``yyyy MM dd HH mm``, in UTC); then it is a folder too, unless its last part has an
    extension (``out/{host}.json``): one growing file for each value. All output lies under the literal text before
    the first brace. An existing file is continued behind its end; a file that somebody else moves, cuts or replaces
    while it is open is left to them, with a warning, and output goes on at its end or in a new one.

    Each value of a field in the path makes a file or a folder. ``max_paths`` bounds how many one split writes: events of
    further paths are dead letters (``too-many-paths``). `etl lint` warns of a field in the path as long as nothing is said,
    and a run warns when a micro-batch writes a thousand files or more. The files of a micro-batch are made durable together.

    JSON lines nest dotted fields, and keep null members unless ``nulls: omit``; CSV has a header for each file, dotted
    names, and JSON text in columns of lists and maps. Parquet cannot be appended: committed events wait in the state folder
    until their part is full, old, or the run ends; so do those for a file system of `pyarrow.fs` (``s3://bucket/folder/``,
    ``hdfs://host/folder/``). A single Parquet file is written when the run ends. A full disk fails the write, which is
    tried again and then ends the run: nothing is lost or repeated.

    ```yaml
    type: file
    path: out/{yyyy-MM-dd}/
    format: json
    compression: gzip
    ```
    """

    type: Literal["file"] = "file"
    path: str = Field(
        description="The file to write, or with a slash at its end a folder of parts; `{field}` and `{yyyy-MM-dd}` are replaced.",
        min_length=1,
        examples=["out/events.json", "out/{yyyy-MM-dd}/{host}/"],
    )
    format: Format = Field(default="json", description="How events are written: JSON lines, CSV or Parquet.")
    compression: Literal["auto", "none", "gzip", "zstd"] = Field(
        default="auto",
        description="How bytes are compressed; auto goes by the path's ending (.gz, .zst), else zstd for Parquet, else none.",
    )
    nulls: Nulls = Field(
        default="keep", description="Whether JSON lines have members that are null; omit leaves out objects of nothing else, too."
    )
    roll: Roll = Field(default=Roll(), description="When a part of a folder is finished.")
    time_field: FieldName | None = Field(
        default=None,
        description="Timestamp for dates in the path; without it the field `timestamp`, else the time of writing.",
    )
    max_paths: int = Field(
        default=100_000,
        ge=1,
        description="Most different paths that the events of one split may have; events of further ones are dead letters.",
    )

    guarantee: ClassVar[Literal["exactly once", "at least once", "none"]] = "exactly once"
    any_order: ClassVar[bool] = True
    takes_views: ClassVar[bool] = True

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Braces that cannot be filled, formats that do not fit the path, options without effect."""
        template = self._template
        wrong = [*checks.of_path(self.path), *checks.of_braces(self.path, self.time_field, visible(incoming))]
        yield from wrong
        if not wrong and "max_paths" not in self.model_fields_set:
            yield from checks.of_unbounded_fields(self.path, visible(incoming))
        yield from checks.of_format(self.path, self._encoding)
        if not template.is_folder:
            yield from checks.of_single_file(self.path, self._encoding, self._is_remote, "roll" in self.model_fields_set)
        if "max_paths" in self.model_fields_set and not template.fields:
            message = "the path takes no value of a field, such as {host}"
            yield Finding("unused-option", message, ("max_paths",), severity="warning")
        if self.nulls == "omit" and self.format != "json":
            message = f"{self.format} has a column for every field; nulls is for format: json"
            yield Finding("unused-option", message, ("nulls",), severity="warning")
        if self.time_field is not None and not template.dates:
            yield Finding("unused-option", "the path has no date such as {yyyy-MM-dd}", ("time_field",), severity="warning")

    def host_path(self) -> str | None:
        """The path, where it is no URI."""
        return None if "://" in self.path else self._location

    def targets(self) -> Iterable[str]:
        """The file or folder, absolute."""
        return (self._location.rstrip("/"),)

    def writes(self) -> Iterable[str]:
        """The file, or one as it would be called in the folder."""
        if self._is_remote:
            return self.targets()
        path = example(self._template)
        part = f"part-20260101T000000Z-000000{self._encoding.extension}"
        return (os.path.join(path, part) if self._template.is_folder else path,)

    def open(self, task: Task) -> Writer:
        """Stage the events of one split."""
        return StagingWriter(task, self._template, self._encoding, self._time(task.schema), self.max_paths)

    def committer(self, folder: str) -> Committer:
        """Grow files where the place and format allow it, gather parts elsewhere."""
        template, encoding = self._template, self._encoding
        age, private = self.roll.max_age.total_seconds(), _is_within(template.prefix, os.path.dirname(os.path.dirname(folder)))
        layout = Layout(template.is_folder, encoding.extension, self.roll.max_bytes, age, self.path, private)
        if encoding.format == "parquet":
            return Gatherer(folder, layout, join_parquet, store_of(template.prefix, layout.folder_mode))
        if self._is_remote:
            return Gatherer(folder, layout, join_bytes, store_of(template.prefix, layout.folder_mode))
        return Appender(folder, layout)

    @property
    def _location(self) -> str:
        """The path, absolute; a URI stays one."""
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
        return Encoding(self.format, self._compression, self.nulls)

    @property
    def _compression(self) -> Compression:
        if self.compression != "auto":
            return self.compression
        by_path: Compression = next(
            (name for name, ending in EXTENSIONS.items() if ending and self.path.endswith(ending)), "none"
        )
        return "zstd" if self.format == "parquet" and by_path == "none" else by_path

    def _time(self, schema: pa.Schema) -> str | None:
        """The field that dates are taken from; None for the time of writing."""
        if self.time_field:
            return self.time_field
        return "timestamp" if "timestamp" in schema.names and checks.is_time(schema.field("timestamp").type) else None


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(os.path.abspath(folder), ""))
