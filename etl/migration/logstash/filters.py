"""Filters of Logstash → steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etl.expressions.quoting import quoted_text
from etl.migration.draft import NotCarriedError
from etl.migration.ingest.parser_processors import add_pairs
from etl.migration.ingest.processor import Processor, as_list, parsed_fields
from etl.migration.logstash.configuration import Plugin
from etl.migration.logstash.mutations import add_field, mutate
from etl.migration.logstash.references import TIME_FIELD, field_name, interpolated, java_letters
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, TEXT, Value, as_type, both, choose, either, is_null, negation, without_item

COMMON = ("add_field", "add_tag", "remove_field", "remove_tag", "id", "enable_metric", "periodic_flush")


@dataclass
class Filter:
    """A filter while it is imported."""

    name: str
    options: Mapping[str, Any]
    steps: TranslatedSteps
    where: Value | None
    text: str = ""
    """The whole configuration, in which names of fields tell the pattern set."""
    left: list[tuple[str, str]] = field(default_factory=list)
    """Options that are not carried over, with the reason."""
    read: set[str] = field(default_factory=set)

    def option(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        value = self.options.get(name, default)
        if any(isinstance(item, Plugin) for item in as_list(value)):
            raise NotCarriedError(f"the option {name!r} is a plugin, and has to be a value")
        return value

    def need(self, name: str) -> Any:
        if name not in self.options:
            raise NotCarriedError(f"the option {name!r} is missing")
        return self.option(name)

    def field(self, option: str, default: str = "message") -> str:
        return field_name(self.option(option, default))

    def tags(self, option: str, default: str) -> list[Any]:
        """What is done where the filter fails: tags."""
        names = [one for one in as_list(self.option(option, default)) if one]
        return [{"append": {"field": "tags", "value": names, "allow_duplicates": False}}] if names else []

    def finish(self, succeeded: Value | None) -> None:
        """The options that every filter has, where it succeeded."""
        if succeeded == FALSE:
            return
        draft = self.steps.draft
        for name, value in pairs(self.option("add_field")):
            add_field(draft, name, value, succeeded)
        if removed := as_list(self.option("remove_field") or []):
            names = [one for name in removed for one in (field_name(name), *draft.under(field_name(name)))]
            draft.drop(names, draft.keep(succeeded))
        for tag in as_list(self.option("add_tag") or []):
            self.steps.apply("append", {"field": "tags", "value": _template(tag), "allow_duplicates": False}, succeeded)
        tags = draft.field("tags")
        for tag in as_list(self.option("remove_tag") or []):
            if tags.is_array:
                draft.set({"tags": choose(succeeded, without_item(tags, str(tag)), tags)})
                tags = draft.field("tags")


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """A hash, or a list of names and values in turn."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(one), other) for one, other in zip(value[::2], value[1::2], strict=False))


def _template(text: Any) -> str:
    """``%{[a][b]}`` as a template of ingest processors."""
    return re.sub(r"%\{([^{}+]+)\}", lambda found: "{{{" + field_name(found[1]) + "}}}", str(text))


def grok(one: Filter) -> Value | None:
    matches = dict(pairs(one.need("match")))
    options: dict[str, Any] = {"ignore_missing": False}
    definitions = {name: str(pattern) for name, pattern in pairs(one.option("pattern_definitions"))}
    options["keep_empty_captures"] = one.option("keep_empty_captures", False) in (True, "true")
    for folder in as_list(one.option("patterns_dir") or []):
        definitions = {**_patterns(Path(str(folder)), str(one.option("patterns_files_glob", "*"))), **definitions}
    for name in as_list(one.option("overwrite") or []):
        one.steps.draft.field(field_name(name))
    one.option("break_on_match")
    one.option("named_captures_only")
    one.option("timeout_millis")
    legacy = one.option("ecs_compatibility") == "disabled"
    where = one.where
    found: Value | None = FALSE
    for number, (name, patterns) in enumerate(matches.items()):
        texts = [str(text) for text in as_list(patterns)]
        chosen = {"field": field_name(name), "patterns": texts, "pattern_definitions": definitions or None, **options}
        if not legacy and (one.option("ecs_compatibility") in ("v1", "v8") or not _reads_legacy(one.text, texts, definitions)):
            chosen["ecs_compatibility"] = "v1"
        last = number == len(matches) - 1
        succeeded = one.steps.attempt("grok", chosen, where, one.tags("tag_on_failure", "_grokparsefailure") if last else ())
        found = succeeded if succeeded is None or found == FALSE else _any(found, succeeded)
        if not last and one.option("break_on_match", True) is not False:
            where = both(one.where, FALSE if succeeded is None else negation(succeeded))
            if where == FALSE:
                break
    return found


def _any(one: Value | None, other: Value | None) -> Value | None:
    return None if one is None or other is None else either(one, other)


def _patterns(folder: Path, glob: str) -> dict[str, str]:
    """The patterns in the files of a folder."""
    found: dict[str, str] = {}
    try:
        files = sorted(file for file in folder.glob(glob) if file.is_file())[:200]
        for file in files:
            for line in file.read_bytes()[: 1 << 20].decode("utf-8", "replace").splitlines():
                name, _, pattern = line.strip().partition(" ")
                if pattern and not name.startswith("#"):
                    found[name] = pattern.strip()
    except (OSError, ValueError):
        return {}
    return found


_CAPTURED = re.compile(r"\w+")


def _reads_legacy(text: str, patterns: list[str], definitions: Mapping[str, str]) -> bool:
    """Whether the configuration names fields of the old pattern set, and none of ECS."""
    counts = []
    for set_ in ("legacy", "ecs-v1"):
        options = {"field": "x", "patterns": patterns, "pattern_set": set_, "pattern_definitions": dict(definitions)}
        try:
            names = {*parsed_fields("grok", options)}
        except NotCarriedError:
            return set_ == "ecs-v1"
        counts.append({name for name in names if not any(f":{name}" in one or f"<{name}>" in one for one in patterns)})
    legacy, ecs = counts
    words = {*_CAPTURED.findall(text)}
    shown = text.replace("][", ".")
    return any(name in words for name in legacy - ecs) and not any(name in shown for name in ecs - legacy)


def dissect(one: Filter) -> Value | None:
    succeeded = one.where
    for name, pattern in pairs(one.option("mapping")):
        options = {"field": field_name(name), "pattern": str(pattern)}
        succeeded = one.steps.attempt("dissect", options, one.where, one.tags("tag_on_failure", "_dissectfailure"))
    for name, type_ in pairs(one.option("convert_datatype")):
        kind = {"int": "integer"}.get(str(type_), str(type_))
        one.steps.apply("convert", {"field": field_name(name), "type": kind, "ignore_failure": True}, succeeded)
    return succeeded


def date(one: Filter) -> Value | None:
    given = as_list(one.need("match"))
    if not given or not all(isinstance(text, str) for text in given):
        raise NotCarriedError("match without the name of a field and patterns of times")
    name, *formats = given
    one.option("locale")
    options = {
        "field": field_name(name),
        "formats": [java_letters(text) for text in formats],
        "target_field": one.field("target", TIME_FIELD),
        "timezone": one.option("timezone", one.steps.timezone),
    }
    if "TAI64N" in formats:
        raise NotCarriedError("times in TAI64N")
    return one.steps.attempt("date", options, one.where, one.tags("tag_on_failure", "_dateparsefailure"))


def json_text(one: Filter) -> Value | None:
    target = one.option("target")
    tags = [] if one.option("skip_on_invalid_json") else one.tags("tag_on_failure", "_jsonparsefailure")
    options = {"field": field_name(one.need("source")), "ignore_missing": True}
    more = {"target_field": field_name(target)} if target else {"add_to_root": True}
    return one.steps.attempt("json", options | more, one.where, tags)


def key_values(one: Filter) -> Value | None:
    target = one.option("target")
    options: dict[str, Any] = {"fields": {}, "alone": "ignore", "min_pairs": 0, "escapes": "none"}
    options["brackets"] = ["()", "[]", "<>"] if one.option("include_brackets", True) is not False else []
    if pattern := one.option("field_split_pattern"):
        options["pair_pattern"] = str(pattern)
    else:
        options["pair_separators"] = list(dict.fromkeys(_unescaped(one.option("field_split", " "))))
    if pattern := one.option("value_split_pattern"):
        options["value_pattern"] = str(pattern)
    else:
        options["value_separators"] = list(dict.fromkeys(_unescaped(one.option("value_split", "="))))
    renamed = {"trim_key": "trim_keys", "trim_value": "trim_values", "remove_char_key": "remove_from_keys"}
    renamed |= {"remove_char_value": "remove_from_values", "transform_key": "key_case", "transform_value": "value_case"}
    for theirs, ours in renamed.items():
        if (value := one.option(theirs)) is not None:
            options[ours] = {"lowercase": "lower", "uppercase": "upper"}.get(str(value), str(value))
    if one.option("recursive"):
        options["nested"] = True
    one.option("whitespace")
    one.option("allow_empty_values")
    for theirs, ours in (("include_keys", "include"), ("exclude_keys", "exclude")):
        if value := one.option(theirs):
            options[ours] = [str(name) for name in as_list(value)]
    prefix = (f"{field_name(target)}." if target else "") + str(one.option("prefix", ""))
    draft = one.steps.draft
    made = Processor(
        "kv",
        {"field": one.field("source"), "value_split": "=", "ignore_failure": True},
        draft,
        one.where,
        lambda *_: None,
        samples=one.steps.samples,
        named=frozenset(_references(one.text)),
    )
    add_pairs(made, prefix, options)
    for name, value in pairs(one.option("default_keys")):
        add_field(draft, prefix + name, value, both(one.where, is_null(draft.field(prefix + name))))
    return one.where


def _unescaped(text: Any) -> str:
    """The characters of a set, as ``\\t`` and ``\\|`` are written there."""
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n"}.get(found[1], found[1]), str(text))


def _references(text: str) -> set[str]:
    found = re.findall(r"(?:\[[@\w-]+\])+", text)
    return {field_name(one) for one in found}


def csv(one: Filter) -> Value | None:
    columns = as_list(one.option("columns") or [])
    if not columns or one.option("autodetect_column_names"):
        raise NotCarriedError("columns without names; give them as `columns`")
    target = one.option("target")
    prefix = f"{field_name(target)}." if target else ""
    names = [prefix + field_name(str(name)) for name in columns]
    options = {"field": one.field("source"), "target_fields": names, "separator": one.option("separator")}
    options |= {"quote": one.option("quote_char")}
    one.option("skip_empty_columns")
    succeeded = one.steps.attempt("csv", options, one.where, one.tags("tag_on_failure", "_csvparsefailure"))
    for name, type_ in pairs(one.option("convert")):
        if type_ in ("date", "date_time"):
            options = {"field": prefix + name, "formats": ["ISO8601"], "target_field": prefix + name}
            one.steps.apply("date", {**options, "ignore_failure": True}, succeeded)
        else:
            one.steps.apply("convert", {"field": prefix + name, "type": type_, "ignore_failure": True}, succeeded)
    return succeeded


def user_agent(one: Filter) -> Value | None:
    options = {"field": field_name(one.need("source")), "target_field": one.field("target", "user_agent")}
    one.steps.apply("user_agent", {**options, "ignore_missing": True, "ignore_failure": True}, one.where)
    return one.where


def geoip(one: Filter) -> Value | None:
    target = one.option("target")
    options = {"field": field_name(one.need("source")), "target_field": field_name(target) if target else None}
    database = one.option("database")
    one.steps.apply("geoip", {**options, "database_file": str(database) if database else None}, one.where)
    for name in ("default_database_type", "fields", "cache_size", "tag_on_failure", "ecs_compatibility"):
        one.option(name)
    one.steps.draft.remark("places (geoip) need a file of MaxMind: the comments have the steps")
    return one.where


def url_decode(one: Filter) -> Value | None:
    one.option("charset")
    if one.option("all_fields"):
        raise NotCarriedError("all_fields; name the fields")
    return one.steps.attempt("urldecode", {"field": one.field("field")}, one.where, ())


def drop(one: Filter) -> Value | None:
    share = one.option("percentage", 100)
    if not isinstance(share, int | float) or share < 100:
        raise NotCarriedError("a share of the events: {type: filter, where: rand() >= 0.4} drops 40 %")
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
        raise NotCarriedError(f"the method {method}; there are {', '.join(hashes)}")
    if not values:
        return one.where
    joins = one.option("concatenate_sources") or one.option("concatenate_all_fields")
    if one.option("base64encode"):
        raise NotCarriedError("base64encode; hashes here are in hexadecimal digits")
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
        raise NotCarriedError("a dictionary in a file: `tables` reads it, and the step `lookup` looks values up")
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
        raise NotCarriedError("exact => false, which replaces parts; `replace` in a `set` does it")
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
        found = inside if found is None else _any(found, inside)
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
