"""The bodies of the API's answers: pydantic models, from which its OpenAPI document is also made."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field

from etl.server.job import JobStatus
from etl.server.records import Desired

_NAME = "name"

Name = Annotated[str, _NAME]
"""A text without secrets: a name from a pipeline file, where `${NAME}` is not replaced, or a fixed text of this program. It is
not masked even if it is equal to a secret, because clients compare it."""


class ApiModel(BaseModel):
    """The body of an answer, or an object in one."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """A document, a list of documents, or a value in one, as plain values of JSON: ``mask`` is applied to every text except
    names, choices and the keys of objects; numbers are not changed."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, ApiModel):
        unmasked = _unmasked_fields(type(value))
        fields = ((name, getattr(value, name)) for name in type(value).model_fields)
        return {name: item if name in unmasked else masked(item, mask) for name, item in fields}
    if isinstance(value, dict):
        return {key: masked(item, mask) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(item, mask) for item in value]
    return value


@cache
def _unmasked_fields(model: type[ApiModel]) -> frozenset[str]:
    """Fields of names and choices, which have no secrets."""
    fields = model.model_fields.items()
    return frozenset(name for name, field in fields if _NAME in field.metadata or _is_unmasked(field.annotation))


def _is_unmasked(annotation: Any) -> bool:
    """Whether texts of this type are names or choices, as in ``Name | None``, ``list[Name]`` and ``Literal["yaml"] | None``."""
    if get_origin(annotation) is Literal or _NAME in getattr(annotation, "__metadata__", ()):
        return True
    return any(map(_is_unmasked, get_args(annotation)))


class ProblemDocument(ApiModel):
    """One thing to correct in a pipeline file."""

    file: str
    line: int
    column: int
    code: Name
    path: str = Field(description="The JSON path of the value.")
    message: str
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"


class RefusalDocument(ApiModel):
    """Why the file of a pipeline is not accepted; the version before it goes on running."""

    reason: str
    problems: list[ProblemDocument]


class RatesDocument(ApiModel):
    """Events and bytes a second, over the last five seconds."""

    read_per_second: float
    delivered_per_second: float
    dead_per_second: float
    bytes_per_second: float


class CountersDocument(ApiModel):
    """Sums since the run began."""

    read: int = Field(description="Events read from all sources.")
    delivered: int = Field(description="Events that sinks have accepted.")
    dead: int = Field(description="Events that became dead letters.")
    bytes: int
    batches: int
    lag_seconds: float = Field(description="From finding new events to their delivery, in the last micro-batch.")
    backlog_events: int | None = Field(description="Events that exist at its sources and are not delivered; null if not known.")
    backlog_bytes: int | None = Field(description="Bytes that exist at its sources and are not delivered; null if not known.")
    backlog_seconds: float | None = Field(description="The age of the oldest of them in seconds, or an upper bound of it.")
    event_time: str | None = Field(description="The latest event time, ISO 8601.")
    delay_seconds: float | None = Field(description="How far the latest event time is behind the clock.")


class StatusDocument(ApiModel):
    """The state of a pipeline in short."""

    name: Name
    status: JobStatus
    desired: Desired
    version: int | None = Field(description="The version that runs now.")
    accepted_version: int | None = Field(description="The version that a start or restart runs.")
    error: str = Field(description="The last failure, or what it waits for and tries again; empty while it runs well.")
    restarts: int = Field(description="Failures after which it started again, since the start of the server.")
    refused: RefusalDocument | None
    description: str | None
    rates: RatesDocument
    counters: CountersDocument


class SourceDocument(ApiModel):
    """A source and what was read from it."""

    name: Name
    type: Name
    read: int
    dead: int
    dropped: dict[str, int] = Field(description="Events that its receiver dropped, by reason.")
    backlog_events: int | None = Field(
        description="Approximate number of events that exist and are not delivered; null if not known."
    )
    backlog_bytes: int | None = Field(
        description="Approximate number of bytes that exist and are not delivered; null if not known."
    )
    backlog_seconds: float | None = Field(
        description="The age of the oldest of them in seconds, or an upper bound of it; null if unknown."
    )


class StepDocument(ApiModel):
    """A step and what it did; ``incoming + made = left + filtered + dead``."""

    stream: Name
    index: int
    type: Name
    id: Name
    line: int | None
    incoming: int
    left: int
    filtered: int
    dead: int
    made: int
    seconds: float
    measured: dict[str, Any] = Field(description="What the step itself counts, such as the matches of each rule.")


class SinkDocument(ApiModel):
    """A sink and what it did; ``incoming + made = delivered + filtered + dead + spooled``."""

    name: Name
    type: Name
    incoming: int
    made: int
    delivered: int
    filtered: int
    dead: int
    spooled: int
    retries: int
    flushes: dict[str, int] = Field(description="How often it was written, by reason.")
    seconds: float


class RejectedDocument(ApiModel):
    """Dead letters of this run with one code at one step or sink."""

    at: Name
    code: Name
    events: int
    reason: str
    example: str


class PipelineDocument(StatusDocument):
    """A pipeline with its counters."""

    language: Literal["yaml", "sql"] | None
    sources: list[SourceDocument]
    steps: list[StepDocument]
    sinks: list[SinkDocument]
    rejected: list[RejectedDocument]
    notes: list[ProblemDocument] = Field(description="Warnings about its file.")


class NodeDocument(ApiModel):
    """A source, a stream or a sink."""

    id: Name
    kind: Literal["source", "stream", "sink"]
    name: Name
    type: Name | None = Field(description="The type of a source or sink.")
    steps: list[Name] = Field(description="The types of a stream's steps.")
    line: int | None
    events: int = Field(description="Events that left a source or stream, or that a sink accepted.")
    dead: int
    filtered: int


class EdgeDocument(ApiModel):
    """Events of one node that go to another."""

    origin: Name
    target: Name


class GraphDocument(ApiModel):
    """A pipeline as a graph."""

    nodes: list[NodeDocument]
    edges: list[EdgeDocument]


class VersionDocument(ApiModel):
    """An accepted version."""

    number: int
    time: Name
    language: Literal["yaml", "sql"]
    running: bool


class FileDocument(ApiModel):
    """The text of a version. Secrets in it are masked: such a text is not deployed again."""

    number: int
    language: Literal["yaml", "sql"]
    text: str


class MessageDocument(ApiModel):
    """A message of a pipeline."""

    id: int = Field(description="Grows from message to message; give the last one as `after` to get the next ones.")
    time: Name
    level: Name
    event: Name
    pipeline: Name
    message: str


class MatchStopDocument(ApiModel):
    """Where a text stops matching the pattern that matches most of it."""

    text: str
    at: int = Field(description="Number of its characters that match.")
    expected: str = Field(description="What the pattern has next.")
    within: list[str] = Field(description="The named patterns around it, the outermost first.")


class DeadLetterGroupDocument(ApiModel):
    """Open dead letters of one source, step or sink with one code."""

    at: Name
    code: Name
    events: int
    reason: str = Field(description="The most frequent reason.")
    reasons: int = Field(
        description="Number of different reasons, which may contain values of events; at most about 1,000 are counted."
    )
    example: str
    last: str | None
    stop: MatchStopDocument | None = Field(description="Where the example stops matching, if a parser with patterns rejected it.")


class DeadLetterDocument(ApiModel):
    """A dead letter."""

    time: Name
    at: Name
    code: Name
    reason: str | None
    event: str | None
    source: str | None
    partition: str | None
    offset: int | None


class DeadLettersDocument(ApiModel):
    """Open dead letters: how many of each source, step or sink with each code, and the last ones."""

    groups: list[DeadLetterGroupDocument]
    last: list[DeadLetterDocument] = Field(description="The last letters; long events are cut.")
    complete: bool = Field(
        description="False if not all letters are counted yet: a request reads for a second, and the next one continues."
    )


class DeadLetterPageDocument(ApiModel):
    """A page of open dead letters, oldest first."""

    letters: list[DeadLetterDocument]
    next: Name | None = Field(description="Give it as `after` to get the next page; null if there is no letter.")
    is_last: bool = Field(description="Whether no further letter is there now; `next` then gives those that come later.")


class StepStateDocument(ApiModel):
    """What a step remembers, after its last micro-batch."""

    query: Name
    step: Name = Field(description="The type of the step.")
    batch: int = Field(description="The number of the micro-batch.")
    rows: int
    bytes: int = Field(description="Bytes of its files.")
    watermark: str | None = Field(description="The event time before which it expects no more events, ISO 8601.")


class NearGroupDocument(ApiModel):
    """A group that does not meet a condition."""

    share: float = Field(
        description="How near the group is to the condition, from 0 to 1: for `n >= 100` and a group with 80, 0.8."
    )
    values: dict[str, Any] = Field(description="The fields of the group in its window; long texts are cut.")


class ThresholdDocument(ApiModel):
    """A condition on the results of a step with state, and the groups that are nearest to it."""

    step: Name
    query: Name
    option: Literal["having", "emit", "where", "correlations"] = Field(
        description="The option with the condition; `where` is that of a filter after the step."
    )
    condition: str
    explanation: str = Field(description="What the condition decides.")
    line: int | None = Field(description="The line of the step in the file.")
    batch: int | None = Field(description="The micro-batch after which the state is; null before the first one.")
    groups: int = Field(description="Groups that were read, of all windows that are not over.")
    met: int = Field(description="Groups that meet the condition; they are not among those below.")
    complete: bool = Field(description="False if reading all groups would have taken too long.")
    failure: str | None = Field(description="Why the condition cannot be evaluated; null if it is.")
    nearest: list[NearGroupDocument] = Field(description="The nearest groups first.")


class SampleDocument(ApiModel):
    """An event."""

    id: int
    event: dict[str, Any]


class SamplesDocument(ApiModel):
    """Events that passed a stream, source or sink since the first request for its samples."""

    fields: dict[str, str] = Field(description="Fields and their types.")
    events: list[SampleDocument]


class HistoryDocument(ApiModel):
    """Samples of the last ten minutes as columns, one a second."""

    time: list[float]
    read: list[int]
    delivered: list[int]
    dead: list[int]
    bytes: list[int]
    lag_seconds: list[float]


class CheckDocument(ApiModel):
    """The findings about a file that would be accepted."""

    problems: list[ProblemDocument]


class ListDocument(ApiModel):
    """All pipelines of the server."""

    pipelines: list[StatusDocument]
    refused_files: dict[str, str] = Field(
        description="Files of the folder that are not pipelines of the server, with the reason."
    )


class ErrorBody(ApiModel):
    """What is wrong with a request."""

    code: str
    message: str
    problems: list[ProblemDocument] = []


class ErrorDocument(ApiModel):
    """The answer with any status from 400 on."""

    error: ErrorBody
