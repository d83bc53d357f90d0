"""Conditions of Filebeat's processors (``equals``, ``contains``, ``and``, …) → expressions. A missing field fulfils none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.expressions.quoting import quoted_text
from etl.migration.comparisons import contained, equal, matching, ordered
from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.filebeat.configuration import leaves
from etl.migration.ingest.processor import as_list
from etl.migration.values import FALSE, TEXT, TRUE, TRUTH, Value, as_type, both, constant, either, is_null, negation, text_value

NETWORKS: Mapping[str, tuple[str, ...]] = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "link_local_unicast": ("169.254.0.0/16", "fe80::/10"),
    "link_local_multicast": ("224.0.0.0/24", "ff02::/16"),
    "interface_local_multicast": ("ff01::/16",),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "unspecified": ("0.0.0.0/32", "::/128"),
}
"""Names of networks."""

_NOT_PUBLIC = (
    "loopback",
    "private",
    "link_local_unicast",
    "link_local_multicast",
    "interface_local_multicast",
    "unspecified",
)
_BROADCAST = "255.255.255.255/32"


def condition(draft: Draft, given: Any) -> Value:
    """A condition as an expression. Raises NoCounterpartError for one without a counterpart."""
    if not isinstance(given, Mapping) or not given:
        raise NoCounterpartError("a condition is a mapping, such as `equals: {status: 200}`")
    found: Value | None = None
    for name, value in given.items():
        make = _CONDITIONS.get(name)
        if make is None:
            raise NoCounterpartError(f"the condition {name!r} is not one of {', '.join(_CONDITIONS)}")
        found = both(found, make(draft, value))
    return found or TRUE


def _of_fields(make: Callable[[Value, Any], Value]) -> Callable[[Draft, Any], Value]:
    """A condition on each of some fields."""

    def run(draft: Draft, given: Any) -> Value:
        if not isinstance(given, Mapping):
            raise NoCounterpartError("a condition names fields with values")
        found: Value | None = None
        for name, value in leaves(given):
            found = both(found, make(draft.field(clean_name(name)), value))
        return found or TRUE

    return run


def _equals(value: Value, expected: Any) -> Value:
    return FALSE if value.is_null else equal(value, constant(expected))


def _contains(value: Value, expected: Any) -> Value:
    return contained(text_value(str(expected)), value) if value.is_array or value.type == TEXT else FALSE


def _matches(value: Value, expected: Any) -> Value:
    return matching(value, str(expected)) if value.is_array or value.type == TEXT else FALSE


_RANGE = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def _range(draft: Draft, given: Any) -> Value:
    found: Value | None = None
    for name, limit in leaves(given if isinstance(given, Mapping) else {}):
        field, _, operator = name.rpartition(".")
        if operator not in _RANGE:
            raise NoCounterpartError(f"a range has {', '.join(_RANGE)}, and not {operator!r}")
        found = both(found, ordered(_RANGE[operator], draft.field(clean_name(field)), constant(limit)))
    return found or TRUE


def _network(value: Value, expected: Any) -> Value:
    if value.is_null:
        return FALSE
    found = FALSE
    for one in as_list(expected):
        found = either(found, _inside(as_type(value, TEXT), str(one)))
    return found


def _inside(text: Value, name: str) -> Value:
    if name in ("public", "unicast"):
        left_out = _NOT_PUBLIC if name == "public" else ("loopback", "multicast", "link_local_unicast", "unspecified")
        others = [network for one in left_out for network in NETWORKS[one]]
        known = both(_in(text, ["0.0.0.0/0", "::/0"]), negation(_in(text, [*others, _BROADCAST])))
        return known or TRUE
    if name not in NETWORKS and not name.replace("/", "").replace(".", "").replace(":", "").isalnum():
        raise NoCounterpartError(f"the network {name!r}")
    if name not in NETWORKS and "/" not in name:
        raise NoCounterpartError(f"the network {name!r}; those with names are {', '.join(NETWORKS)}, public and unicast")
    return _in(text, NETWORKS.get(name, (name,)))


def _in(text: Value, networks: Any) -> Value:
    return Value(f"ip_in({text.sql}, {', '.join(map(quoted_text, networks))})", TRUTH, text.reads)


def _has_fields(draft: Draft, names: Any) -> Value:
    found: Value | None = None
    for name in map(clean_name, map(str, as_list(names))):
        some = FALSE
        for one in draft.under(name) or [name]:
            some = either(some, negation(is_null(draft.field(one))))
        found = both(found, some)
    return found or TRUE


def _any(draft: Draft, given: Any) -> Value:
    found = FALSE
    for one in as_list(given):
        found = either(found, condition(draft, one))
    return found


def _all(draft: Draft, given: Any) -> Value:
    found: Value | None = None
    for one in as_list(given):
        found = both(found, condition(draft, one))
    return found or TRUE


_CONDITIONS: Mapping[str, Callable[[Draft, Any], Value]] = {
    "equals": _of_fields(_equals),
    "contains": _of_fields(_contains),
    "regexp": _of_fields(_matches),
    "range": _range,
    "network": _of_fields(_network),
    "has_fields": _has_fields,
    "or": _any,
    "and": _all,
    "not": lambda draft, given: negation(condition(draft, given)),
}
