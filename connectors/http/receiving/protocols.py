"""The formats of the source by name."""

from __future__ import annotations

from typing import Literal

from connectors.http.receiving.requests import RequestProtocol

ReceiveFormat = Literal["ndjson", "json", "text", "elasticsearch", "splunk_hec", "loki", "opentelemetry"]


def create_protocol(format_: ReceiveFormat, path: str, max_event_bytes: int, max_body_bytes: int) -> RequestProtocol:
    """Return the protocol of a format."""
    if format_ == "elasticsearch":
        from connectors.http.receiving.formats.elasticsearch import BulkProtocol

        return BulkProtocol(max_event_bytes)
    if format_ == "splunk_hec":
        from connectors.http.receiving.formats.splunk_hec import HecProtocol

        return HecProtocol(max_event_bytes)
    if format_ == "loki":
        from connectors.http.receiving.formats.loki import LokiProtocol

        return LokiProtocol(max_event_bytes, max_body_bytes)
    if format_ == "opentelemetry":
        from connectors.http.receiving.formats.opentelemetry import OtlpProtocol

        return OtlpProtocol(max_event_bytes)
    from connectors.http.receiving.formats.lines import LinesProtocol

    return LinesProtocol(format_, path, max_event_bytes)
