"""Probe of a cluster: does it respond, accept the login, and have what the options name? Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from connectors.elasticsearch.bulk_response import error_reason, raise_for_response
from connectors.http.client import Client
from connectors.shared.path_template import parse_template
from etl.api import Finding, Schema, visible

if TYPE_CHECKING:
    from connectors.elasticsearch.connection_options import ClusterOptions
    from connectors.elasticsearch.sink import ElasticsearchSink
    from connectors.http.connection_settings import ConnectionSettings

PROBE_TIMEOUT_SECONDS = 5.0
"""How long a request of the probe may take."""


def probe_sink(sink: ElasticsearchSink, incoming: Schema) -> Iterator[Finding]:
    """Check that the index exists or may be created, is what the options say, and has a mapping that fits the fields."""
    with closing(Client(_with_short_timeout(sink.connection_settings()))) as client:
        if sink.pipeline is not None:
            yield from _check_pipeline(client, sink.pipeline)
        if len(parse_template(sink.index).pieces) > 1:
            _get_json(client, f"/{quote(parse_template(sink.index).pieces[0])}*/_alias")
            return
        found = _get_json(client, f"/{quote(sink.index)}")
        if found is None:
            message = f"there is no index {sink.index!r} yet; the server creates it with the first event if that is allowed"
            yield Finding("unknown-index", message, ("index",), severity="warning")
            return
        for name, index in found.items():
            yield from _check_data_stream(sink, name)
            yield from _check_mapping(index.get("mappings", {}), visible(incoming))
            return


def probe_source(cluster: ClusterOptions, index: str, time_field: str | None) -> Iterator[Finding]:
    """Check that the index exists, and that its time field is a date."""
    with closing(Client(_with_short_timeout(cluster.connection_settings()))) as client:
        found = _get_json(client, f"/{quote(index, safe='*,-')}/_mapping?allow_no_indices=false")
        if found is None:
            yield Finding("unknown-index", f"there is no index {index!r}, or this login may not see it", ("index",))
            return
        if not found:
            message = f"this login may not read the mapping of index {index!r}, so it was not compared"
            yield Finding("unknown-index", message, ("index",), "grant view_index_metadata", severity="warning")
            return
        kinds = {_kind(mapping["mappings"], time_field) for mapping in found.values()} if time_field else set()
        for kind in sorted(str(kind or "not mapped") for kind in kinds - {"date", "date_nanos"}):
            message = f"{time_field!r} is {kind} in an index, but time_field must be a date"
            yield Finding("wrong-type", message, ("time_field",))


def _with_short_timeout(settings: ConnectionSettings) -> ConnectionSettings:
    return replace(settings, timeout=min(settings.timeout, PROBE_TIMEOUT_SECONDS))


def _get_json(client: Client, path: str) -> dict[str, Any] | None:
    """Return a response as JSON: None with status 404, empty with 403 (a login that may write but not read metadata). Raises
    as `raise_for_response`.
    """
    response = client.request("GET", path)
    if response.status == 404:
        return None
    if response.status == 403:
        return {}
    if response.status != 200:
        raise_for_response(response)
    try:
        found = json.loads(response.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConnectionError(f"{response.server} is not Elasticsearch: it responds {response.excerpt(80)!r}")
    return found


def _check_pipeline(client: Client, name: str) -> Iterator[Finding]:
    response = client.request("GET", f"/_ingest/pipeline/{quote(name)}")
    if response.status == 404:
        yield Finding("unknown-pipeline", f"the server has no ingest pipeline {name!r}", ("pipeline",))
    elif response.status not in (200, 403):  # 403: a writer may lack the right to read pipelines
        yield Finding(
            "unknown-pipeline", f"cannot read it: {response.status} {error_reason(response)}", ("pipeline",), severity="warning"
        )


def _check_data_stream(sink: ElasticsearchSink, found: str) -> Iterator[Finding]:
    is_stream = found.startswith(".ds-")
    if is_stream and not sink.data_stream:
        message = f"{sink.index!r} is a data stream: exactly-once ends at each rollover"
        yield Finding("data-stream", message, ("index",), "set data_stream: true", severity="warning")
        if sink.action != "create":
            yield Finding("data-stream-action", f"a data stream needs action create, not {sink.action}", ("action",))
    elif sink.data_stream and not is_stream:
        yield Finding("data-stream", f"{sink.index!r} is not a data stream on this server", ("data_stream",), severity="warning")


def _check_mapping(mapping: dict[str, Any], incoming: Schema) -> Iterator[Finding]:
    for field in incoming:
        kind = _kind(mapping, field.name)
        accepted = _ACCEPTED_TYPES.get(kind or "")
        if accepted is not None and not pa.types.is_null(field.type) and not any(is_type(field.type) for is_type in accepted):
            message = f"field {field.name!r} is {field.type}, but {kind} in the index: documents may be rejected"
            yield Finding("index-mismatch", message, ("index",), severity="warning")


def _kind(mapping: dict[str, Any], field: str | None) -> str | None:
    """Return a field's type in a mapping; None if it is not mapped."""
    node: dict[str, Any] = mapping
    for name in (field or "").split("."):
        node = (node.get("properties") or node.get("fields") or {}).get(name) or {}
    return node.get("type") or ("object" if "properties" in node else None)


_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_TIMES = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer)
_ACCEPTED_TYPES = {
    **dict.fromkeys(("long", "integer", "short", "byte", "unsigned_long", "double", "float", "half_float"), _NUMBERS),
    **dict.fromkeys(("date", "date_nanos"), _TIMES),
    "boolean": (pa.types.is_boolean,),
    "ip": (pa.types.is_string,),
    **dict.fromkeys(("object", "nested"), (pa.types.is_nested,)),
}
"""Types of a mapping → Arrow types that it accepts whatever the value; others depend on values or accept all."""
