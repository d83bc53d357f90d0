"""Bodies of Loki's push API: streams of lines, each with its labels."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.http.connection import Response
from connectors.shared.json_objects import join, text, to_lines, write_events, write_objects, write_values
from connectors.shared.text_template import TextTemplate, event_times, large_texts
from etl.columns.json.lines import Lines

PUSH_PATH = "/loki/api/v1/push"

_FRAME = '{"streams":[]}'
_STREAM_FRAME = '{"stream":,"values":[]},'
_IGNORED = re.compile(rb"total ignored: (\d{1,9}) out of (\d{1,9})")


@dataclass(frozen=True)
class PushBodies:
    """How events become lines of streams. Events of a batch are sorted by `labels`: a body has each stream once."""

    labels: Mapping[str, TextTemplate]
    value_field: str | None
    time_field: str | None
    metadata: tuple[str, ...]

    method: ClassVar[str] = "POST"
    path: ClassVar[str] = PUSH_PATH
    type: ClassVar[str] = "application/json"
    rejected_code: ClassVar[str] = "loki-rejected"

    def stream_labels(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the labels of each event's stream as a JSON object (large_string); those without a value are left out."""
        return write_objects({name: write_values(one.texts(batch)) for name, one in self.labels.items()}, batch.num_rows)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event as if it were alone in its stream."""
        labels = pc.binary_length(self.stream_labels(batch)).to_numpy()
        return pa.array(self._lines(batch).lengths + labels + len(_FRAME + _STREAM_FRAME))

    def encode(self, batch: pa.RecordBatch) -> EncodedStreams:
        """Encode events, which are sorted by their labels."""
        import numpy as np

        lines = self._lines(batch)
        labels = self.stream_labels(batch).dictionary_encode()
        codes = labels.indices.to_numpy()
        return EncodedStreams(lines.text, np.concatenate(([0], np.cumsum(lines.lengths))), codes, labels.dictionary.to_pylist())

    def headers(self, rows: pa.RecordBatch) -> Mapping[str, str]:
        """Return nothing: Loki recognises a repeated line by its stream, time and text."""
        return {}

    def divide(self, response: Response, count: int) -> Sequence[int]:
        """Return the middle, unless Loki says that it ignored all lines: it has the others of a request, and says only of some
        which it ignored.
        """
        if response.status != 400:
            return ()
        found = [(int(ignored), int(total)) for ignored, total in _IGNORED.findall(response.body)]
        is_all = all(ignored == total for ignored, total in found) and sum(total for _, total in found) == count
        return () if is_all else (count // 2,)

    def _lines(self, batch: pa.RecordBatch) -> Lines:
        """Return each event as ``["nanoseconds","line",{metadata}]``."""
        times = pc.coalesce(event_times(batch, self.time_field), pa.scalar(time.time_ns(), pa.int64()))
        if self.value_field is None:
            line = write_values(write_events(batch, None))
        else:
            line = pc.coalesce(write_values(large_texts(batch.column(self.value_field))), text('""'))
        parts = [text('["'), times.cast(pa.large_string()), text('",'), line]
        if self.metadata:
            values = {name: write_values(large_texts(batch.column(name))) for name in self.metadata}
            parts += [text(","), write_objects(values, batch.num_rows)]
        return to_lines(join(*parts, text("]")))


class EncodedStreams(NamedTuple):
    """Lines of a batch, sorted by streams."""

    text: memoryview
    """The entries, each with a newline after it."""
    ends: Any
    """Where each entry ends, after a zero (int64)."""
    codes: Any
    """The stream of each entry."""
    labels: list[str]
    """Labels of the streams as JSON."""

    def body(self, first: int, last: int) -> bytes:
        """Return the body of a request with these rows. Loops over its streams."""
        import numpy as np

        data = np.frombuffer(self.text[self.ends[first] : self.ends[last]], np.uint8).copy()
        ends = self.ends[first + 1 : last + 1] - self.ends[first]
        data[ends - 1] = ord(",")
        starts = np.flatnonzero(np.diff(self.codes[first:last], prepend=-1)).tolist()
        streams = []
        for start, stop in zip(starts, [*starts[1:], last - first], strict=True):
            entries = data[int(ends[start - 1]) if start else 0 : int(ends[stop - 1]) - 1].tobytes()
            streams.append(b'{"stream":%b,"values":[%b]}' % (self.labels[self.codes[first + start]].encode(), entries))
        return b'{"streams":[%b]}' % b",".join(streams)
