"""What receivers of OTLP answer: how many records they rejected, and why."""

from __future__ import annotations

import json
from typing import NamedTuple

from connectors.http.connection import Response
from connectors.shared.receiving.protobuf import read_fields, signed

_PROTOBUF = "application/x-protobuf"


class PartialSuccess(NamedTuple):
    """Records of a request that a receiver has rejected, without saying which; or a warning, if it rejected none."""

    rejected: int
    message: str


def parse_partial_success(response: Response) -> PartialSuccess:
    """Return the ``partial_success`` of an ExportLogsServiceResponse; nothing rejected if there is none."""
    if not response.body:
        return PartialSuccess(0, "")
    try:
        return _from_protobuf(response.body) if _is_protobuf(response) else _from_json(response.body)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return PartialSuccess(0, "")


def with_status_message(response: Response) -> Response:
    """Return an error whose body is the message of its Status (google.rpc), for messages to the user."""
    if response.status < 300 or not response.body:
        return response
    try:
        if _is_protobuf(response):
            texts = [part.data for part in read_fields(response.body) if part.number == 2]
            text = texts[-1] if texts else b""
        else:
            text = json.loads(response.body)["message"].encode()
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return response
    return response._replace(body=text)


def _is_protobuf(response: Response) -> bool:
    return response.headers.get("content-type", "").partition(";")[0].strip() == _PROTOBUF


def _from_protobuf(body: bytes) -> PartialSuccess:
    rejected, message = 0, ""
    for outer in read_fields(body):
        for part in read_fields(outer.data) if outer.number == 1 else ():
            if part.number == 1:
                rejected = signed(part.value)
            elif part.number == 2:
                message = part.data.decode(errors="replace")
    return PartialSuccess(max(0, rejected), message)


def _from_json(body: bytes) -> PartialSuccess:
    partial = json.loads(body).get("partialSuccess") or {}
    return PartialSuccess(max(0, int(partial.get("rejectedLogRecords") or 0)), str(partial.get("errorMessage") or ""))
