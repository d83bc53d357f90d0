"""Filters of Logstash → steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from etl.expressions.quoting import quoted_text
from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.configuration import pairs
from etl.migration.logstash.filter_plugin import Filter, any_of
from etl.migration.logstash.mutations import mutate
from etl.migration.logstash.parsing_filters import csv, date, dissect, geoip, grok, json_text, key_values, url_decode, user_agent
from etl.migration.logstash.references import field_name, interpolated
from etl.migration.values import FALSE, TEXT, WHOLE, Value, as_type, both, choose, is_null, of_each


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


def prune(one: Filter) -> Value | None:
    """Remove the fields whose names are not to be kept: those that are known here, by the first part of their names."""
    if one.option("whitelist_values") or one.option("blacklist_values"):
        raise NoCounterpartError("whitelist_values or blacklist_values; a `set` with nullif(…) or a `filter` compares values")
    allowed, forbidden = (_names(one, f"{kind}_names") for kind in ("whitelist", "blacklist"))
    one.option("interpolate")
    draft = one.steps.draft
    gone = []
    for name in draft.types:
        top = name.split(".")[0]
        if name not in draft.temporary and ((allowed and not _matches(allowed, top)) or _matches(forbidden, top)):
            gone.append(name)
    draft.drop(gone, draft.keep(one.where))
    return one.where


def _names(one: Filter, option: str) -> list[re.Pattern[str]]:
    """The regular expressions of an option."""
    texts = [str(text) for text in as_list(one.option(option) or [])]
    if interpolated := next((text for text in texts if "%{" in text), None):
        raise NoCounterpartError(f"{interpolated!r} depends on the event; names of fields here are known before the run")
    try:
        return [re.compile(text.replace(r"\z", r"\Z")) for text in texts]
    except re.error as error:
        raise NoCounterpartError(f"{option}: {error}") from None


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(one.search(name) for one in patterns)


def truncate(one: Filter) -> Value | None:
    length, draft = one.need("length_bytes"), one.steps.draft
    if not isinstance(length, int):
        raise NoCounterpartError(f"length_bytes is {length!r}, and has to be a whole number")
    for name in (field_name(text) for text in as_list(one.need("fields"))):
        value = draft.field(name)
        if not value.is_null:
            made = of_each(lambda text: Value(f"left({as_type(text, TEXT).sql}, {length})", TEXT, text.reads), value)
            draft.set({name: choose(one.where, made, value)})
    draft.comment("truncate: the length is in characters here, and in bytes in Logstash")
    return one.where


def byte_size(one: Filter) -> Value | None:
    if one.option("conversion_method", "binary") != "binary" or one.option("decimal_separator", ".") != ".":
        raise NoCounterpartError("a conversion_method or decimal_separator; a `set` with parse_size(…) reads 1.5MB and 1.5MiB")
    one.option("tag_on_failure")
    options = {"field": one.field("source"), "target_field": field_name(one.need("target"))}
    one.steps.apply("bytes", {**options, "ignore_missing": True, "ignore_failure": True}, one.where)
    return one.where


_FACILITIES = (
    *("kernel", "user-level", "mail", "daemon", "security/authorization", "syslogd", "line printer", "network news", "uucp"),
    *("clock", "security/authorization", "ftp", "ntp", "log audit", "log alert", "clock", *(f"local{n}" for n in range(8))),
)
_SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "informational", "debug")

DEFAULT_PRIORITY = 13
"""Of a message without one: a notice of a user's process (RFC 3164)."""


def syslog_priority(one: Filter) -> Value | None:
    """Facility and severity of a syslog message's priority."""
    draft = one.steps.draft
    is_legacy = one.option("ecs_compatibility") == "disabled" or "syslog_pri" in draft.types
    source = field_name(one.option("syslog_pri_field_name", "syslog_pri" if is_legacy else "[log][syslog][priority]"))
    given = draft.field(source)
    priority = draft.new_temporary("priority")
    number = as_type(given, WHOLE)
    found = f"case when {given.sql} is null then {DEFAULT_PRIORITY} else coalesce({number.sql}, 0) end"
    draft.set({priority: Value(str(DEFAULT_PRIORITY) if given.is_null else found, WHOLE, given.reads)})
    reads = frozenset([priority])
    codes = {"severity": f"{priority} % 8", "facility": f"cast(floor({priority} / 8) as bigint)"}
    labels = {"severity": _SEVERITIES, "facility": _FACILITIES}
    uses_labels = one.option("use_labels", True) not in (False, "false")
    values: dict[str, Value] = {}
    for kind, code in codes.items():
        names = [str(name) for name in as_list(one.option(f"{kind}_labels") or list(labels[kind]))]
        values[f"syslog_{kind}_code" if is_legacy else f"log.syslog.{kind}.code"] = Value(code, WHOLE, reads)
        if uses_labels:
            label = Value(_label(code, names), TEXT, reads)
            values[f"syslog_{kind}" if is_legacy else f"log.syslog.{kind}.name"] = label
    draft.set({name: choose(one.where, value, draft.field(name)) for name, value in values.items()})
    return one.where


def _label(code: str, names: Sequence[str]) -> str:
    return f"case {code} {' '.join(f'when {number} then {quoted_text(name)}' for number, name in enumerate(names))} end"


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
    "bytes": byte_size,
    "prune": prune,
    "syslog_pri": syslog_priority,
    "truncate": truncate,
    "mutate": mutate,
}
"""Filters by name: each gives the condition of its success."""

NO_COUNTERPART: Mapping[str, str] = {
    "aggregate": "the steps `window` and `sequence` put events together",
    "anonymize": "a `set` with pseudonym(…) or hmac_hex(…)",
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
    "ruby": "code in Ruby; write it as a function in Python, which the step `python` calls",
    "sleep": "events do not wait here; `run.limit` slows a source down",
    "throttle": "the step `throttle` or `suppress`",
    "uuid": "events have an identity; sinks derive ids from it",
    "xml": "the parser `xml` with its `fields`",
}
"""Filters without a counterpart, and what to do instead."""
