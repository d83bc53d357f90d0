"""The base class of sinks, and the options of all sinks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from etl.contract.changelogs import refused_changes
from etl.contract.components import Component
from etl.contract.delivery import Committer, Task, Writer
from etl.contract.errors import Finding
from etl.events import Schema
from etl.options import Duration, Size

Guarantee = Literal["exactly once", "at least once", "none"]
"""A sink's delivery guarantee when processes are killed."""


class Batching(BaseModel):
    """When a sink's buffer is written.

    Whichever limit is reached first; the end of a split writes what is left.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_events: int | None = Field(
        default=None, ge=1, description="Maximum number of events in one write; without it events are written as they arrive."
    )
    max_bytes: Size | None = Field(
        default=None, description="Maximum encoded bytes in one write; a larger event becomes a dead letter."
    )
    timeout: Duration = Field(default=timedelta(seconds=1), description="How long an event may wait for its batch to fill.")


class Retry(BaseModel):
    """How often and after which pauses a sink's temporary failures are retried, with full jitter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(
        default=5,
        ge=1,
        description="Number of attempts before `on_failure: spool` or `fail` applies; `block` retries without limit.",
    )
    initial_backoff: Duration = Field(
        default=timedelta(seconds=1), description="Maximum pause before the second attempt; it doubles with each further one."
    )
    max_backoff: Duration = Field(default=timedelta(seconds=30), description="Maximum pause between two attempts.")

    def max_pause_seconds(self, tries: int) -> float:
        """The upper limit, in seconds, of the random pause after this number of failed attempts in a row (at least 1)."""
        doubled = self.initial_backoff.total_seconds() * 2.0 ** min(tries - 1, 60)
        return min(doubled, self.max_backoff.total_seconds())


class Spooling(BaseModel):
    """How much may wait on disk for a sink with `on_failure: spool`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: Size = Field(
        default=10 * 2**30,
        ge=1,
        description="Maximum bytes on disk; beyond it the query waits. A micro-batch that has begun is stored completely.",
        json_schema_extra={"default": "10GiB"},
    )


class Sink(Component):
    """Delivers events. The engine batches, retries and commits; a sink knows how to write one bounded batch."""

    batch: Batching = Field(default=Batching(), description="When buffered events are written.")
    retry: Retry = Field(default=Retry(), description="How temporary failures are retried.")

    on_failure: Literal["block", "spool", "fail"] = Field(
        default="block",
        description="What happens when it accepts no events: the query waits, its events wait on disk and the other sinks "
        "continue, or the run ends after `retry.attempts`. Nothing is lost in any case.",
    )
    spool: Spooling = Field(default=Spooling(), description="How much may wait on disk with `on_failure: spool`.")

    guarantee: ClassVar[Guarantee] = "at least once"
    """The best guarantee that its options allow, for the reference."""

    identified: ClassVar[bool] = False
    """True when its batches are to carry the hidden column `IDENTITY`."""

    any_order: ClassVar[bool] = False
    """True when the order of events in a batch does not matter: events of several branches may then be passed one branch after
    the other. Any other sink gets them in the order in which they were read."""

    takes_views: ClassVar[bool] = False
    """True when its writer takes text columns of type ``string_view`` too; any other gets ordinary strings."""

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about this sink with these incoming fields."""
        return ()

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about a changelog (`etl.contract.changelogs`) with these fields: this sink only adds events."""
        return refused_changes(
            incoming,
            f"{self.type} only adds events",
            "give results once, when a window closes; or write to a database, Elasticsearch or Kafka by key, or to a file with "
            "changes: debezium",
        )

    def guaranteed(self) -> Guarantee:
        """The guarantee with these options."""
        return self.guarantee

    def repeats_batches(self) -> bool:
        """Whether a split that is written again must have the same batches as before, because the system recognises them. They
        are then cut by ``batch.max_events`` and ``batch.max_bytes`` alone, not by ``batch.timeout``."""
        return False

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """As `Source.probe`: the system is reachable, the login is accepted, the named objects exist and accept these fields."""
        return ()

    def host_path(self) -> str | None:
        """The local path, if any, that makes the sink depend on one host; a ``file://`` URI is mounted by all hosts."""
        return None

    def targets(self) -> Iterable[str]:
        """The names of what it writes to, equal for two sinks that must not run together."""
        return ()

    def prepare(self, incoming: Schema) -> None:
        """In the driver, once a run, before the first event: create what options ask for, such as a topic or an index template.

        Repeatable: a run that was killed calls it again. An OSError is temporary; a ComponentError ends the run."""

    def writes(self) -> Iterable[str]:
        """Names of what it writes to, for `Source.reads`: an example of a created path if the path has placeholders or is a
        folder, otherwise a URL without a password. Unlike `targets`, two sinks may have the same."""
        return self.targets()

    @property
    def waits_for_readers(self) -> bool:
        """Whether it may wait until what it has written is read: with ``--once``, readers in the same command then run beside
        its pipeline and not after it."""
        return False

    def open(self, task: Task) -> Writer:
        """In a task: begin the output of one split. An OSError is temporary, here and in every method of a writer or
        committer; a ComponentError ends the run."""
        raise NotImplementedError

    def committer(self, folder: str) -> Committer | None:
        """In the driver, once a run, before the first batch; ``folder`` (exists) keeps the sink's state between runs."""
        return None
