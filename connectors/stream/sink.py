"""The sink ``stream``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from connectors.stream.folders import FOLDER_DESCRIPTION, StreamName, stream_target, streams_folder
from etl.api import Duration, Guarantee, Sink, Size, Task

if TYPE_CHECKING:
    from connectors.stream.publisher import Publisher
    from connectors.stream.writer import StreamWriter


class Retention(BaseModel):
    """Which events a stream keeps for its subscribers: those that are neither too old nor too many."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    max_bytes: Size = Field(
        default=1 << 30,
        ge=1 << 20,
        le=1 << 40,
        description="Maximum bytes on disk, after compression. A micro-batch is stored completely.",
        examples=["10GiB"],
    )
    max_age: Duration = Field(
        default=timedelta(days=1), ge=timedelta(seconds=1), description="How long an event is kept, read or not."
    )


class StreamSink(Sink):
    """Publish events to other pipelines on this machine, whose source `stream` reads them.

    The stream is a journal on disk: tasks stage their events, and the commit of a micro-batch appends them and makes them visible
    at once. Exactly once: a restart removes what was not committed, and a micro-batch that runs again is not appended twice; what
    subscribers deliver exactly once is in their hands. Tested by killing publishers and subscribers. Events keep the order of
    their splits.

    Subscribers need not run at the same time, and do not share a process: each reads at its own pace, the newest events or
    those of yesterday. The journal keeps events until they are too old or too many (``retain``), whether they were read or not.
    With ``when_full: delete`` a slow subscriber loses the oldest events, and reports how many. With ``when_full: wait`` the
    publisher waits for the slowest subscriber instead, but not beyond ``max_age``: with it waits the whole pipeline, unless
    ``on_failure: spool`` lets its other sinks continue. Events are deleted in sixteenths of ``retain``.

    A stream has one publisher at a time; a second one ends with an error. All types of fields are kept. It works on one machine
    and for one user: the folder is private.

    ```yaml
    type: stream
    name: logins
    retain: {max_bytes: 4GiB, max_age: 6h}
    ```
    """

    type: Literal["stream"] = "stream"
    name: StreamName = Field(description="Name of the stream.", examples=["logins"])
    folder: str | None = Field(default=None, description=FOLDER_DESCRIPTION, min_length=1, examples=["/var/lib/sluice/streams"])
    retain: Retention = Field(default=Retention(), description="Which events are kept for subscribers.")
    when_full: Literal["delete", "wait"] = Field(
        default="delete",
        description="What happens when `retain.max_bytes` is reached and a subscriber has not read the oldest events: they are "
        "deleted, or the publisher waits.",
    )

    guarantee: ClassVar[Guarantee] = "exactly once"

    def host_path(self) -> str | None:
        """Return the folder of the stream."""
        return str(streams_folder(self.folder) / self.name)

    def targets(self) -> Iterable[str]:
        """Return the folder of the stream: it has one publisher."""
        return (os.path.join(streams_folder(self.folder), self.name),)

    def writes(self) -> Iterable[str]:
        """Return the stream, as sources name it."""
        return (stream_target(self.name, self.folder),)

    @property
    def waits_for_readers(self) -> bool:
        """Whether a full stream waits for its subscribers."""
        return self.when_full == "wait"

    def open(self, task: Task) -> StreamWriter:
        """Return a writer that stages the events of one split."""
        from connectors.stream.writer import StreamWriter

        return StreamWriter(task)

    def committer(self, folder: str) -> Publisher:
        """Return the publisher, which locks the stream."""
        from connectors.stream.publisher import Publisher, RetentionLimits

        limits = RetentionLimits(self.retain.max_bytes, self.retain.max_age.total_seconds(), self.when_full)
        return Publisher(streams_folder(self.folder) / self.name, limits)
