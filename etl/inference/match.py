"""Running a candidate on a sample: how many events it parses, and into which fields."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET, Parser, Rejects, Schema
from etl.delivery.dead_letters import SCHEMA
from etl.inference.candidates import Candidate
from etl.inference.sample import Sample
from etl.inference.signatures import last_name
from etl.plan.planner import plan
from etl.testing.capture import Capture, read_captured
from etl.testing.given_source import GivenSource, read_lines
from etl.testing.trial import LETTERS, capture_outputs, run_without_spark
from etl.testing.values import to_plain

NONSENSE = ("the quick brown fox jumps over the lazy dog", "lorem ipsum dolor sit amet", "abc", "hello world 1 2 3", "x y z")
"""Texts without a format: a parser that reads them reads anything, so that reading the sample has no meaning."""

NAME = re.compile(r"[A-Za-z_@][\w@\-]*(\.[A-Za-z_@][\w@\-]*)*", re.ASCII)
"""Valid names of fields; members with other names do not count."""

MAX_UNREAD_EXAMPLES = 5
"""Number of unread events kept as examples."""

REST_ROWS = 200
"""Number of rows whose rest is parsed."""


@dataclass(frozen=True)
class Match:
    """A candidate's result on a sample. Of ``events``, ``read`` were parsed and ``rejected`` failed, others were filtered."""

    candidate: Candidate
    events: int
    read: int
    rejected: int
    filled: float
    """Mean number of fields of an event."""
    batches: Sequence[pa.RecordBatch]
    """The parsed events, stream after stream."""
    unread: Sequence[str] = ()
    """The first events that were not parsed."""

    @property
    def rate(self) -> float:
        """The share of events that were parsed."""
        return self.read / self.events if self.events else 0.0

    @property
    def knows_details(self) -> bool:
        """Whether a parser that passes on unparsed events has parsed any, if the candidate has such a parser."""
        details = self.candidate.details
        columns = [batch.column(name) for batch in self.batches for name in batch.schema.names if name in details]
        return not columns or any(len(column) > column.null_count for column in columns)

    def example(self) -> Mapping[str, Any]:
        """The event with the most fields among the first 50."""
        rows = [row for batch in self.batches[:1] for row in batch.slice(0, 50).drop_columns([OFFSET]).to_pylist()]
        shown = ({name: to_plain(value) for name, value in row.items() if value is not None} for row in rows)
        return max(shown, key=len, default={})


def reads_nonsense(one: Match) -> bool:
    """Whether a parser alone reads `NONSENSE` too."""
    if one.candidate.recipe or one.candidate.proposal:
        return False
    batch = pa.record_batch([pa.array(NONSENSE), pa.array(range(len(NONSENSE)), pa.int64())], names=["message", OFFSET])
    nothing = _run_steps(one.candidate, [batch])
    return nothing.read * 2 > nothing.events


def try_candidate(candidate: Candidate, sample: Sample) -> Match | None:
    """Run a candidate on a sample; None if a step raises an error."""
    source = next(iter(candidate.pipeline.sources.values()))
    try:
        return _run_steps(candidate, list(read_lines(source, sample.path)))
    except Exception:  # an error in a parser of another package does not stop the search
        return None


def _run_steps(candidate: Candidate, given: Sequence[pa.RecordBatch | Rejects]) -> Match:
    events = sum((part.events if isinstance(part, Rejects) else part).num_rows for part in given)
    with tempfile.TemporaryDirectory(prefix="etl-infer-") as name:
        folder = Path(name)
        last_streams = _last_streams(candidate)
        _run_pipeline(candidate, last_streams, given, folder)
        batches = [batch for leaf in last_streams for batch in read_captured(folder / leaf) if batch.num_rows]
        dead = {offset for batch in read_captured(folder / LETTERS) for offset in batch.column("offset").to_pylist()}
    good = [parsed for batch in batches if (parsed := _parsed_events(candidate, batch)).num_rows]
    offsets = {offset for batch in good for offset in batch.column(OFFSET).to_pylist()}
    unread = tuple(islice(_texts_without(given, offsets), MAX_UNREAD_EXAMPLES))
    return Match(candidate, events, len(offsets), len(dead - offsets), _mean_fields(candidate, good), good, unread)


def _texts_without(given: Sequence[pa.RecordBatch | Rejects], offsets: Collection[int]) -> Iterator[str]:
    """The texts of events whose offsets are not in ``offsets``."""
    for part in given:
        batch = part.events if isinstance(part, Rejects) else part
        if {"message", OFFSET} <= set(batch.schema.names):
            for at, offset in enumerate(batch.column(OFFSET).to_pylist()):
                if offset not in offsets:
                    yield str(batch.column("message")[at].as_py())


def _last_streams(candidate: Candidate) -> list[str]:
    streams = candidate.pipeline.streams
    return [name for name in streams if not any(name in stream.inputs for stream in streams.values())]


def _run_pipeline(candidate: Candidate, last_streams: Sequence[str], given: Sequence[Any], folder: Path) -> None:
    pipeline = candidate.pipeline
    name, source = next(iter(pipeline.sources.items()))
    whole = GivenSource(columns=source.fields(), batches=(tuple(given),))
    bench = replace(pipeline, sources={name: whole}, sinks=capture_outputs(pipeline, last_streams, folder), dead_letters=None)
    run_without_spark(plan(bench, Capture(folder=str(folder / LETTERS)), SCHEMA))


def _parsed_events(candidate: Candidate, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events with at least one parsed field; for a recipe, the rest does not count."""
    rests = rest_fields(candidate) if candidate.recipe else set()
    names = [name for name in new_fields(candidate, batch.schema) if name not in rests]
    if not names:
        return batch.slice(0, 0) if candidate.fields else batch
    filled = batch.column(names[0]).is_valid()
    for name in names[1:]:
        filled = pc.or_(filled, batch.column(name).is_valid())
    return batch.filter(filled)


def new_fields(candidate: Candidate, schema: Schema) -> list[str]:
    """The fields that a stream's parsers made; if later steps renamed all of them, all new fields."""
    given = {"message", OFFSET, *next(iter(candidate.pipeline.sources.values())).fields().names}
    parsed = [name for name in schema.names if name in candidate.fields]
    return parsed or [name for name in schema.names if name not in given]


def _mean_fields(candidate: Candidate, batches: Sequence[pa.RecordBatch]) -> float:
    """Mean number of fields of an event; members of the rest count for a parser alone, not for a recipe.

    Fields made by a recipe's other steps count too, unless they have the same value in all events.
    """
    rows = sum(batch.num_rows for batch in batches)
    rests = rest_fields(candidate)
    cells = 0.0
    for batch in batches:
        for name in _informative_fields(candidate, batch):
            column = batch.column(name)
            is_rest = name in rests and not candidate.recipe
            cells += _mean_rest_members(column) * len(column) if is_rest else len(column) - column.null_count
    return cells / rows if rows else 0.0


def _informative_fields(candidate: Candidate, batch: pa.RecordBatch) -> list[str]:
    """The fields of the parsers, and other new fields whose values differ between events."""
    parsed = new_fields(candidate, batch.schema)
    if candidate.recipe is None:
        return parsed
    given = {"message", OFFSET, *next(iter(candidate.pipeline.sources.values())).fields().names}
    made = [name for name in batch.schema.names if name not in given and name not in parsed]
    return parsed + [name for name in made if _differs(batch.column(name))]


def _differs(column: pa.Array) -> bool:
    if pa.types.is_nested(column.type):
        return False
    return len(column.drop_null().unique()) > 1


def rest_fields(candidate: Candidate) -> set[str]:
    """The fields for members that the parsers do not declare."""
    steps = [step for stream in candidate.pipeline.streams.values() for step in stream.steps]
    return {rest for step in steps if isinstance(step, Parser) and isinstance(rest := getattr(step, "rest", None), str)}


def _mean_rest_members(column: pa.Array) -> float:
    found = [
        sum(1 for name in member_names(parse_rest(text)) if NAME.fullmatch(name))
        for text in column.slice(0, REST_ROWS).to_pylist()
    ]
    return sum(found) / len(found) if found else 0.0


def parse_rest(text: str | None) -> dict[str, Any]:
    """Parse the JSON object in a rest; empty if there is none."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def member_names(value: Mapping[str, Any]) -> Iterator[str]:
    """The last names of an object's members; for members that are objects, those of their members."""
    objects: list[Mapping[str, Any]] = [value]
    while objects:
        for key, item in objects.pop().items():
            if isinstance(item, dict) and item:
                objects.append(item)
            elif item is not None:
                yield last_name(key)
