"""The `journald` source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, Self

import pyarrow as pa
from pydantic import Field

from connectors.journald.entry_filter import MAX_CONDITIONS, EntryFilter, Severity
from connectors.journald.journal_fields import DEFAULT_FIELDS, FIELD_NAME, check_fields
from connectors.journald.journal_file import NotAJournalError, read_header
from connectors.journald.journal_files import FoundFile, candidates, files_at, find_files, open_by_id
from connectors.journald.journal_positions import JournalPositions, limit_positions, plan_splits, update_positions
from etl.api import Backlog, FieldName, Finding, Limit, Offset, Rejects, Schema, Size, Source, Split, TypeName, parse_type

if TYPE_CHECKING:
    from connectors.journald.entry_reader import EntryReader

Text = Annotated[str, Field(min_length=1)]

_LOST = "data-lost"


class JournaldSource(Source):
    """Read the journal of systemd, one event an entry, from its files; systemd itself is not needed.

    ``path`` is a folder of journal files, with those of its machines (``/var/log/journal/<machine-id>``), or one file. All
    forms of the published format are read: compressed with Zstandard, LZ4 or XZ, compact or not, sealed or not, archived, and
    files that were not closed before a crash (``….journal~``). A file is identified by the identifier in it: one that is
    rotated goes on under its new name, also where ``path`` is a file, and a copy is not read again. Where ``path`` is a file,
    its later archives (``system@….journal``) are read, too, if it was rotated several times while nothing read it. The user
    needs the right to read the files, usually by the group ``systemd-journal`` or ``adm``.

    Fields have the names that they have in the journal and in ``journalctl -o json``, such as ``MESSAGE`` and
    ``_SYSTEMD_UNIT``; ``fields`` declares which are read. ``__REALTIME_TIMESTAMP`` (timestamp or bigint),
    ``__MONOTONIC_TIMESTAMP``, ``__SEQNUM`` (bigint), ``__SEQNUM_ID`` and ``__CURSOR`` belong to the entry. Of a field that an
    entry has several times the first value is read, with the type ``array<string>`` all are. In a ``string`` bytes that are
    not UTF-8 become U+FFFD, ``binary`` has all bytes. ``rest`` takes the fields that are not declared, as a JSON object in
    the form of ``journalctl -o json``: several values of a field are an array, bytes that are not UTF-8 an array of numbers,
    a value over ``max_field_bytes`` is null.

    The filters are those of ``journalctl``: ``units`` has the messages of a unit and those that systemd writes about it,
    ``priority`` has messages of this and of greater importance, ``match`` compares fields. An entry must pass all filters,
    and one of the values of each.

    Delivery: exactly once, up to the sinks' guarantees: entries of a file keep their numbers, and the offset is the number of
    entries that were read of each file; tested by killing runs at random moments while the files rotate. Entries of a file
    keep their order, and files are read in the order of their first entries: the journals of users (``user-1000.journal``)
    beside that of the system, not merged with it. Parallelism: ranges of at least 20,000 entries. Dead letters:
    ``bad-journal-entry`` for an entry that is damaged, as after a power failure, ``unreadable-value`` for a value that does
    not have its type, ``field-too-long`` (with its first 64 KiB, or for an entry whose values have together more than
    64 MiB), ``data-lost`` for entries that journald deleted
    (``SystemMaxUse``) after they were known and before they were read. Entries in files that were created and deleted between
    two looks at the folder are lost unnoticed, which takes an outage of the pipeline. Only one of ``/var/log/journal`` and
    ``/run/log/journal`` should be read: journald copies the second to the first.

    ```yaml
    type: journald
    path: /var/log/journal
    units: [ssh, "docker-*"]
    priority: warning
    ```
    """

    type: Literal["journald"] = "journald"
    path: str = Field(
        default="/var/log/journal", description="Folder with journal files or with folders of machines, or a file.", min_length=1
    )
    declared: dict[FieldName, TypeName] = Field(
        default=DEFAULT_FIELDS,
        alias="fields",
        min_length=1,
        description="Field of the journal → type: string, array<string>, binary, int, bigint or timestamp.",
        examples=[{"__REALTIME_TIMESTAMP": "timestamp", "MESSAGE": "string", "PRIORITY": "int"}],
    )
    rest: FieldName | None = Field(
        default=None, description="Text field for the JSON of the fields that are not declared.", examples=["journal"]
    )
    units: tuple[Text, ...] = Field(
        default=(),
        description="Units; `ssh` means `ssh.service`, and a glob is one of whole names, as `docker-*`.",
        examples=[["ssh", "docker-*"]],
    )
    identifiers: tuple[Text, ...] = Field(default=(), description="Values of SYSLOG_IDENTIFIER.", examples=[["sudo", "kernel"]])
    priority: Severity | None = Field(default=None, description="Least important priority that is read; without it all are.")
    match: dict[Annotated[str, Field(pattern=FIELD_NAME)], Annotated[tuple[str, ...], Field(min_length=1)]] = Field(
        default={},
        description="Field of the journal → values, of which an entry must have one.",
        examples=[{"_TRANSPORT": ["kernel", "audit"]}],
    )
    since: datetime | None = Field(
        default=None,
        description="Only entries of this time or later are read; UTC if it has no time zone.",
        examples=["2026-11-20T06:00:00Z"],
    )
    begin: Literal["beginning", "end"] = Field(
        default="beginning", alias="start", description="Where a new pipeline begins in files that exist."
    )
    follow: bool = Field(default=True, description="Wait for new entries; without it the source ends when all are read.")
    max_field_bytes: Size = Field(
        default=1 << 20, description="An entry with a longer value of a declared field is a dead letter.", ge=1, le=1 << 28
    )

    @property
    def probes_here(self) -> bool:
        """True: the files are on this host."""
        return True

    @property
    def host_bound(self) -> bool:
        """True: only this host has the files."""
        return True

    def check(self) -> Iterable[Finding]:
        """Check names and types of fields."""
        yield from check_fields(self.declared, self.rest)
        conditions = len(self._filter().conditions)
        if conditions > MAX_CONDITIONS:
            hint = f"a filter has up to {MAX_CONDITIONS} conditions; put values of one field together, or use a step filter"
            yield Finding("maximum", f"match has {len(self.match)} fields", ("match",), hint)

    def fields(self) -> Schema:
        """Return the declared fields, and ``rest``."""
        fields = [(name, parse_type(type_)) for name, type_ in self.declared.items()]
        return pa.schema([*fields, (self.rest, pa.string())] if self.rest else fields)

    def probe(self) -> Iterable[Finding]:
        """Check that there are journal files, and that they can be read."""

        return probe_files(self.path)

    @property
    def skips(self) -> str | None:
        """The option that skips existing entries, if it is set."""
        return "start: end" if self.begin == "end" else "since" if self.since else None

    def explain_no_events(self, committed: Offset | None) -> str:
        """Return how many files there are, and why nothing of them was read."""
        found = self._list_files(JournalPositions())
        if not found:
            return f"{self.path!r} has no journal file that can be read"
        entries = sum(one.header.entries for one in found.values())
        files = f"{len(found):,} file{'s' * (len(found) != 1)}"
        count = f"{self.path!r} has {entries:,} entr{'y' if entries == 1 else 'ies'} in {files}"
        if committed is None and self._filter().conditions:
            return f"{count}, and none passes the filters"
        return f"{count}; {super().explain_no_events(committed)}"

    def reading_sample(self, path: str) -> Self:
        """This source, reading one journal file."""
        return self.model_copy(update={"path": path, "begin": "beginning", "follow": False})

    def start(self) -> Offset:
        """Return the offset where nothing is read; with ``start: end``, where all current entries are."""
        begun = JournalPositions()
        if self.begin == "end":
            known = update_positions(begun, self._list_files(begun), None)
            begun = replace(known, files={id_: one._replace(read=one.known) for id_, one in known.files.items()})
        return begun.to_offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: the last entry of each file, or what the limit allows."""
        before = JournalPositions.from_offset(start)
        found = self._list_files(before)
        if before.done or (not found and self.follow):
            return start
        target = JournalPositions.from_offset(limit.until) if limit.until else update_positions(before, found, self._since)
        end = limit_positions(before, replace(target, done=False), found, limit)
        if not self.follow and not end.unread:
            end = replace(end, done=True)
        return start if end.has_read_as(before) else end.to_offset()

    def ended(self, offset: Offset) -> bool:
        """Return whether all entries are read, without ``follow``."""
        return bool(offset["done"])

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the entries after the offset."""
        before = JournalPositions.from_offset(after)
        return Backlog(update_positions(before, self._list_files(before), self._since).unread)

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the entries of each file."""
        last = JournalPositions.from_offset(end)
        paths = {id_: one.path for id_, one in self._list_files(last).items()}
        return plan_splits(JournalPositions.from_offset(start), last, paths, parallelism)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of up to 8 MiB."""
        reader = self._reader()
        file = open_by_id(self.path, split.detail, split.partition, split.end)
        if file is None:
            reason = f"journal file {split.partition} was deleted before it was read"
            yield reader.reject_range(split.start, split.end, reason, _LOST)
        else:
            yield from reader.read(file, split.start, split.end)

    def _reader(self) -> EntryReader:
        from connectors.journald.entry_reader import EntryReader

        return EntryReader(self.fields(), self.rest, self._filter(), self.max_field_bytes)

    @property
    def _since(self) -> int | None:
        """Microseconds since 1970."""
        if self.since is None:
            return None
        since = self.since if self.since.tzinfo else self.since.replace(tzinfo=UTC)
        return round(since.timestamp() * 1_000_000)

    def _filter(self) -> EntryFilter:
        return EntryFilter.of(self.units, self.identifiers, self.priority, self.match, self._since)

    def _list_files(self, positions: JournalPositions) -> Mapping[str, FoundFile]:
        """The files to read: all of the folder, or the one at ``path`` and those that were there since the source began."""
        found = find_files(self.path)
        try:
            id_ = read_header(self.path).id
        except IsADirectoryError:
            return found
        except (OSError, NotAJournalError):
            id_ = ""
        return files_at(self.path, id_, found, positions.files)


_HINT = "grant the right to read it: add the user to the group systemd-journal"


def probe_files(path: str) -> Iterator[Finding]:
    """Yield findings: a path that is missing or has no journal, and files that cannot be read."""
    if not os.path.exists(path):
        hint = "journald keeps its files in memory: read /run/log/journal" if path == "/var/log/journal" else None
        yield Finding("missing-input", f"{path!r} does not exist", ("path",), hint)
        return
    errors = {one: error for one in candidates(path) if (error := _error(one))}
    if errors:
        first, reason = next(iter(errors.items()))
        more = f", and {len(errors) - 1:,} more" if len(errors) > 1 else ""
        yield Finding("unreadable-file", f"{first!r} cannot be read{more}: {reason}", ("path",), _HINT)
    elif not any(True for _ in candidates(path)):
        hint = "give the folder of the *.journal files, or of the machines' folders"
        yield Finding("no-files", f"{path!r} has no journal file", ("path",), hint)


def _error(path: str) -> str | None:
    try:
        read_header(path)
    except (OSError, NotAJournalError) as error:
        return str(error)
    return None
