"""The `redis` source."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.redis.connection_options import ServerOptions, errors_named, probe_server, shared_client
from connectors.redis.entry_reader import FIELDS, EntryReader
from connectors.redis.stream_positions import (
    StreamPosition,
    find_loss,
    first_position,
    offset_of,
    plan_end,
    plan_splits,
    positions_of,
    read_info,
)
from etl.api import OFFSET, Backlog, ComponentError, Finding, Limit, Offset, Rejects, Schema, Source, Split

log = logging.getLogger("sluice.redis")

_LOST = "data-lost"


class RedisSource(ServerOptions, Source):
    """Read streams of Redis or Valkey, one event an entry.

    ``message`` is an object of the entry's fields as JSON, which a step `json` reads, or with ``entry_field`` the value of one
    field. ``redis.stream`` is the key, ``redis.id`` the entry's identifier, ``redis.time`` the time in it. Bytes that are not
    UTF-8 become U+FFFD.

    Delivery: exactly once, up to the sinks' guarantees: the pipeline's checkpoint holds the identifier up to which each stream
    has been read, and a split that runs again reads the same entries (`XRANGE`). Consumer groups do not allow that: a group gives
    an entry to whoever asks first, and cannot give a task that runs again the same ones. With ``commit_group`` the delivered
    position is set as that of a group, for tools that show its lag. With ``delete: true`` entries are removed when all sinks have
    them.

    If entries were deleted before they were read (`XADD … MAXLEN`, `XTRIM`, `XDEL`: noticed with Redis 7 or newer), or a stream
    was created again, the run ends; with ``on_data_loss: continue`` it continues with what exists, and the loss is a dead letter
    (``data-lost``). A stream that does not exist has no entries; the source waits for it. An entry whose identifier a client has
    chosen beyond the year 2109 is a dead letter (``bad-entry-id``). While the server is down, the source retries.

    The entries of a stream keep their order; there is none between streams. Parallelism: ranges of a stream of about 4 MiB. To
    find where a micro-batch ends, a script on the server looks through its entries, up to 2,000 at a time; the user needs
    `XRANGE`, `XINFO`, `TYPE`, `EVALSHA` and `SCRIPT LOAD`. With ``sentinel`` the source asks Redis Sentinel for the master, again
    after each failover; entries that a replica did not have are lost with the master, which ``on_data_loss`` is about. In a
    ``cluster`` the streams may be on different nodes. Needs the extra ``sluice-etl[redis]``.

    ```yaml
    type: redis
    url: redis://localhost:6379/0
    streams: [logs]
    ```
    """

    type: Literal["redis"] = "redis"
    streams: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        description="Keys of the streams.", min_length=1, examples=[["logs", "audit"]]
    )
    entry_field: str | None = Field(
        default=None,
        description="Field of an entry that is the message; without it all fields as JSON.",
        min_length=1,
        examples=["message"],
    )
    begin: Literal["earliest", "latest"] = Field(
        default="earliest", alias="start", description="Where a new pipeline begins: at the first entry, or after the last."
    )
    commit_group: str | None = Field(
        default=None,
        description="Consumer group whose position is set to that of the pipeline; it is created if it does not exist.",
        min_length=1,
        examples=["sluice"],
    )
    delete: bool = Field(default=False, description="Whether entries are deleted when all sinks have them.")
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="What happens if entries were deleted before they were read: the run ends, or continues after them.",
    )

    def check(self) -> Iterable[Finding]:
        """Check address, credentials and streams."""
        yield from self.check_connection_options()
        for number, key in enumerate(self.streams):
            if key in self.streams[:number]:
                yield Finding("duplicate-topic", f"the stream {key!r} is given twice", ("streams", number), "remove one of them")

    def fields(self) -> Schema:
        """Return the message, and where it comes from."""
        return FIELDS

    def reads(self, target: str) -> bool:
        """Return whether the target is one of the streams."""
        settings = self.settings()
        return any(target == f"redis://{settings.host}:{settings.port}/{settings.database}/{key}" for key in self.streams)

    def exclusive(self) -> Iterable[str]:
        """Return the streams whose entries are deleted."""
        return [f"the stream {key!r} at {self.url}, whose entries it deletes" for key in self.streams] if self.delete else []

    def probe(self) -> Iterable[Finding]:
        """Check that the server answers, accepts the login, and that the keys are streams."""
        yield from probe_server(self.settings())
        with errors_named(self.settings()):
            for key in self.streams:
                read_info(shared_client(self.settings()), key)

    @property
    def skips(self) -> str | None:
        """The option that skips existing entries, if it is set."""
        return "start: latest" if self.begin == "latest" else None

    def start(self) -> Offset:
        """Return the start of each stream."""
        with errors_named(self.settings()):
            client = shared_client(self.settings())
            return offset_of({key: first_position(read_info(client, key), self.begin == "latest") for key in self.streams})

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: what exists now, or what the limit allows."""
        positions, ends, left, events = positions_of(start), {}, limit.max_bytes, limit.max_events
        with errors_named(self.settings()):
            client = shared_client(self.settings())
            for key in self.streams:
                info = read_info(client, key)
                position = positions[key] if key in positions else first_position(info, latest=False)
                lost = find_loss(position, info)
                if lost and self.on_data_loss == "fail":
                    message = f"redis: the stream {key!r} {lost}; on_data_loss: continue continues with what exists"
                    raise ComponentError(message)
                own = Limit(limit.max_bytes, events, limit.bounded, limit.until, limit.event_bytes)
                ends[key], taken, taken_events = plan_end(client, key, position, info, lost, own, left)
                left -= taken
                if events is not None:
                    events -= taken_events
        return start if ends == positions else offset_of(ends)

    def backlog(self, after: Offset) -> Backlog | None:
        """Return how many entries were added after the offset; None before Redis 7, which does not count them."""
        total = 0
        with errors_named(self.settings()):
            for key, position in positions_of(after).items():
                added = read_info(shared_client(self.settings()), key).added
                if added is None:
                    return None
                total += max(0, added - position.entries)
        return Backlog(total)

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the ranges of a batch."""
        before = positions_of(start)
        changed = {key: position for key, position in positions_of(end).items() if position != before.get(key)}
        return [split for key, position in changed.items() for split in plan_splits(key, position, parallelism)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read the entries of a split."""
        after, last, lost = split.detail
        if lost:
            log.warning("redis: the stream %r %s", split.partition, lost)
            row = {"message": f"the stream {split.partition!r} {lost}", "redis.stream": split.partition, OFFSET: split.start}
            schema = pa.schema([*FIELDS, pa.field(OFFSET, pa.int64())])
            yield Rejects(pa.RecordBatch.from_pylist([row], schema), _LOST, lost)
        else:
            yield from EntryReader(self.settings(), self.entry_field).batches(split.partition, after, last)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Set the position of ``commit_group``, and delete delivered entries."""
        if not (self.commit_group or self.delete):
            return
        with errors_named(self.settings()):
            client = shared_client(self.settings())
            for key in self.streams:
                delivered = min((positions_of(end)[key] for end in ends), key=lambda one: one.last)
                if self.commit_group:
                    _set_group(client, key, self.commit_group, delivered)
                if self.delete:
                    client.xtrim(key, minid=f"{delivered.last.millis}-{delivered.last.sequence + 1}", approximate=False)


def _set_group(client: Any, key: str, group: str, delivered: StreamPosition) -> None:
    """Set the position of a group; before Redis 7 without the number of entries, which tools need to show its lag."""
    try:
        client.xgroup_setid(key, group, str(delivered.last), entries_read=delivered.entries)
    except Exception as error:
        if "NOGROUP" not in str(error):
            raise
        client.xgroup_create(key, group, str(delivered.last), mkstream=True, entries_read=delivered.entries)
