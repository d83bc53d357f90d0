"""Looking whether a cluster is there, lets us in and has what the options name. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from connectors.elasticsearch.answers import reason_in, refuse
from connectors.file.templates import parse_template
from connectors.http.client import Client
from etl.api import Finding, Schema, visible

if TYPE_CHECKING:
    from connectors.elasticsearch.access import Cluster
    from connectors.elasticsearch.sink import ElasticsearchSink
    from connectors.http.access import Access

PATIENCE_SECONDS = 5.0


def probe_sink(sink: ElasticsearchSink, incoming: Schema) -> Iterator[Finding]:
    """Is the index there, or may it be made; is it what the options say; does its mapping take these fields?"""
    with closing(Client(_hasty(sink.access()))) as client:
        if sink.pipeline is not None:
            yield from _pipeline(client, sink.pipeline)
        if len(parse_template(sink.index).pieces) > 1:
            _get(client, f"/{quote(parse_template(sink.index).pieces[0])}*/_alias")
            return
        found = _get(client, f"/{quote(sink.index)}")
        if found is None:
            message = f"there is no index {sink.index!r} yet; the server makes it with the first event, if it may"
            yield Finding("unknown-index", message, ("index",), severity="warning")
            return
        for name, index in found.items():
            yield from _stream(sink, name)
            yield from _mapping(index.get("mappings", {}), visible(incoming))
            return


def probe_source(cluster: Cluster, index: str, time_field: str | None) -> Iterator[Finding]:
    """Is there an index, and is its time a time?"""
    with closing(Client(_hasty(cluster.access()))) as client:
        found = _get(client, f"/{quote(index, safe='*,-')}/_mapping?allow_no_indices=false")
        if found is None:
            yield Finding("unknown-index", f"there is no index {index!r}, or this login may not see it", ("index",))
            return
        if not found:
            message = f"this login may not see what index {index!r} is like, so it was not compared"
            yield Finding("unknown-index", message, ("index",), "view_index_metadata lets it", severity="warning")
            return
        kinds = {_kind(mapping["mappings"], time_field) for mapping in found.values()} if time_field else set()
        for kind in sorted(str(kind or "not mapped") for kind in kinds - {"date", "date_nanos"}):
            message = f"{time_field!r} is {kind} in an index, and events are followed by a date"
            yield Finding("wrong-type", message, ("time_field",))


def _hasty(access: Access) -> Access:
    return replace(access, timeout=min(access.timeout, PATIENCE_SECONDS))


def _get(client: Client, path: str) -> dict[str, Any] | None:
    """The answer as JSON: None when what is asked for is not there, empty when this login may write and not look. Raises as
    `refuse`."""
    answer = client.ask("GET", path)
    if answer.status == 404:
        return None
    if answer.status == 403:
        return {}
    if answer.status != 200:
        refuse(answer)
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConnectionError(f"{answer.place} is no Elasticsearch: it answers {answer.excerpt(80)!r}")
    return found


def _pipeline(client: Client, name: str) -> Iterator[Finding]:
    answer = client.ask("GET", f"/_ingest/pipeline/{quote(name)}")
    if answer.status == 404:
        yield Finding("unknown-pipeline", f"the server has no ingest pipeline {name!r}", ("pipeline",))
    elif answer.status not in (200, 403):  # a writer need not be allowed to see it
        yield Finding(
            "unknown-pipeline", f"cannot look for it: {answer.status} {reason_in(answer)}", ("pipeline",), severity="warning"
        )


def _stream(sink: ElasticsearchSink, found: str) -> Iterator[Finding]:
    is_stream = found.startswith(".ds-")
    if is_stream and not sink.data_stream:
        message = f"{sink.index!r} is a data stream: exactly-once ends at each rollover"
        yield Finding("data-stream", message, ("index",), "say so: data_stream: true", severity="warning")
        if sink.action != "create":
            yield Finding("data-stream-action", f"a data stream takes create, not {sink.action}", ("action",))
    elif sink.data_stream and not is_stream:
        yield Finding("data-stream", f"{sink.index!r} is no data stream on this server", ("data_stream",), severity="warning")


def _mapping(mapping: dict[str, Any], incoming: Schema) -> Iterator[Finding]:
    for field in incoming:
        kind = _kind(mapping, field.name)
        wanted = _TAKES.get(kind or "")
        if wanted is not None and not pa.types.is_null(field.type) and not any(is_type(field.type) for is_type in wanted):
            message = f"field {field.name!r} is {field.type}, and {kind} in the index: documents may be refused"
            yield Finding("index-mismatch", message, ("index",), severity="warning")


def _kind(mapping: dict[str, Any], field: str | None) -> str | None:
    """A field's type in a mapping; None when it is not mapped."""
    node: dict[str, Any] = mapping
    for name in (field or "").split("."):
        node = (node.get("properties") or node.get("fields") or {}).get(name) or {}
    return node.get("type") or ("object" if "properties" in node else None)


_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_TIMES = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer)
_TAKES = {
    **dict.fromkeys(("long", "integer", "short", "byte", "unsigned_long", "double", "float", "half_float"), _NUMBERS),
    **dict.fromkeys(("date", "date_nanos"), _TIMES),
    "boolean": (pa.types.is_boolean,),
    "ip": (pa.types.is_string,),
    **dict.fromkeys(("object", "nested"), (pa.types.is_nested,)),
}
"""Types of a mapping → types of ours that it takes whatever the value; others depend on the values or fit all."""
