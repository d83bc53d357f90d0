"""What a candidate reads of a sample."""

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
from etl.finding.candidates import Candidate
from etl.finding.sample import Sample
from etl.finding.signatures import last
from etl.plan.planner import plan
from etl.testing.capture import Capture, captured
from etl.testing.given import GivenSource, lines_of
from etl.testing.trial import LETTERS, outputs, run_here
from etl.testing.values import plain

NONSENSE = ("the quick brown fox jumps over the lazy dog", "lorem ipsum dolor sit amet", "abc", "hello world 1 2 3", "x y z")
"""What has no format: who reads it says nothing by reading the sample."""

NAME = re.compile(r"[A-Za-z_@][\w@\-]*(\.[A-Za-z_@][\w@\-]*)*", re.ASCII)
"""What can be the name of a field; members that are called otherwise count for nothing."""

MOST_UNREAD = 5
"""Events that are remembered as examples of those which were not read."""

REST_ROWS = 200
"""Rows whose rest is looked into."""


@dataclass(frozen=True)
class Match:
    """A candidate on a sample. ``read`` and ``rejected`` are numbers of ``events``; others were filtered."""

    candidate: Candidate
    events: int
    read: int
    rejected: int
    filled: float
    """Fields that an event has on average."""
    batches: Sequence[pa.RecordBatch]
    """What was read, a stream after the other."""
    unread: Sequence[str] = ()
    """The first events that were not read."""

    @property
    def rate(self) -> float:
        """The share of events that it reads."""
        return self.read / self.events if self.events else 0.0

    @property
    def knows_details(self) -> bool:
        """Whether a parser that may fail read any of it, where the candidate has one."""
        details = self.candidate.details
        columns = [batch.column(name) for batch in self.batches for name in batch.schema.names if name in details]
        return not columns or any(len(column) > column.null_count for column in columns)

    def example(self) -> Mapping[str, Any]:
        """The event with the most fields among the first."""
        rows = [row for batch in self.batches[:1] for row in batch.slice(0, 50).drop_columns([OFFSET]).to_pylist()]
        shown = ({name: plain(value) for name, value in row.items() if value is not None} for row in rows)
        return max(shown, key=len, default={})


def reads_nonsense(one: Match) -> bool:
    """Of a parser alone: whether it reads anything at all."""
    if one.candidate.recipe or one.candidate.proposal:
        return False
    batch = pa.record_batch([pa.array(NONSENSE), pa.array(range(len(NONSENSE)), pa.int64())], names=["message", OFFSET])
    nothing = _ran(one.candidate, [batch])
    return nothing.read * 2 > nothing.events


def match(candidate: Candidate, sample: Sample) -> Match | None:
    """Run a candidate; None when its steps break down, which is their defect."""
    source = next(iter(candidate.pipeline.sources.values()))
    try:
        return _ran(candidate, list(lines_of(source, sample.path)))
    except Exception:  # a parser of another package must not keep the others from being tried
        return None


def _ran(candidate: Candidate, given: Sequence[pa.RecordBatch | Rejects]) -> Match:
    events = sum((part.events if isinstance(part, Rejects) else part).num_rows for part in given)
    with tempfile.TemporaryDirectory(prefix="etl-infer-") as name:
        folder = Path(name)
        leaves = _leaves(candidate)
        _run(candidate, leaves, given, folder)
        batches = [batch for leaf in leaves for batch in captured(folder / leaf) if batch.num_rows]
        dead = {offset for batch in captured(folder / LETTERS) for offset in batch.column("offset").to_pylist()}
    good = [kept for batch in batches if (kept := _read(candidate, batch)).num_rows]
    offsets = {offset for batch in good for offset in batch.column(OFFSET).to_pylist()}
    unread = tuple(islice(_texts_without(given, offsets), MOST_UNREAD))
    return Match(candidate, events, len(offsets), len(dead - offsets), _filled(candidate, good), good, unread)


def _texts_without(given: Sequence[pa.RecordBatch | Rejects], offsets: Collection[int]) -> Iterator[str]:
    """The events of a source that are not among those."""
    for part in given:
        batch = part.events if isinstance(part, Rejects) else part
        if {"message", OFFSET} <= set(batch.schema.names):
            for at, offset in enumerate(batch.column(OFFSET).to_pylist()):
                if offset not in offsets:
                    yield str(batch.column("message")[at].as_py())


def _leaves(candidate: Candidate) -> list[str]:
    streams = candidate.pipeline.streams
    return [name for name in streams if not any(name in stream.inputs for stream in streams.values())]


def _run(candidate: Candidate, leaves: Sequence[str], given: Sequence[Any], folder: Path) -> None:
    pipeline = candidate.pipeline
    name, source = next(iter(pipeline.sources.items()))
    whole = GivenSource(columns=source.fields(), batches=(tuple(given),))
    bench = replace(pipeline, sources={name: whole}, sinks=outputs(pipeline, leaves, folder), dead_letters=None)
    run_here(plan(bench, Capture(folder=str(folder / LETTERS)), SCHEMA))


def _read(candidate: Candidate, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events that have a field of a parser's; what is left over in a rest is nothing that a recipe knows."""
    rests = rest_fields(candidate) if candidate.recipe else set()
    names = [name for name in gained(candidate, batch.schema) if name not in rests]
    if not names:
        return batch.slice(0, 0) if candidate.fields else batch
    filled = batch.column(names[0]).is_valid()
    for name in names[1:]:
        filled = pc.or_(filled, batch.column(name).is_valid())
    return batch.filter(filled)


def gained(candidate: Candidate, schema: Schema) -> list[str]:
    """Fields of a stream that its parsers gave; where later steps renamed them all, all that are new."""
    given = {"message", OFFSET, *next(iter(candidate.pipeline.sources.values())).fields().names}
    parsed = [name for name in schema.names if name in candidate.fields]
    return parsed or [name for name in schema.names if name not in given]


def _filled(candidate: Candidate, batches: Sequence[pa.RecordBatch]) -> float:
    """Fields that an event has on average; the members of a parser's rest are fields, those of a recipe's it does not know.

    What a recipe's other steps made of them counts too, but no field that says the same of all events.
    """
    rows = sum(batch.num_rows for batch in batches)
    rests = rest_fields(candidate)
    cells = 0.0
    for batch in batches:
        for name in _told(candidate, batch):
            column = batch.column(name)
            is_rest = name in rests and not candidate.recipe
            cells += _members(column) * len(column) if is_rest else len(column) - column.null_count
    return cells / rows if rows else 0.0


def _told(candidate: Candidate, batch: pa.RecordBatch) -> list[str]:
    """The fields that differ from event to event, beside those of its parsers."""
    parsed = gained(candidate, batch.schema)
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
    """The fields in which parsers put what they have no field for."""
    steps = [step for stream in candidate.pipeline.streams.values() for step in stream.steps]
    return {rest for step in steps if isinstance(step, Parser) and isinstance(rest := getattr(step, "rest", None), str)}


def _members(column: pa.Array) -> float:
    found = [
        sum(1 for name in member_names(members(text)) if NAME.fullmatch(name)) for text in column.slice(0, REST_ROWS).to_pylist()
    ]
    return sum(found) / len(found) if found else 0.0


def members(text: str | None) -> dict[str, Any]:
    """The JSON object in a rest; nothing where there is none."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def member_names(value: Mapping[str, Any]) -> Iterator[str]:
    """The names of an object's members, without the path in front of them; of members that are objects those inside."""
    objects: list[Mapping[str, Any]] = [value]
    while objects:
        for key, item in objects.pop().items():
            if isinstance(item, dict) and item:
                objects.append(item)
            elif item is not None:
                yield last(key)
