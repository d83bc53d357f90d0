"""The totals of a run as a file for monitoring: Prometheus' text format, for the textfile collector of its node exporter."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from etl.spark.reports.totals import Totals

EVERY_SECONDS = 5.0
"""Seconds between two versions of the file."""


class Sample(NamedTuple):
    """One number; its name ends in ``_total`` if it only grows."""

    name: str
    labels: Mapping[str, str]
    value: float
    since: float = 0.0
    """When it was 0, seconds since the epoch, if that was later than the start of the process."""


class MetricsFile:
    """Writes the totals of a pipeline to its file while it runs."""

    def __init__(self, path: Path, pipeline: str, totals: Totals) -> None:
        self._path, self._pipeline, self._totals = path, pipeline, totals
        self._due = 0.0

    def write_if_due(self) -> None:
        """Write a new version every `EVERY_SECONDS`; call it a few times a second."""
        if time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Replace the file atomically. An error, such as a full disk, does not stop the run."""
        self._due = time.monotonic() + EVERY_SECONDS
        draft = self._path.with_suffix(".new")
        try:
            draft.write_text("".join(f"{line}\n" for line in text_lines(samples(self._pipeline, self._totals))), "utf-8")
            os.replace(draft, self._path)
        except OSError:
            draft.unlink(missing_ok=True)


def text_lines(found: Iterable[Sample]) -> Iterator[str]:
    """The lines of the file, those of one name together."""
    by_name: dict[str, list[Sample]] = {}
    for sample in found:
        by_name.setdefault(sample.name, []).append(sample)
    for name, group in by_name.items():
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        for sample in group:
            labels = ",".join(f'{label}="{_escape(text)}"' for label, text in sample.labels.items())
            yield f"{name}{{{labels}}} {sample.value:.15g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def samples(pipeline: str, totals: Totals) -> Iterator[Sample]:
    """All samples of a pipeline."""
    common = {"pipeline": pipeline}
    yield Sample("sluice_bytes_total", common, totals.bytes)
    yield Sample("sluice_batches_total", common, totals.batches)
    yield Sample("sluice_dead_letters_total", common, totals.dead)
    for (at, code), rejected in list(totals.rejected.items()):
        yield Sample("sluice_rejected_events_total", {**common, "at": at, "code": code}, rejected.events)
    yield Sample("sluice_lag_seconds", common, totals.lag_seconds)
    if totals.event_time is not None:
        yield Sample("sluice_event_time_delay_seconds", common, round(time.time() - totals.event_time / 1e6, 3))
    now = time.time()
    for (source, query), lag in list(totals.lags.items()):
        labels = {**common, "source": source, "query": query}
        units = (
            ("events", lag.events),
            ("bytes", lag.bytes),
            ("notifications", lag.notifications),
            ("seconds", lag.seconds(now)),
        )
        for unit, number in units:
            if number is not None:
                yield Sample(f"sluice_source_lag_{unit}", labels, number)
    for query, watermark in list(totals.watermarks.items()):
        yield Sample("sluice_watermark_delay_seconds", {**common, "query": query}, round(now - watermark / 1e6, 3))
    for query, events in list(totals.late.items()):
        yield Sample("sluice_late_events_total", {**common, "query": query}, events)
    for source, counts in list(totals.read.items()):
        yield Sample("sluice_source_events_total", {**common, "source": source}, counts.incoming)
    for source, reasons in list(totals.dropped.items()):
        for reason, events in reasons.items():
            yield Sample("sluice_source_dropped_total", {**common, "source": source, "reason": reason}, events)
    yield from _sinks(common, totals)
    yield from _steps(common, totals)
    yield from _tables(common, totals)


def _sinks(common: Mapping[str, str], totals: Totals) -> Iterator[Sample]:
    for name, sink in list(totals.sinks.items()):
        parts = {"out": sink.accepted, "filtered": sink.filtered, "dead": sink.dead}
        for outcome, events in parts.items():
            yield Sample("sluice_sink_events_total", {**common, "sink": name, "outcome": outcome}, events)
        yield Sample("sluice_sink_incoming_total", {**common, "sink": name}, sink.incoming)
        yield Sample("sluice_sink_made_total", {**common, "sink": name}, sink.made)
        yield Sample("sluice_sink_spooled", {**common, "sink": name}, sink.spooled)
        yield Sample("sluice_sink_retries_total", {**common, "sink": name}, sink.retries)
        yield Sample("sluice_sink_write_seconds_total", {**common, "sink": name}, round(sink.seconds, 6))


def _steps(common: Mapping[str, str], totals: Totals) -> Iterator[Sample]:
    for step, counts in list(totals.steps.items()):
        yield Sample("sluice_step_events_total", {**common, "step": step}, counts.incoming)
        yield Sample("sluice_step_filtered_total", {**common, "step": step}, counts.filtered)
        yield Sample("sluice_step_work_seconds_total", {**common, "step": step}, round(counts.seconds, 6))
    for step, measured in list(totals.measured.items()):
        labels = {**common, "step": step}
        texts = {name: value for name, value in measured.state.items() if isinstance(value, str)}
        if texts:
            yield Sample("sluice_step_info", {**labels, **texts}, 1)
        for name, value in measured.state.items():
            if not isinstance(value, str):
                yield Sample(f"sluice_step_{name}", labels, value)
        for measure, amounts in list(measured.sums.items()):
            for name, amount in list(amounts.items()):
                yield Sample(f"sluice_step_{measure}_total", {**labels, "name": name}, amount)


def _tables(common: Mapping[str, str], totals: Totals) -> Iterator[Sample]:
    for name, table in list(totals.tables.items()):
        labels = {**common, "table": name}
        yield Sample("sluice_table_info", {**labels, "version": table.version, "error": table.error}, 1)
        yield Sample("sluice_table_rows", labels, table.rows)
        yield Sample("sluice_table_failures_total", labels, table.failed)
        if table.built is not None and table.checked is not None:
            yield Sample("sluice_table_age_seconds", labels, round(time.time() - table.built, 3))
            yield Sample("sluice_table_checked_timestamp_seconds", labels, table.checked)
