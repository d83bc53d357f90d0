"""Export requests of logs (opentelemetry-proto, ``logs/v1``) → stored objects, from Protocol Buffers and from JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.http.receiving.requests import NOT_READABLE, check_count
from connectors.shared.receiving.protobuf import DamagedMessageError, as_double, read_fields, signed

MAX_DEPTH = 32
"""Nesting of values."""


@dataclass
class LogRecords:
    """The records of a request, each with the number of its scope."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    scope_of_entry: list[int] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)
    """Attributes of the resource, and the scope."""

    rejected: int = 0
    reason: str = ""

    def add_scope(self, resource: Any, scope: Any) -> None:
        """Begin a scope: the following records belong to it. Raises RequestError if there are too many."""
        check_count(len(self.scopes) + 1)
        self.scopes.append({"resource": resource, "scope": scope})

    def add(self, read: Any, record: Any) -> None:
        """Add a record, or count it as rejected if it is damaged. Raises RequestError if there are too many."""
        check_count(len(self.entries) + 1)
        try:
            self.entries.append(read(record))
            self.scope_of_entry.append(len(self.scopes) - 1)
        except (*NOT_READABLE, KeyError, AttributeError) as error:
            self.rejected += 1
            self.reason = self.reason or f"a record is damaged: {str(error)[:200]}"


def body_text(body: Any) -> str | None:
    """Return a body as text: a text as it is, any other value as JSON."""
    return body if body is None or isinstance(body, str) else json.dumps(body)


# ── Protocol Buffers ──


def read_binary(message: bytes) -> LogRecords:
    """Read an ExportLogsServiceRequest. Raises DamagedMessageError."""
    records = LogRecords()
    for outer in read_fields(message):
        if outer.number == 1:
            _read_resource_logs(outer.data, records)
    return records


def _read_resource_logs(message: bytes, records: LogRecords) -> None:
    """Read messages twice rather than keep a list of their parts, of which two bytes may be one."""
    resource: dict[str, Any] = {}
    for part in read_fields(message):
        if part.number == 1:
            resource = _attributes(part.data, 1)
    for part in read_fields(message):
        if part.number == 2:
            records.add_scope(resource, next((_scope(one.data) for one in read_fields(part.data) if one.number == 1), {}))
            for one in read_fields(part.data):
                if one.number == 2:
                    records.add(_binary_record, one.data)


def _scope(message: bytes) -> dict[str, Any]:
    texts = {part.number: _text(part.data) for part in read_fields(message) if part.number in (1, 2)}
    return {"name": texts.get(1, ""), "version": texts.get(2, ""), "attributes": _attributes(message, 3)}


def _binary_record(message: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for part in read_fields(message):
        if part.number in _NUMBERS:
            entry[_NUMBERS[part.number]] = part.value
        elif part.number == 5:
            entry["l"] = body_text(_value(part.data))
        elif part.number in (3, 12) and part.data:
            entry["s" if part.number == 3 else "e"] = _text(part.data)
        elif part.number in (9, 10) and part.data:
            entry["i" if part.number == 9 else "p"] = part.data.hex()
    attributes = _attributes(message, 6)
    return {**entry, "a": json.dumps(attributes)} if attributes else entry


_NUMBERS = {1: "t", 2: "n", 11: "o"}


def _attributes(message: bytes, number: int) -> dict[str, Any]:
    """Return the KeyValue fields of a number."""
    return dict(_key_value(part.data, 0) for part in read_fields(message) if part.number == number)


def _key_value(message: bytes, depth: int) -> tuple[str, Any]:
    key, value = "", None
    for part in read_fields(message):
        if part.number == 1:
            key = _text(part.data)
        elif part.number == 2:
            value = _value(part.data, depth)
    return key, value


def _value(message: bytes, depth: int = 0) -> Any:
    """Return an AnyValue."""
    if depth > MAX_DEPTH:
        raise DamagedMessageError(f"values are nested more than {MAX_DEPTH} deep")
    value: Any = None
    for part in read_fields(message):
        if part.number == 1:
            value = _text(part.data)
        elif part.number == 2:
            value = bool(part.value)
        elif part.number == 3:
            value = signed(part.value)
        elif part.number == 4:
            value = _finite(as_double(part.value))
        elif part.number == 5:
            value = [_value(one.data, depth + 1) for one in read_fields(part.data) if one.number == 1]
        elif part.number == 6:
            value = dict(_key_value(one.data, depth + 1) for one in read_fields(part.data) if one.number == 1)
        elif part.number == 7:
            value = base64.b64encode(part.data).decode()
    return value


def _finite(value: float) -> float | None:
    """Return a number that JSON has."""
    return value if value - value == 0 else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# ── JSON ──


def read_json(body: bytes) -> LogRecords:
    """Read the JSON form. Raises ValueError, TypeError or AttributeError if it is another document."""
    records = LogRecords()
    for outer in json.loads(body).get("resourceLogs", ()):
        resource = _json_attributes(outer.get("resource", {}).get("attributes", ()))
        for inner in outer.get("scopeLogs", ()):
            scope = inner.get("scope", {})
            attributes = _json_attributes(scope.get("attributes", ()))
            records.add_scope(
                resource, {"name": scope.get("name", ""), "version": scope.get("version", ""), "attributes": attributes}
            )
            for record in inner.get("logRecords", ()):
                records.add(_json_record, record)
    return records


def _json_record(record: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {short: int(record[name]) for name, short in _JSON_NUMBERS.items() if name in record}
    entry |= {short: str(record[name]) for name, short in _JSON_TEXTS.items() if record.get(name)}
    if "body" in record:
        entry["l"] = body_text(_json_value(record["body"]))
    attributes = _json_attributes(record.get("attributes", ()))
    return {**entry, "a": json.dumps(attributes)} if attributes else entry


_JSON_NUMBERS = {"timeUnixNano": "t", "observedTimeUnixNano": "o", "severityNumber": "n"}
_JSON_TEXTS = {"severityText": "s", "traceId": "i", "spanId": "p", "eventName": "e"}


def _json_attributes(pairs: Any) -> dict[str, Any]:
    return {str(pair["key"]): _json_value(pair.get("value")) for pair in pairs}


def _json_value(value: Any) -> Any:
    """Return an AnyValue of the JSON form."""
    if not value:
        return None
    ((kind, inner),) = value.items()
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [_json_value(one) for one in inner.get("values", ())]
    if kind == "kvlistValue":
        return _json_attributes(inner.get("values", ()))
    if kind not in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        raise ValueError(f"{kind[:40]!r} is not a kind of value")
    return _finite(inner) if isinstance(inner, float) else inner
