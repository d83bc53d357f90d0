"""Processors that set a field to a function of others: lowercase, split, gsub, community_id and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from etl.expressions.quoting import quoted_text
from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.networks import COMPLEMENTS, NETWORKS
from etl.migration.ingest.processor import Processor, as_list, static_name
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


def _of_text(function: str) -> Callable[[Processor, Value], Value]:
    return lambda one, text: call(function, [text], TEXT)


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


def network_direction(one: Processor) -> None:
    names = {side: static_name(one.option(f"{side}_ip", f"{side}.ip")) for side in ("source", "destination")}
    source, destination = (as_type(one.draft.field(name), TEXT) for name in names.values())
    target = static_name(one.option("target_field", "network.direction"))
    if one.option("internal_networks_field"):
        _direction_by_event(one, [*names.values(), static_name(one.option("internal_networks_field"))], target)
        return
    networks = [str(network) for network in as_list(one.need("internal_networks"))]
    for network in networks:
        if not re.fullmatch(r"[0-9a-fA-F:.]+/\d+", network) and network not in {*NETWORKS, *COMPLEMENTS}:
            raise NoCounterpartError(f"the network {network!r}; those with names are {', '.join((*NETWORKS, *COMPLEMENTS))}")
    if any(one.draft.field(name).is_null for name in names.values()):
        return
    inside = [_is_inside(side, networks) for side in (source, destination)]
    cases = f"when {inside[0]} and {inside[1]} then 'internal' when {inside[0]} then 'outbound' when {inside[1]} then 'inbound'"
    known = f"when {source.sql} is null or {destination.sql} is null then null"
    one.set(target, Value(f"case {cases} {known} else 'external' end", TEXT, source.reads | destination.reads))


def _is_inside(address: Value, networks: Sequence[str]) -> str:
    """Whether an address is in one of these networks."""
    plain = [network for name in networks if name not in COMPLEMENTS for network in NETWORKS.get(name, (name,))]
    found = [_ip_in(address, plain)] if plain else []
    for name in networks:
        if name in COMPLEMENTS:
            found.append(f"not {_ip_in(address, [network for one in COMPLEMENTS[name] for network in NETWORKS[one]])}")
    return found[0] if len(found) == 1 else f"({' or '.join(found)})"


def _ip_in(address: Value, networks: Sequence[str]) -> str:
    return f"ip_in({address.sql}, {', '.join(map(quoted_text, networks))})"


_DIRECTION = """\
from etl.migration.ingest.networks import direction


def {name}(event: dict) -> dict:
    found = {condition}direction(event.get({source!r}), event.get({destination!r}), event.get({networks!r}))
    return {{**event, {target!r}: found}}
"""


def _direction_by_event(one: Processor, names: Sequence[str], target: str) -> None:
    """The direction for networks that each event has in a field, by a function in Python."""
    draft = one.draft
    for name in names:
        if draft.field(name).is_null:
            if one.is_fatal and not one.option("ignore_missing"):
                draft.comment(f"network_direction: no step before gives {name}")
            return
    where = draft.keep(one.where)
    condition = ""
    if where is not None:
        condition = f"event.get({target!r}) if not event[{next(iter(where.reads))!r}] else "
    name = f"network_direction_{len(draft.functions) + 1}"
    source, destination, networks = names
    draft.functions[name] = _DIRECTION.format(
        name=name, condition=condition, source=source, destination=destination, networks=networks, target=target
    )
    read = sorted({*names, *(where.reads if where else ()), *({target} & {*draft.types})})
    draft.add({"type": "python", "function": name, "read": read, "fields": {target: TEXT}}, {target: TEXT})


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


def _bytes(one: Processor, text: Value) -> Value:
    """A number of bytes, of which ``1kb`` has 1024."""
    sql = reduce(lambda made, unit: f"replace({made}, '{unit}b', '{unit}ib')", "kmgtp", f"lower({text.sql})")
    return Value(f"cast(parse_size({sql}) as bigint)", WHOLE, text.reads)


ELEMENT_FUNCTIONS: Mapping[str, Callable[[Processor, Value], Value]] = {
    "lowercase": _of_text("lower"),
    "uppercase": _of_text("upper"),
    "trim": _of_text("trim"),
    "urldecode": _of_text("flink_url_decode"),
    "html_strip": lambda one, x: call("regexp_replace", [x, text_value("<[^>]*>"), text_value("")], TEXT),
    "bytes": _bytes,
    "gsub": _gsub,
}
"""What processors make of a text, or of each text of a list."""

FUNCTION_PROCESSORS: Mapping[str, Callable[[Processor], None]] = {
    **{name: _of_each_text(function) for name, function in ELEMENT_FUNCTIONS.items()},
    "split": _function(_split),
    "join": _function(_join),
    "sort": _function(_sort),
    "community_id": community_id,
    "network_direction": network_direction,
    "fingerprint": fingerprint,
    "registered_domain": registered_domain,
}
