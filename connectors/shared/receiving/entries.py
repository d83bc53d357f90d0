"""Events whose protocol has no text form of its own: each is stored as a JSON object with short names.

Making them costs a Python loop over the events of a request (2 to 10 µs each), because their protocols nest values in binary
messages; reading them costs none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.shared.journal.batches import EventRows
from etl.api import TIMESTAMP

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def encode_entries(entries: Sequence[Mapping[str, Any]]) -> tuple[bytes, Array]:
    """Return the objects one after the other, and their spans (int64[2, n])."""
    import numpy as np

    texts = [json.dumps(entry, separators=(",", ":")).encode() for entry in entries]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return b"".join(texts), np.stack([np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)], ends])


def entry_columns(rows: EventRows, names: tuple[str, ...]) -> dict[str, pa.Array]:
    """Return members of the objects as texts."""
    from connectors.shared.receiving.json_members import member_spans, value_texts

    spans = member_spans(rows.buffer, rows.starts, rows.ends, names)
    return {name: value_texts(rows.buffer, spans[at]) for at, name in enumerate(names)}


def context_column(rows: EventRows, contexts: Sequence[str | None]) -> pa.Array:
    """Return what each event has in common with others, by the contexts of the senders."""
    return pa.array(contexts, pa.string()).take(pa.array(rows.sender_of_row))


def nanosecond_times(texts: pa.Array) -> pa.Array:
    """Return nanoseconds since 1970 as times; null for 0 and what is not a number of 64 bits."""
    import polars as pl

    nanos = pl.Series(pl.from_arrow(texts.cast(pa.string()))).cast(pl.Int64, strict=False)
    micros = (nanos // 1000).set(nanos == 0, None)
    return micros.to_arrow().cast(TIMESTAMP)
