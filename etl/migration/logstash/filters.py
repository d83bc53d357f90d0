"""Filters of Logstash → steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from etl.expressions.quoting import quoted_text
from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.configuration import pairs
from etl.migration.logstash.filter_plugin import Filter, any_of
from etl.migration.logstash.mutations import mutate
from etl.migration.logstash.parsing_filters import csv, date, dissect, geoip, grok, json_text, key_values, url_decode, user_agent
from etl.migration.logstash.references import field_name, interpolated
from etl.migration.values import FALSE, TEXT, Value, as_type, both, choose, is_null


def drop(one: Filter) -> Value | None:
    share = one.option("percentage", 100)
    if not isinstance(share, int | float) or share < 100:
        raise NoCounterpartError("a share of the events: {type: filter, where: rand() >= 0.4} drops 40 %")
    one.steps.apply("drop", {}, one.where)
    return FALSE


def fingerprint(one: Filter) -> Value | None:
    names = [field_name(name) for name in as_list(one.option("source", "message"))]
    target, method = one.field("target", "fingerprint"), str(one.option("method", "SHA1"))
    draft = one.steps.draft
    values = [as_type(draft.field(name), TEXT) for name in names if not draft.field(name).is_null]
    hashes = {
        "SHA1": "sha1({})",
        "SHA256": "sha2({}, 256)",
        "SHA384": "sha2({}, 384)",
        "SHA512": "sha2({}, 512)",
        "MD5": "md5({})",
    }
    if method not in hashes:
        raise NoCounterpartError(f"the method {method}; there are {', '.join(hashes)}")
    if not values:
        return one.where
    joins = one.option("concatenate_sources") or one.option("concatenate_all_fields")
    if one.option("base64encode"):
        raise NoCounterpartError("base64encode; hashes here are in hexadecimal digits")
    text = values[-1].sql
    if joins:
        shown = ", ".join(f"'|{name}|', coalesce({value.sql}, '')" for name, value in zip(names, values, strict=False))
        text = f"concat({shown}, '|')"
    reads = frozenset(name for value in values for name in value.reads)
    key = one.option("key")
    made = hashes[method].format(text)
    if key:
        kind = method.lower()
        made = f"hmac_hex({quoted_text(str(key))}, {text}, {quoted_text(kind)})"
    draft.set({target: choose(one.where, Value(made, TEXT, reads), draft.field(target))})
    return one.where


def translate(one: Filter) -> Value | None:
    if one.option("dictionary_path"):
        raise NoCounterpartError("a dictionary in a file: `tables` reads it, and the step `lookup` looks values up")
    source = field_name(one.option("source") or one.need("field"))
    target = field_name(one.option("target") or one.option("destination") or source)
    table = dict(pairs(one.need("dictionary")))
    draft = one.steps.draft
    value = as_type(draft.field(source), TEXT)
    one.option("refresh_interval")
    if value.is_null:
        return FALSE
    exact, regex, override = one.option("exact", True), one.option("regex", False), one.option("override", target == source)
    if not exact:
        raise NoCounterpartError("exact => false, which replaces parts; `replace` in a `set` does it")
    cases = "".join(
        f" when {f'regexp_like({value.sql}, {quoted_text(name)})' if regex else quoted_text(name)} then {quoted_text(str(to))}"
        for name, to in table.items()
    )
    fallback = one.option("fallback")
    other = interpolated(draft, fallback) if fallback is not None else None
    rest = f" else {as_type(other, TEXT).sql}" if other is not None else ""
    made = Value(
        f"case {'' if regex else value.sql}{cases}{rest} end", TEXT, value.reads | (other.reads if other else frozenset())
    )
    before = draft.field(target)
    if not override and not before.is_null:
        made = choose(is_null(before), made, before)
    elif not before.is_null and fallback is None:
        made = Value(f"coalesce({made.sql}, {as_type(before, TEXT).sql})", TEXT, made.reads | before.reads)
    draft.set({target: choose(one.where, made, before)})
    return one.where


def cidr(one: Filter) -> Value | None:
    draft = one.steps.draft
    networks = ", ".join(quoted_text(str(name)) for name in as_list(one.need("network")))
    found: Value | None = None
    for address in as_list(one.need("address")):
        value = as_type(interpolated(draft, address), TEXT)
        inside = Value(f"ip_in({value.sql}, {networks})", "boolean", value.reads)
        found = inside if found is None else any_of(found, inside)
    return both(one.where, found)


def split(one: Filter) -> Value | None:
    name, target = one.field("field"), one.option("target")
    if one.steps.draft.field(name).type == TEXT:
        one.steps.apply("split", {"field": name, "separator": re.escape(str(one.option("terminator", "\n")))}, one.where)
    one.steps.unnest(name, field_name(target) if target else None, one.where)
    return one.where


def nothing(one: Filter) -> Value | None:
    """A filter that has nothing to do here: a name with dots is a member of an object anyway."""
    for name in one.options:
        one.option(name)
    return one.where


FILTERS: Mapping[str, Callable[[Filter], Value | None]] = {
    "grok": grok,
    "dissect": dissect,
    "date": date,
    "json": json_text,
    "kv": key_values,
    "csv": csv,
    "useragent": user_agent,
    "geoip": geoip,
    "urldecode": url_decode,
    "drop": drop,
    "fingerprint": fingerprint,
    "translate": translate,
    "cidr": cidr,
    "split": split,
    "de_dot": nothing,
    "mutate": mutate,
}
"""Filters by name: each gives the condition of its success."""

NO_COUNTERPART: Mapping[str, str] = {
    "aggregate": "the steps `window` and `sequence` put events together",
    "anonymize": "a `set` with pseudonym(…) or hmac_hex(…)",
    "bytes": "a `set` with parse_size(…)",
    "cipher": "texts are not encrypted",
    "clone": "a second stream with `from:` takes the same events",
    "dns": "names are not resolved; a `lookup` in a table does the same",
    "elapsed": "the step `sequence` finds pairs of events and the time between",
    "elasticsearch": "a `lookup` in a table does the same",
    "http": "requests for each event are not made; a `lookup` in a table does the same",
    "jdbc_static": "a `lookup` in a table of a database does the same",
    "jdbc_streaming": "a `lookup` in a table of a database does the same",
    "memcached": "a `lookup` in a table does the same",
    "metrics": "the step `window` counts",
    "multiline": "the option `multiline` of the source joins lines",
    "prune": "the step `keep` or `drop` chooses fields by name",
    "ruby": "code in Ruby; write it as a function in Python, which the step `python` calls",
    "sleep": "events do not wait here; `run.limit` slows a source down",
    "syslog_pri": "the parser `syslog` gives facility and severity",
    "throttle": "the step `throttle` or `suppress`",
    "truncate": "a `set` with left(message, 100)",
    "uuid": "events have an identity; sinks derive ids from it",
    "xml": "the parser `xml` with its `fields`",
}
"""Filters without a counterpart, and what to do instead."""
