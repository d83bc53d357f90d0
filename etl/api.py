"""All that a component may import: the types a source, step, parser or sink is made of.

Inside a segment an event is a row of a `pyarrow.RecordBatch` whose columns are **flat**: the field
``source.ip`` is a column of that name, and becomes a member of the struct ``source`` only where events
leave the engine (JSON, Parquet, Spark's nested columns). A schema is a `pyarrow.Schema` of such columns;
a field whose type cannot be known before the run has the type ``null``, which fits every use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from etl.events import (
    HIDDEN,
    IDENTITY,
    OFFSET,
    Schema,
    flat_schema,
    flatten,
    nest,
    nested_schema,
    visible,
    with_columns,
    with_fields,
    without,
)
from etl.options import Duration, Expression, FieldName, Names, Size, format_duration, parse_duration, parse_size
from etl.scanner.texts import filtered, owned_array
from etl.types import TIMESTAMP, TypeName, format_type, parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "HIDDEN",
    "IDENTITY",
    "NO_BATCH",
    "OFFSET",
    "TIMESTAMP",
    "ArrowStep",
    "BatchId",
    "Batching",
    "Committer",
    "Component",
    "ComponentError",
    "Duration",
    "Entry",
    "EtlError",
    "Expression",
    "Family",
    "FieldName",
    "Finding",
    "FrameSource",
    "Guarantee",
    "Limit",
    "Names",
    "Offset",
    "Outcome",
    "Parsed",
    "Parser",
    "PlanError",
    "Receiver",
    "ReceivingSource",
    "Rejects",
    "Result",
    "Retry",
    "Schema",
    "Sink",
    "Size",
    "Source",
    "SparkStep",
    "Split",
    "SplitLostError",
    "Spooling",
    "Staged",
    "Step",
    "Table",
    "Task",
    "TypeName",
    "Writer",
    "flat_schema",
    "flatten",
    "format_duration",
    "format_type",
    "nearest",
    "nest",
    "nested_schema",
    "parse_duration",
    "parse_size",
    "parse_type",
    "visible",
    "with_columns",
    "with_fields",
    "without",
]

Guarantee = Literal["exactly once", "at least once", "none"]
"""What a sink promises when processes are killed."""

type_name = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""What a component's ``type`` looks like (HOUSE_STYLE 10)."""

Offset = dict[str, Any]
"""Where a source stands: a JSON-able dict that only the source reads."""

# ── Errors ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a component has to say about its options, relative to the component.

    ``path`` leads from the component to the option, for example ``("patterns", 0)``; ``at`` is the character
    inside that option's text the finding is about, where there is one.
    """

    code: str
    message: str
    path: tuple[str | int, ...] = ()
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"
    at: int | None = None


class EtlError(Exception):
    """The root of every error the engine raises on purpose."""


class PlanError(EtlError):
    """A step or sink cannot be built from valid options; the message names it."""


class ComponentError(EtlError):
    """A component failed at run time for a reason its user can act on; the message says what to do."""


class SplitLostError(OSError):
    """Raised by a writer: all that it took of this split is gone, such as with the transaction of a connection that broke.
    Temporary like any OSError, but the split begins anew. An OSError from `Writer.close` means the same."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """``did you mean 'x'?`` for the most similar of ``names``, or None."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"did you mean {found[0]!r}?" if found else None


# ── Components ────────────────────────────────────────────────────────────────────────────────────


class Component(BaseModel):
    """A value that is one source, step or sink: its fields are its options, its docstring its documentation.

    Components are frozen and picklable; clients, files and compiled patterns are opened inside the method that
    uses them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, populate_by_name=True, arbitrary_types_allowed=True
    )

    type: str


Family = Literal["source", "step", "sink", "table"]
"""What a component is in a pipeline file: where it may stand."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A component in a package's ``COMPONENTS``, imported when a pipeline names it: checking a file stays quick however many
    components there are. ``address`` is ``module:Class``."""

    family: Family
    type: str
    address: str


@dataclass(frozen=True, slots=True)
class Limit:
    """How far a micro-batch may reach.

    ``bounded`` says that the run ends when what is there now has been read: a source then takes what it holds
    back while following, such as a last line without its newline.
    """

    max_bytes: int
    max_events: int | None = None
    bounded: bool = False
    until: Offset | None = None
    """An earlier answer of `latest`, from the same run, that this one may not pass."""
    event_bytes: float | None = None
    """Mean size of this query's events so far, for sources that count events and not bytes; None before the first."""


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: ``start`` to ``end`` (half open) of one partition of one source.

    ``detail`` is whatever else the source needs to find the data again; it must be picklable and a pure function
    of the offsets it was planned from.
    """

    partition: str
    start: int
    end: int
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Rejects:
    """Events that a source, step or sink could not take, each with its reason.

    ``events`` keeps the columns the component was given (a source may give a single ``message`` column beside
    ``_offset``); ``reasons`` is one text for all or a string array of the same length.
    """

    events: pa.RecordBatch
    code: str
    reasons: str | pa.StringArray


class Outcome(NamedTuple):
    """What a step made of a batch. Events neither kept nor rejected were filtered."""

    events: pa.RecordBatch
    rejects: Sequence[Rejects] = ()


class Source(Component):
    """Hands out splits of what there is to read, and reads them. Stateless: everything it must remember is in its offset.

    An OSError from `start`, `latest`, `splits`, `read` or `commit` (ConnectionError, TimeoutError …) is temporary: the engine
    says so, waits with growing pauses and asks again. A ComponentError ends the run.
    """

    host_bound: ClassVar[bool] = False
    """True when only one host has what it reads: such a source does not run on a cluster."""

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def fields(self) -> Schema:
        """The visible columns of its events."""
        raise NotImplementedError

    def probe(self) -> Iterable[Finding]:
        """For `etl lint --connect` and `--require-healthy`: reach the system, log in, look whether what the options name is
        there. Changes nothing; takes seconds at most. Empty when there is nothing to reach."""
        return ()

    def start(self) -> Offset:
        """Where a new pipeline begins."""
        raise NotImplementedError

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Where a micro-batch that begins at ``start`` may end now; equal to ``start`` when nothing is new."""
        raise NotImplementedError

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """The work between two offsets, about ``parallelism`` equal parts; a pure function of its arguments and of
        data that does not change any more. Splits are in the order in which their events are to be delivered."""
        raise NotImplementedError

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """The split's events: columns of `fields` and ``_offset``. Repeatable: same split, same events. A batch without rows
        says that time passes: sinks look whether their `batch.timeout` is over."""
        raise NotImplementedError

    def commit(self, ends: Sequence[Offset]) -> None:
        """What each query that reads it has delivered, up to these offsets, is in all sinks: forget, mirror, delete what
        lies before all of them."""

    def ended(self, offset: Offset) -> bool:
        """Whether nothing can ever come behind ``offset``: a following run ends when all its sources have ended."""
        return False


class Receiver(Protocol):
    """What runs beside the driver for a `ReceivingSource`, from before its query to after it."""

    def start(self) -> None:
        """Begin to receive; raises ComponentError when it cannot."""

    def stop(self) -> None:
        """Receive no more. What is on disk stays for the next run."""

    def dropped(self) -> Mapping[str, int]:
        """How many events it could not take, by reason; for the summary of the run, after `stop`."""


class ReceivingSource(Source):
    """A source whose events come only once, over a pipe or socket: a receiver in the driver puts them on disk first."""

    host_bound: ClassVar[bool] = True

    closes: ClassVar[bool] = False
    """True when its input ends by itself, as a pipe does: ``--once`` then waits for that end. Without it ``--once`` reads
    what has been received."""

    def placed(self, folder: str) -> Self:
        """This source, with the folder its receiver fills; exists, and is kept between runs."""
        raise NotImplementedError

    def receiver(self) -> Receiver:
        """The receiver, not yet started."""
        raise NotImplementedError


class FrameSource(Component):
    """A source that Spark itself reads: its events enter as a DataFrame."""

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def fields(self) -> Schema:
        """The visible columns of its events, flat."""
        raise NotImplementedError

    @property
    def streaming(self) -> bool:
        """False when the source ends by itself and is read once as a whole."""
        raise NotImplementedError

    def load(self, session: SparkSession) -> DataFrame:
        """The source's DataFrame with nested columns, streaming or not as `streaming` says."""
        raise NotImplementedError


class Table(Component):
    """Rows that steps look up by key: read whole when a run starts, and again every ``refresh``."""

    key: Names = Field(
        description="The column with the keys, or several that are one key; of ranges those of the first and the last value.",
        examples=["ip"],
    )
    columns: Mapping[str, TypeName] = Field(
        default={}, description="Types of columns, in Spark SQL; one that is not named is text.", examples=[{"score": "int"}]
    )
    refresh: Duration | None = Field(
        default=None, description="How often a run that follows its sources reads the table again.", examples=["10m"]
    )

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def names(self) -> Sequence[str] | None:
        """The columns there are, where that can be told without reaching another host; None where not."""
        return None

    def column(self, name: str) -> pa.DataType:
        """A column's type."""
        return parse_type(self.columns[name]) if name in self.columns else pa.string()

    def probe(self) -> Iterable[Finding]:
        """As `Source.probe`."""
        return ()

    def version(self) -> str | None:
        """A text that is another when rows may have changed: while it is not, the table is not read again. None if only
        reading can tell."""
        return None

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows, with these columns in the types of `column`; a value that is none of its type is null. An OSError is
        temporary, a ComponentError says what is wrong with the table: the version before stays in use."""
        raise NotImplementedError


class Step(Component):
    """One thing done to the events of a stream."""

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about this step in front of these fields: unknown fields, wrong types, bad patterns, which lane and why."""
        return ()

    def fields(self, incoming: Schema) -> Schema:
        """The fields of the events that leave. Total: where `check` has errors it gives its best guess."""
        raise NotImplementedError

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        """The tables of the file that it looks into, by the path of the option that names each."""
        return {}

    def with_tables(self, tables: Mapping[str, Table], folder: str | None = None) -> Self:
        """This step, with the tables that it names and, in a run, the folder that keeps them between runs."""
        return self


class ArrowStep(Step):
    """A row-wise step on record batches, run inside the task that read them."""

    takes_views: ClassVar[bool] = False
    """True when it reads text columns of type ``string_view`` too; any other step gets ordinary strings."""

    def spark_reason(self, incoming: Schema) -> str | None:
        """Why these options cannot run on Arrow, or None. A step that can give a reason is a `SparkStep` too."""
        return None

    def notes(self) -> Iterable[str]:
        """What `etl explain` says of how it runs, a line each."""
        return ()

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Compile once a task. The function keeps ``_offset`` and any other column it does not know."""
        raise NotImplementedError


class Parsed(NamedTuple):
    """What a parser read out of a column of texts: new columns, and where it failed."""

    columns: Mapping[str, pa.Array]
    """Field → array, as long as the input, null where the text failed."""

    failed: pa.BooleanArray | None = None
    """True where the text could not be parsed, without nulls; None when all could."""

    reasons: str | pa.StringArray = "does not match"
    """Why, for all or a text for each row (looked at only where it failed)."""


class Parser(ArrowStep):
    """Reads one text field into others. A subclass says which fields (`parsed`) and how (`compile`)."""

    field: FieldName = Field(default="message", description="The field to parse.")
    on_error: Literal["dead_letter", "drop", "keep"] = Field(
        default="dead_letter",
        description="What happens to an event that does not parse: dead letters, dropped and counted, or passed on unparsed.",
    )
    keep_field: bool = Field(default=False, description="Keep the parsed text beside the fields it gave.")

    def parsed(self) -> Schema:
        """The fields it gives."""
        raise NotImplementedError

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """Compile once a task. A null text is a failed one."""
        raise NotImplementedError

    def compile_at(self, now: int) -> Callable[[pa.StringArray], Parsed]:
        """As `compile`, at another time than now (microseconds since the epoch): for parsers that complete dates by it."""
        return self.compile()

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """An input field that is missing or is no text."""
        if self.field not in incoming.names:
            yield Finding(
                "unknown-field",
                f"there is no field {self.field!r} here",
                ("field",),
                nearest(self.field, incoming.names) or f"fields here: {', '.join(visible(incoming).names)}",
            )
        elif incoming.field(self.field).type not in (pa.string(), pa.null()):
            yield Finding(
                "wrong-type", f"field {self.field!r} is {incoming.field(self.field).type}, and {self.type} reads text", ("field",)
            )

    def fields(self, incoming: Schema) -> Schema:
        """Incoming fields, without the input unless it is kept, and the parsed ones."""
        parsed = {field.name: field.type for field in self.parsed()}
        stays = self.keep_field or self.on_error == "keep" or self.field in parsed
        return with_fields(incoming if stays else without(incoming, [self.field]), parsed)

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """Parse the column, put the new columns in, and treat failed rows as ``on_error`` says."""
        parse = self.compile()

        def run(batch: pa.RecordBatch) -> Outcome:
            text = batch.column(self.field)
            parsed = parse(text)
            failed = parsed.failed if parsed.failed is not None and parsed.failed.true_count else None
            rejects: tuple[Rejects, ...] = ()
            if self.on_error == "keep":
                return Outcome(with_columns(batch, self._kept(text, parsed, failed)))
            if failed is None:
                return Outcome(self._merged(batch, parsed.columns))
            if self.on_error == "dead_letter":
                reasons = parsed.reasons if isinstance(parsed.reasons, str) else parsed.reasons.filter(failed)
                rejects = (Rejects(filtered(batch, failed), f"{self.type}-failed", reasons),)
            good = pc.invert(failed)
            return Outcome(filtered(self._merged(batch, parsed.columns), good), rejects)

        return run

    def _merged(self, batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        if not self.keep_field and self.field not in columns:
            batch = batch.drop_columns([self.field])
        return with_columns(batch, columns)

    def _kept(self, text: pa.Array, parsed: Parsed, failed: pa.BooleanArray | None) -> Mapping[str, pa.Array]:
        """All rows stay: a failed one keeps its text, a parsed one only when ``keep_field`` says so."""
        columns = dict(parsed.columns)
        given = columns.get(self.field)
        if given is None:
            given = text if self.keep_field else pa.nulls(len(text), text.type)
        columns[self.field] = given if failed is None else pc.if_else(failed, owned_array(text), owned_array(given))
        return columns


class SparkStep(Step):
    """A step that Spark computes, on a DataFrame whose columns are flat (`` `source.ip` `` in backticks)."""

    stateful: ClassVar[bool] = False
    """True when Spark keeps state between micro-batches for this step."""

    def needs(self, incoming: Schema) -> frozenset[str] | None:
        """The incoming fields this step looks at, or None for all: the others are not handed to Spark."""
        return None

    def event_time(self) -> tuple[str, timedelta] | None:
        """The field and lateness of the watermark this step needs, or None."""
        return None

    def idle_after(self) -> timedelta | None:
        """After how much silence of its sources the step's windows are closed, or None for never."""
        return None

    def reach(self) -> timedelta:
        """How far past its latest event an open window of this step may end."""
        return timedelta(0)

    def output_mode(self) -> Literal["append", "update"]:
        """Spark's output mode for a query that ends in this step."""
        return "append"

    def apply(self, events: DataFrame) -> DataFrame:
        """events → events. The watermark of `event_time` is already set."""
        raise NotImplementedError


class Batching(BaseModel):
    """When a sink's buffer is written.

    Whichever limit is reached first; the end of a split writes what is left.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_events: int | None = Field(default=None, ge=1, description="Most events in one write; none means as they come.")
    max_bytes: Size | None = Field(
        default=None, description="Most encoded bytes in one write; a larger event goes to the dead letters."
    )
    timeout: Duration = Field(default=timedelta(seconds=1), description="How long an event may wait for its batch to fill.")


class Retry(BaseModel):
    """How often and how fast a sink's temporary failures are tried again, with full jitter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(
        default=5, ge=1, description="Tries in all, before `on_failure: spool` or `fail` comes into force; `block` goes on."
    )
    initial_backoff: Duration = Field(
        default=timedelta(seconds=1), description="Longest wait before the second try; doubles with each."
    )
    max_backoff: Duration = Field(default=timedelta(seconds=30), description="Longest wait between two tries.")


class Spooling(BaseModel):
    """How much may wait on disk for a sink with `on_failure: spool`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: Size = Field(
        default=10 * 2**30,
        ge=1,
        description="Bytes on disk; when there are as many, the query waits. A micro-batch that has begun is taken whole.",
        json_schema_extra={"default": "10GiB"},
    )


@dataclass(frozen=True, slots=True)
class BatchId:
    """A micro-batch: ``query`` is the id of the query's checkpoint (a new checkpoint is a new id), ``number`` counts up."""

    query: str
    number: int


NO_BATCH = BatchId("", 0)
"""Where no micro-batch is: steps tried without Spark."""


@dataclass(frozen=True, slots=True)
class Task:
    """Who writes: one sink, in one split of one micro-batch.

    ``split`` is a text safe in file names that names what was read, never who read it. ``folder`` is where the
    sink may stage files for this micro-batch: a folder of its own that exists, local or a URI of `pyarrow.fs`.
    ``schema`` is that of the batches to come, without hidden columns.

    ``(batch.query, sink, batch.number, split)`` is the key of a ledger: a split that is written again after a crash has the
    same four, another split never has. Entries of batches in front of one that was committed are never asked for again.
    """

    pipeline: str
    sink: str
    split: str
    folder: str
    schema: pa.Schema
    batch: BatchId = NO_BATCH
    identity: str = ""
    """What `IDENTITY` of all its events begins with."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Output of a task that the driver's `Committer` has yet to make visible: picklable, with what it needs to know."""

    path: str
    bytes: int
    events: int
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a written batch: row numbers inside it.

    ``retryable`` are written again after a wait; ``rejected`` go to the dead letters. All others were accepted.
    """

    retryable: pa.Array | None = None
    rejected: Sequence[Rejects] = ()
    cause: str = ""
    """Why rows are retryable, for the message when attempts run out: host, port, cause."""


class Writer(Protocol):
    """A sink's open end inside a task."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Encoded bytes of each event (int64), or None when the sink cannot tell before it writes."""

    def write(self, batch: pa.RecordBatch) -> Result:
        """Take one bounded batch (hidden column ``_offset`` included). OSError means: all of it is retryable."""

    def close(self) -> Staged | None:
        """The split ended: flush, close, say what the driver needs. Called once, on success only."""

    def abort(self) -> None:
        """The split failed: release what is open and remove what was staged."""


class Committer(Protocol):
    """A sink's end in the driver. Its construction recovers what a killed run left behind."""

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Make a micro-batch visible, once: a batch committed before changes nothing. ``staged`` is in delivery order."""

    def tick(self) -> None:
        """Called about once a second between batches: roll what is due."""

    def close(self) -> None:
        """The run ends: finish what can be finished."""


class Sink(Component):
    """Delivers events. The engine batches, retries and commits; a sink knows how to write one bounded batch."""

    batch: Batching = Field(default=Batching(), description="When buffered events are written.")
    retry: Retry = Field(default=Retry(), description="How temporary failures are tried again.")

    on_failure: Literal["block", "spool", "fail"] = Field(
        default="block",
        description="What happens when it takes no events: the query waits, its events wait on disk and the other sinks go on, "
        "or the run ends after `retry.attempts`. Nothing is lost in any case.",
    )
    spool: Spooling = Field(default=Spooling(), description="How much may wait on disk with `on_failure: spool`.")

    guarantee: ClassVar[Guarantee] = "at least once"
    """The best that it can promise, for its page."""

    identified: ClassVar[bool] = False
    """True when its batches are to carry the hidden column `IDENTITY`."""

    takes_views: ClassVar[bool] = False
    """True when its writer takes text columns of type ``string_view`` too; any other gets ordinary strings."""

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about this sink in front of these fields."""
        return ()

    def guaranteed(self) -> Guarantee:
        """What these options promise."""
        return self.guarantee

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """As `Source.probe`: is the system there, may we in, does what is named exist and take these fields?"""
        return ()

    def host_path(self) -> str | None:
        """The local path that ties it to one host: one that is no ``file://`` URI, which says that all hosts mount it."""
        return None

    def targets(self) -> Iterable[str]:
        """What it writes to, in a form that is equal for two sinks that would get in each other's way."""
        return ()

    def open(self, task: Task) -> Writer:
        """In a task: begin the output of one split. An OSError is temporary, here and in every method of a writer or
        committer; a ComponentError ends the run."""
        raise NotImplementedError

    def committer(self, folder: str) -> Committer | None:
        """In the driver, once a run, before the first batch; ``folder`` (exists) keeps the sink's state between runs."""
        return None
