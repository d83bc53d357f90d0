"""Events as syslog messages: RFC 5424, or the older form of RFC 3164."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.json_objects import join, text, write_events
from connectors.shared.text_template import TextTemplate, event_times, large_texts
from etl.columns.json.values import iso_times

Format = Literal["rfc5424", "rfc3164"]

_SEVERITY_NAMES = (
    "emerg emergency panic",
    "alert",
    "crit critical fatal",
    "err error",
    "warning warn",
    "notice",
    "info informational information",
    "debug trace",
)
_FACILITY_NAMES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp", "security"),
    *("console", "solaris-cron", *(f"local{number}" for number in range(8))),
)


def _codes(names: Sequence[str]) -> Mapping[str, int]:
    return {name: code for code, line in enumerate(names) for name in (*line.split(), str(code))}


SEVERITIES, FACILITIES = _codes(_SEVERITY_NAMES), _codes(_FACILITY_NAMES)
"""Codes by name and by number."""


@dataclass(frozen=True)
class MessageEncoding:
    """How events become messages, without framing."""

    format: Format
    facility: TextTemplate
    severity: TextTemplate
    host: TextTemplate
    app_name: TextTemplate
    process_id: TextTemplate
    message_id: TextTemplate
    structured_data: Mapping[str, tuple[str, ...]]
    value_field: str | None
    time_field: str | None

    def messages(self, batch: pa.RecordBatch) -> pa.Array:
        """Return a message for each event (large_string), without a newline in it."""
        if self.value_field is None:
            content = write_events(batch, None)
        else:
            content = pc.coalesce(large_texts(batch.column(self.value_field)), text(""))
        write = self._rfc5424 if self.format == "rfc5424" else self._rfc3164
        return join(text("<"), self._priorities(batch), text(">"), write(batch), text(" "), escape_controls(content))

    def _rfc5424(self, batch: pa.RecordBatch) -> pa.Array:
        times = iso_times(self._times(batch).cast(pa.timestamp("us", "UTC"))).cast(pa.large_string())
        words = [
            _word(self._hosts(batch), 255),
            _word(self.app_name.texts(batch), 48),
            _word(self.process_id.texts(batch), 128),
            _word(self.message_id.texts(batch), 32),
            self._structured_data(batch),
        ]
        return join(text("1 "), times, *(part for word in words for part in (text(" "), word)))

    def _rfc3164(self, batch: pa.RecordBatch) -> pa.Array:
        times = pc.strftime(self._times(batch).cast(pa.timestamp("s", "UTC"), safe=False), "%b %e %H:%M:%S")
        tag = pc.utf8_slice_codeunits(pc.replace_substring_regex(self.app_name.texts(batch), "[^A-Za-z0-9_./-]", "_"), 0, 32)
        process_id = self.process_id.texts(batch)
        process = pc.if_else(process_id.is_valid(), join(text("["), _word(process_id, 128), text("]")), text(""))
        tag = join(pc.coalesce(tag, text("-")), process, text(":"))
        return join(times.cast(pa.large_string()), text(" "), _word(self._hosts(batch), 255), text(" "), tag)

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the time of each event, the present where it has none."""
        nanoseconds = pc.coalesce(event_times(batch, self.time_field), pa.scalar(time.time_ns(), pa.int64()))
        return nanoseconds.cast(pa.timestamp("ns")).cast(pa.timestamp("us"), safe=False)

    def _hosts(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.coalesce(self.host.texts(batch), text(socket.gethostname()))

    def _priorities(self, batch: pa.RecordBatch) -> pa.Array:
        facility = _lookup(self.facility.texts(batch), FACILITIES, FACILITIES["user"])
        severity = _lookup(self.severity.texts(batch), SEVERITIES, SEVERITIES["info"])
        return pc.add(pc.multiply(facility, 8), severity).cast(pa.large_string())

    def _structured_data(self, batch: pa.RecordBatch) -> pa.Array:
        elements = [_element(name, fields, batch) for name, fields in self.structured_data.items()]
        if not elements:
            return pa.repeat(text("-"), batch.num_rows)
        joined = join(*elements)
        return pc.if_else(pc.equal(joined, ""), text("-"), joined)


def escape_controls(texts: pa.Array) -> pa.Array:
    """Replace control characters except the tab by ``#`` and three octal digits, such as ``#012`` for a newline, as rsyslog
    does: a text cannot end its message or begin another one.
    """
    for code in _control_codes(texts):
        texts = pc.replace_substring(texts, chr(code), f"#{code:03o}")
    return texts


def _control_codes(texts: pa.Array) -> list[int]:
    """Return the control characters in texts (large_string), without the tab."""
    import numpy as np

    if not len(texts):
        return []
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if offsets[0] == offsets[-1]:
        return []
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return np.unique(data[((data < 32) & (data != 9)) | (data == 127)]).tolist()


def _element(name: str, fields: Sequence[str], batch: pa.RecordBatch) -> pa.Array:
    """Return a structured data element (RFC 5424, 6.3) for each event; empty where no field has a value."""
    parts = []
    for field in fields:
        value = pc.replace_substring_regex(escape_controls(large_texts(batch.column(field))), r'(["\\\]])', r"\\\1")
        parts.append(pc.coalesce(join(text(f' {_parameter_name(field)}="'), value, text('"')), text("")))
    joined = join(*parts)
    return pc.if_else(pc.equal(joined, ""), text(""), join(text(f"[{name}"), joined, text("]")))


def _parameter_name(field: str) -> str:
    return "".join(one if "!" <= one <= "~" and one not in '="]' else "_" for one in field)[:32]


def _word(texts: pa.Array, max_chars: int) -> pa.Array:
    """Return texts of visible ASCII characters; others become ``_``, and null becomes ``-``."""
    return pc.coalesce(pc.utf8_slice_codeunits(pc.replace_substring_regex(texts, "[^!-~]", "_"), 0, max_chars), text("-"))


def _lookup(texts: pa.Array, codes: Mapping[str, int], default: int) -> pa.Array:
    """Return the code of each text; the default for null and unknown ones."""
    encoded = texts.dictionary_encode()
    known = [codes.get(name.strip().lower(), default) for name in encoded.dictionary.to_pylist()]
    return pc.coalesce(pa.array(known, pa.int64()).take(encoded.indices), pa.scalar(default, pa.int64()))
