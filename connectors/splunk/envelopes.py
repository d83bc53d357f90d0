"""Bodies of Splunk's HTTP Event Collector: an envelope of JSON for each event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from connectors.http.bodies import EncodedLines, encoded_lines, join_lines
from connectors.http.connection import Response
from connectors.shared.json_objects import join, text, to_lines, write_events, write_objects, write_values
from connectors.shared.text_template import TextTemplate, event_times, large_texts
from etl.api import ComponentError
from etl.columns.json.lines import Lines

EVENT_PATH, HEALTH_PATH = "/services/collector/event", "/services/collector/health"

_INCORRECT_INDEX = 7
_ERRORS_OF_REQUESTS = {10: "write X-Splunk-Request-Channel in headers", 11: "the channel is a GUID", 14: "", 16: "", 21: ""}
"""Codes that all events of the token would get, with a hint."""


@dataclass(frozen=True)
class EnvelopeBodies:
    """How events become envelopes. Members whose value is null are left out."""

    value_field: str | None
    time_field: str | None
    metadata: Mapping[str, TextTemplate]
    """Templates of host, source, sourcetype and index."""

    fields: tuple[str, ...]

    method: ClassVar[str] = "POST"
    path: ClassVar[str] = EVENT_PATH
    type: ClassVar[str] = "application/json"
    rejected_code: ClassVar[str] = "splunk-rejected"

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event's envelope."""
        return pa.array(self._lines(batch).lengths)

    def encode(self, batch: pa.RecordBatch) -> EncodedLines:
        """Encode the events as envelopes, one a line."""
        return encoded_lines(*self._lines(batch), join_lines)

    def headers(self, rows: pa.RecordBatch) -> Mapping[str, str]:
        """Return nothing: an envelope has no place for an identity that Splunk would compare."""
        return {}

    def divide(self, response: Response, count: int) -> Sequence[int]:
        """Return where to divide so that the event which the response names is alone.

        What comes after it is also halved: a request whose events are all invalid costs no more than n log n.
        """
        code, number = parse_error(response)
        is_fixed_index = "index" not in self.metadata or self.metadata["index"].is_constant
        if code in _ERRORS_OF_REQUESTS or (code == _INCORRECT_INDEX and is_fixed_index):
            hint = "see index" if code == _INCORRECT_INDEX else _ERRORS_OF_REQUESTS[code]
            raise ComponentError(f"{response.describe()}; the run ends without loss" + (f": {hint}" if hint else ""))
        if number is None or count == 1:
            return ()
        return (number, number + 1, (number + 1 + count) // 2) if number < count else (count // 2,)

    def _lines(self, batch: pa.RecordBatch) -> Lines:
        members = {"time": write_seconds(event_times(batch, self.time_field))}
        members |= {name: write_values(template.texts(batch)) for name, template in self.metadata.items()}
        if self.fields:
            values = {name: write_values(large_texts(batch.column(name))) for name in self.fields}
            members["fields"] = write_objects(values, batch.num_rows)
        members["event"] = write_events(batch, self.value_field)
        return to_lines(write_objects(members, batch.num_rows))


def write_seconds(nanoseconds: pa.Array) -> pa.Array:
    """Return times as seconds since 1970 with six decimals (large_string)."""
    micros = pc.divide(pc.abs(nanoseconds), 1000)
    whole = pc.divide(micros, 1_000_000)
    rest = pc.utf8_lpad(pc.subtract(micros, pc.multiply(whole, 1_000_000)).cast(pa.large_string()), 6, "0")
    sign = pc.if_else(pc.less(nanoseconds, 0), text("-"), text(""))
    return join(sign, whole.cast(pa.large_string()), text("."), rest)


def parse_error(response: Response) -> tuple[int | None, int | None]:
    """Return Splunk's code, and the number of the event that the response names; None for what it does not have."""
    try:
        body = json.loads(response.body)
        found = [body.get(name) for name in ("code", "invalid-event-number")]
    except (ValueError, AttributeError, RecursionError):
        return None, None
    code, number = (one if isinstance(one, int) and one >= 0 else None for one in found)
    return code, number
