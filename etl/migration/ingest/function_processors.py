"""Processors that set a field to a function of others: lowercase, split, gsub, community_id and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from etl.expressions.quoting import quoted_text
from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.ingest.processor import Processor, as_list, static_name
from etl.migration.ingest.templates import slots
from etl.migration.values import (
    NULL,
    TEXT,
    TRUE,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    call,
    choose,
    of_each,
    split_text,
    text_value,
)


def _function(make: Callable[[Processor, Value], Value]) -> Callable[[Processor], None]:
    """A processor that sets the target to a function of the field."""

    def run(one: Processor) -> None:
        names = one.need("field")
        for name in as_list(names):
            item = one if not isinstance(names, list) else _with_field(one, name)
            source = item.source()
            if source is not None:
                item.set(item.target, make(item, source))

    return run


def _with_field(one: Processor, name: str) -> Processor:
    return replace(one, options={**one.options, "field": name})


def _of_each_text(make: Callable[[Processor, Value], Value]) -> Callable[[Processor], None]:
    """A processor that sets the target to a function of the field as a text; of a list, to the list of its results."""
    return _function(lambda one, source: of_each(lambda text: make(one, as_type(text, TEXT)), source))


def _of_text(function: str) -> Callable[[Processor], None]:
    return _of_each_text(lambda one, text: call(function, [text], TEXT))


def _split(one: Processor, source: Value) -> Value:
    separator = str(one.need("separator"))
    text = as_type(source, TEXT)
    if not one.option("preserve_trailing"):
        text = call("regexp_replace", [text, text_value(f"(?:{separator})+\\z"), text_value("")], TEXT)
    return split_text(Value(f"nullif({text.sql}, '')", TEXT, text.reads), separator)


def _gsub(one: Processor, text: Value) -> Value:
    return call(
        "regexp_replace",
        [text, text_value(str(one.need("pattern"))), text_value(str(one.need("replacement")))],
        TEXT,
    )


def _join(one: Processor, source: Value) -> Value:
    return call("array_join", [source, text_value(str(one.need("separator")))], TEXT) if source.is_array else source


def _sort(one: Processor, source: Value) -> Value:
    found = call("array_sort", [source], source.type)
    return call("reverse", [found], source.type) if one.option("order") == "desc" else found


def foreach(one: Processor) -> None:
    """``foreach`` with a processor that appends each element to another field, or changes the elements in place."""
    inner = one.need("processor")
    ((name, options),) = inner.items()
    if "if" in options:
        raise NoCounterpartError("a loop with a condition on each element; expressions may do it: filter(tags, x -> x <> '')")
    source = one.source()
    if source is None:
        return
    if name == "append" and slots(str(options.get("value"))) == [ELEMENT] and source.is_array:
        target = replace(one, options=options).field_name()
        before = one.draft.field(target)
        one.draft.set({target: choose(one.where, appended(before, source, options.get("allow_duplicates", True)), before)})
    elif name in ELEMENTWISE and options.get("field") == ELEMENT and "target_field" not in options and source.is_array:
        FUNCTION_PROCESSORS[name](replace(one, name=name, options={**options, "field": one.field_name()}))
    else:
        raise NoCounterpartError(f"a loop with {name}; expressions on arrays may do it: transform(tags, x -> lower(x))")


ELEMENT = "_ingest._value"
ELEMENTWISE = frozenset(["bytes", "gsub", "html_strip", "lowercase", "trim", "uppercase", "urldecode"])
"""Processors that change each element of an array."""

_IDS = {
    "source_ip": "source.ip",
    "destination_ip": "destination.ip",
    "source_port": "source.port",
    "destination_port": "destination.port",
    "transport": "network.transport",
}


def community_id(one: Processor) -> None:
    source, target, *others = (one.draft.field(static_name(one.option(name, default))) for name, default in _IDS.items())
    if source.is_null or target.is_null:
        return
    ports = [as_type(value, WHOLE) for value in others[:2]]
    value = call("community_id", [source, target, *ports, others[2]], TEXT)
    one.set(static_name(one.option("target_field", "network.community_id")), value)


_NETWORKS = {
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link_local_unicast": ("169.254.0.0/16", "fe80::/10"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "unspecified": ("0.0.0.0/32", "::/128"),
}
"""Names of networks in ``network_direction``."""


def network_direction(one: Processor) -> None:
    source, target = (
        as_type(one.draft.field(static_name(one.option(f"{side}_ip", f"{side}.ip"))), TEXT) for side in ("source", "destination")
    )
    if one.option("internal_networks_field"):
        raise NoCounterpartError(
            "internal_networks_field: networks here are known before the run; write them as internal_networks"
        )
    networks: list[str] = []
    for network in as_list(one.need("internal_networks")):
        if not re.fullmatch(r"[0-9a-fA-F:.]+/\d+", network) and network not in _NETWORKS:
            raise NoCounterpartError(f"the network {network!r}; those with names are {', '.join(_NETWORKS)}")
        networks += _NETWORKS.get(network, (network,))
    if one.draft.field(static_name(one.option("source_ip", "source.ip"))).is_null or target.is_null:
        return
    inside = [f"ip_in({side.sql}, {', '.join(map(quoted_text, networks))})" for side in (source, target)]
    cases = f"when {inside[0]} and {inside[1]} then 'internal' when {inside[0]} then 'outbound' when {inside[1]} then 'inbound'"
    known = f"when {source.sql} is null or {target.sql} is null then null"
    value = Value(f"case {cases} {known} else 'external' end", TEXT, source.reads | target.reads)
    one.set(static_name(one.option("target_field", "network.direction")), value)


def registered_domain(one: Processor) -> None:
    """A domain, its registered part, what stands before that and its public suffix; none of them for what is not a domain."""
    source = one.draft.field(one.field_name())
    optional = one.option("ignore_missing", True)
    if source.is_null:
        if not optional:
            one.failed(TRUE)
        return
    text = as_type(source, TEXT)
    one.draft.comment(
        "registered_domain: a suffix that is not in the Public Suffix List counts as one; Elasticsearch sets nothing"
    )
    registered, suffix = (call(function, [text], TEXT) for function in ("registered_domain", "public_suffix"))
    found = Value(f"coalesce({registered.sql}, {suffix.sql}) like '%.%'", TRUTH, text.reads)
    parts = {
        "domain": choose(found, text, NULL),
        "registered_domain": registered,
        "subdomain": call("subdomain", [text], TEXT),
        "top_level_domain": choose(found, suffix, NULL),
    }
    prefix = f"{static_name(one.option('target_field'))}." if one.option("target_field") else ""
    results: dict[str, Value] = {}
    for part, value in parts.items():
        before = one.draft.field(f"{prefix}{part}")
        if not before.is_null:
            value = call("coalesce", [value, as_type(before, TEXT)], TEXT)
        results[f"{prefix}{part}"] = choose(one.where, value, before)
    one.draft.set(results)
    if not optional:
        one.failed(Value(f"not coalesce({found.sql}, false)", TRUTH, found.reads))


def fingerprint(one: Processor) -> None:
    names = [static_name(name) for name in as_list(one.need("fields"))]
    hashes = {"MD5": "md5({})", "SHA-1": "sha1({})", "SHA-256": "sha2({}, 256)", "SHA-512": "sha2({}, 512)"}
    hash_ = hashes.get(one.option("method", "SHA-1"))
    if hash_ is None:
        raise NoCounterpartError(f"the hash {one.option('method')} is not one of {', '.join(hashes)}")
    salt = str(one.option("salt", ""))
    parts = [as_type(one.draft.field(name), TEXT) for name in sorted(names)]
    joined = ", ".join([quoted_text(salt), *(f"coalesce({part.sql}, '')" for part in parts)])
    one.draft.comment("fingerprint: other hashes than Elasticsearch's, of the same fields")
    reads = frozenset(name for part in parts for name in part.reads)
    one.set(static_name(one.option("target_field", "fingerprint")), Value(hash_.format(f"concat_ws('|', {joined})"), TEXT, reads))


FUNCTION_PROCESSORS: Mapping[str, Callable[[Processor], None]] = {
    "lowercase": _of_text("lower"),
    "uppercase": _of_text("upper"),
    "trim": _of_text("trim"),
    "urldecode": _of_text("flink_url_decode"),
    "html_strip": _of_each_text(lambda one, x: call("regexp_replace", [x, text_value("<[^>]*>"), text_value("")], TEXT)),
    "bytes": _of_each_text(
        lambda one, x: Value(f"cast(parse_size(regexp_replace(lower({x.sql}), 'b$', 'ib')) as bigint)", WHOLE, x.reads)
    ),
    "gsub": _of_each_text(_gsub),
    "split": _function(_split),
    "join": _function(_join),
    "sort": _function(_sort),
    "foreach": foreach,
    "community_id": community_id,
    "network_direction": network_direction,
    "fingerprint": fingerprint,
    "registered_domain": registered_domain,
}
