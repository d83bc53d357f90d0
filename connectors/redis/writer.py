"""Writer of the sink: one script for each batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.redis.connection_options import ConnectionSettings, errors_named, shared_client
from connectors.redis.write_script import WRITE
from connectors.shared.event_positions import START_OF_SPLIT, EventPosition, PositionedBatch, add_positions
from connectors.shared.field_texts import to_payloads, to_texts
from connectors.shared.json_lines import encode, sizes
from connectors.shared.text_template import TextTemplate
from etl.api import ComponentError, Rejects, Result, Staged, Task, visible

LEDGER_SECONDS = 7 * 24 * 3600
"""How long an entry of the ledger is kept that no later micro-batch deletes."""

MAX_CONFLICTS = 100
_HASHED = 32
SEPARATOR = "\n"
"""Between the entries of the ledger of one split in a cluster, which has one for each hash slot."""


@dataclass(frozen=True, slots=True)
class EventEncoding:
    """How an event becomes a key and arguments of a command."""

    key: TextTemplate
    kind: str
    value_field: str | None
    max_length: int | None
    expiry_millis: int | None

    def arguments(self, batch: pa.RecordBatch) -> list[list[Any]]:
        """Return the arguments of each event. A loop over events: the protocol has a length before each argument."""
        if self.kind in ("stream", "hash") and self.value_field is None:
            names = visible(batch.schema).names
            columns = [to_payloads(batch.column(name)) for name in names]
            rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
            return [[text for pair in zip(names, row, strict=True) if pair[1] is not None for text in pair] for row in rows]
        values = self._values(batch)
        if self.kind in ("stream", "hash"):
            return [[] if value is None else ["message", value] for value in values]
        return [[] if value is None else [value] for value in values]

    def _values(self, batch: pa.RecordBatch) -> list[Any]:
        if self.value_field is not None:
            return to_payloads(batch.column(self.value_field))
        return bytes(encode(batch)).split(b"\n")[:-1]


def ledger_key(task: Task) -> str:
    """Return the key of the ledger's entry of a split, which does not depend on the process that writes it."""
    parts = json.dumps([task.batch.query, task.sink, task.batch.number, task.split])
    return f"sluice:{task.pipeline}:{task.sink}:ledger:{hashlib.sha256(parts.encode()).hexdigest()[:_HASHED]}"


@dataclass
class RedisWriter:
    """Writes a split; ``entry`` is the key of its entry in the ledger, None without one."""

    settings: ConnectionSettings
    encoding: EventEncoding
    entry: str | None
    first_key: str = ""
    """What stands for the ledger's entry where there is none; in a cluster it is in the slot of the events' keys."""
    _last: EventPosition = START_OF_SPLIT
    """Position of the last event that this writer was given."""
    _written: EventPosition = field(default=START_OF_SPLIT)
    """Position of the last event that the ledger has, as far as is known."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event's values, or of its JSON."""
        field_ = self.encoding.value_field
        if field_ is None:
            return sizes(batch)
        values = batch.column(field_)
        texts = values if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type) else to_texts(values)
        return pc.fill_null(pc.binary_length(texts), 0).cast(pa.int64())

    def write(self, batch: pa.RecordBatch) -> Result:
        """Write all events of a batch that Redis can store, or none. Raises OSError."""
        rejected, keys, arguments = self._prepared(batch)
        if self.entry is None:
            self._run([self.first_key, *keys], ["", "", "", *self._options(), *arguments])
            return Result(rejected=rejected)
        found = add_positions(batch, self._last, "redis")
        self._write_with_ledger(self.entry, found, keys, arguments)
        self._last = found.last
        return Result(rejected=rejected)

    @property
    def last(self) -> EventPosition:
        """Position of the last event that it was given."""
        return self._last

    def rewind(self, last: EventPosition | None) -> None:
        """Be given events after a position again, or all of them: the ledger knows which it has."""
        self._last = last or START_OF_SPLIT

    def close(self) -> Staged | None:
        """Return the ledger's entry, for the driver to delete later."""
        wrote = self.entry is not None and self._written != START_OF_SPLIT
        return Staged("", 0, 0, self.entry) if wrote else None

    def abort(self) -> None:
        """Do nothing: what is written is in the ledger."""

    def _write_with_ledger(self, entry: str, found: PositionedBatch, keys: Sequence[str], arguments: Sequence[Any]) -> None:
        """Write what the ledger does not have of a batch, whose keys and arguments are given."""
        for _ in range(MAX_CONFLICTS):
            remaining = found.after(self._written)
            if not remaining.batch.num_rows:
                return
            if remaining.batch.num_rows < found.batch.num_rows:
                _, keys, arguments = self._prepared(remaining.batch)
            positions = [_to_text(self._written), _to_text(remaining.last), LEDGER_SECONDS * 1000]
            moved = self._run([entry, *keys], [*positions, *self._options(), *arguments])
            if moved is None:
                self._written = remaining.last
                return
            if not moved:
                raise ComponentError(
                    f"{self.settings.name} has lost the ledger's entry {entry!r}: was the database emptied, or does it evict "
                    "keys? The events of this split may be written twice by the next run"
                )
            self._written = _from_text(moved)
        raise OSError(f"{self.settings.name}: another writer writes the same split; is the pipeline running twice?")

    def _options(self) -> list[Any]:
        return [self.encoding.kind, self.encoding.max_length or "", self.encoding.expiry_millis or ""]

    def _prepared(self, batch: pa.RecordBatch) -> tuple[list[Rejects], list[str], list[Any]]:
        """Return what is rejected, the keys, and the arguments of the other events."""
        names = self.encoding.key.texts(batch).to_pylist()
        arguments = self.encoding.arguments(batch)
        no_key = [name is None for name in names]
        no_value = [name is not None and not values for name, values in zip(names, arguments, strict=True)]
        rejected = [
            Rejects(batch.filter(pa.array(mask)), code, reason)
            for mask, code, reason in (
                (no_key, "null-key", "a field of the key is null, or the key is empty"),
                (no_value, "null-value", "there is no value to store"),
            )
            if any(mask)
        ]
        numbers: dict[str, int] = {}
        flat: list[Any] = []
        for name, values in zip(names, arguments, strict=True):
            if name is not None and values:
                flat += [numbers.setdefault(name, len(numbers) + 2), len(values), *values]
        return rejected, list(numbers), flat

    def _run(self, keys: Sequence[str], arguments: Sequence[Any]) -> str | None:
        """Run the script; return None when it has written, and the ledger's position when that is another one."""
        with errors_named(self.settings):
            answer = shared_client(self.settings).register_script(WRITE)(keys=keys, args=arguments)
        kind, *more = [part.decode("utf-8", "replace") for part in answer]
        if kind == "type":
            key, found = more
            raise ComponentError(f"{self.settings.name}: the key {key!r} is a {found}, not a {self.encoding.kind}")
        return more[0] if kind == "moved" else None


def _to_text(position: EventPosition) -> str:
    return "" if position == START_OF_SPLIT else f"{position.offset}:{position.ordinal}"


def _from_text(text: str) -> EventPosition:
    offset, _, ordinal = text.partition(":")
    return EventPosition(int(offset), int(ordinal))


def delete_entries(settings: ConnectionSettings, names: Sequence[str]) -> None:
    """Delete entries of the ledger; in a cluster a split has several. Raises OSError."""
    keys = [key for name in names for key in name.split(SEPARATOR)]
    with errors_named(settings):
        shared_client(settings).unlink(*keys)
