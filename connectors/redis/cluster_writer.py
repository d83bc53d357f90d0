"""Writer of the sink in a Redis Cluster, where a script has keys of one hash slot: each slot has its own entry in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count

import pyarrow as pa

from connectors.redis.writer import SEPARATOR, RedisWriter
from etl.api import Rejects, Result, Staged

_tags: dict[int, str] = {}
_numbers = count()


def tag_of(slot: int) -> str:
    """The smallest number whose text has a hash slot: ``{7}`` in a key puts it there."""
    while slot not in _tags:
        number = str(next(_numbers))
        _tags.setdefault(slot_of(number), number)
    return _tags[slot]


@lru_cache(maxsize=1 << 18)
def slot_of(key: str) -> int:
    """The hash slot of a key (Redis Cluster specification, "Key distribution model")."""
    from redis.crc import key_slot

    return int(key_slot(key.encode()))


@dataclass
class ClusterWriter:
    """Divides batches by hash slots. ``writer`` is that of a single server, whose ``entry`` names those of the slots."""

    writer: RedisWriter
    _slots: dict[int, RedisWriter] = field(default_factory=dict)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event."""
        return self.writer.sizes(batch)

    def write(self, batch: pa.RecordBatch) -> Result:
        """Write all events of a batch that Redis can store. After an error the same batch is written again: the ledgers know
        what they have. Raises OSError."""
        before = {slot: one.last for slot, one in self._slots.items()}
        rejected: list[Rejects] = []
        try:
            for slot, part in self._parts(batch):
                rejected += self._writer_of(slot).write(part).rejected
        except BaseException:
            for slot, one in self._slots.items():
                one.rewind(before.get(slot))
            raise
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Return the entries of the ledger, for the driver to delete later."""
        entries = [one.detail for writer in self._slots.values() if (one := writer.close()) is not None]
        return Staged("", 0, 0, SEPARATOR.join(entries)) if entries else None

    def abort(self) -> None:
        """Do nothing: what is written is in the ledger."""

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The events of each slot, in their order; those without a key are in any."""
        names = self.writer.encoding.key.texts(batch).to_pylist()
        rows: dict[int, list[int]] = {}
        for row, name in enumerate(names):
            rows.setdefault(slot_of(name or ""), []).append(row)
        for slot, chosen in rows.items():
            yield slot, batch if len(rows) == 1 else batch.take(pa.array(chosen, pa.int64()))

    def _writer_of(self, slot: int) -> RedisWriter:
        if slot not in self._slots:
            entry, tag = self.writer.entry, f"{{{tag_of(slot)}}}"
            named = replace(self.writer, entry=None if entry is None else f"{entry}:{tag}", first_key=tag)
            self._slots[slot] = named
        return self._slots[slot]
