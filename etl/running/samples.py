"""Viewers of samples: they ask the tasks of a run for events at a point of its pipeline, and read what these have copied."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.api import EtlError, nearest, nest
from etl.config.model import Pipeline
from etl.config.stream_schemas import schemas_of
from etl.expressions import analyse
from etl.segment.taps import ERROR, TapRequest

EVENTS_OF_SPLIT = 50
"""Maximum number of events that are copied of one split."""

KEEP_SECONDS = 15.0
"""Seconds after which a request ends that its viewer has not renewed."""

RENEW_SECONDS = 3.0
"""Seconds for which a request is not written again."""


def tap_points(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Where the events of a source, stream or sink pass. Raises EtlError for another name."""
    if name in pipeline.sources:
        return (f"source {name}",)
    if name in pipeline.streams:
        stream = pipeline.streams[name]
        if stream.steps:
            last = len(stream.steps) - 1
            return (f"{name}[{last + stream.first_step}] {stream.steps[last].type}",)
        return tuple(dict.fromkeys(point for feed in stream.inputs for point in tap_points(pipeline, feed)))
    if name in pipeline.sinks:
        return (f"sink {name}",)
    names = list(dict.fromkeys([*pipeline.sources, *pipeline.streams, *pipeline.sinks]))
    hint = nearest(name, names) or f"there are {', '.join(names)}"
    raise EtlError(f"{name!r} is not a source, stream or sink; {hint}")


def check_condition(pipeline: Pipeline, name: str, where: str) -> None:
    """Raise EtlError for a condition that cannot be computed on the events of a source, stream or sink."""
    known = schemas_of(pipeline)
    inputs = pipeline.sinks[name].inputs if name in pipeline.sinks and name not in known else (name,)
    if len(inputs) != 1 or inputs[0] not in known:
        return
    analysis = analyse(where, known[inputs[0]])
    for finding in analysis.condition_findings_at("where"):
        if finding.severity == "error":
            raise EtlError(f"where: {finding.message}{f'; {finding.hint}' if finding.hint else ''}")
    if analysis.spark_reason:
        raise EtlError(f"where: only Spark computes {analysis.spark_reason}, and samples are taken without it")


class Tap:
    """The request of one viewer, in the state folder of a run."""

    def __init__(self, folder: Path, points: tuple[str, ...], where: str | None, limit: int) -> None:
        """Raises OSError."""
        self._folder = folder
        self._request = TapRequest(uuid.uuid4().hex, points, where, limit, 0.0)
        self.renew()

    def renew(self) -> None:
        """Ask for more; a request that nobody renews ends. Raises OSError."""
        until = time.time() + KEEP_SECONDS
        if 0 <= until - self._request.until < RENEW_SECONDS:
            return
        self._request = replace(self._request, until=until)
        self._request.write(self._folder)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The events that have come since, each once. Raises EtlError if the condition cannot be computed."""
        own = self._folder / self._request.id
        with suppress(OSError):
            raise EtlError(f"where: {(own / ERROR).read_text()}")
        for path in sorted(own.glob("*.arrow")):
            with suppress(OSError, pa.ArrowException):
                data = path.read_bytes()
                path.unlink()
                yield from _batches(data)

    def close(self) -> None:
        """End the request."""
        with suppress(OSError):
            (self._folder / f"{self._request.id}.json").unlink()
        shutil.rmtree(self._folder / self._request.id, ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()  # it was the last viewer: tasks stop looking


def _batches(data: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))


def plain_events(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Events as values of JSON."""
    import polars as pl

    from etl.columns.json.values import to_json_types

    columns = [to_json_types(column) if "binary" in str(column.type) else column for column in batch.columns]
    frame = pl.from_arrow(nest(pa.RecordBatch.from_arrays(columns, names=batch.schema.names)))
    assert isinstance(frame, pl.DataFrame)
    return [json.loads(line) for line in frame.write_ndjson().splitlines()] if frame.width else []
