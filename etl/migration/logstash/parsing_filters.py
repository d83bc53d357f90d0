"""Filters of Logstash that read fields from texts → steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.parser_processors import DOT_MATCHES_NEWLINE, add_pairs
from etl.migration.ingest.processor import Processor, as_list, unchecked_parser
from etl.migration.logstash.configuration import pairs
from etl.migration.logstash.filter_plugin import Filter, any_of
from etl.migration.logstash.mutations import add_field
from etl.migration.logstash.references import TIME_FIELD, field_name, java_letters
from etl.migration.values import FALSE, Value, both, is_null, negation
from etl.scanner.pattern_error import PatternError


def grok(one: Filter) -> Value | None:
    matches = dict(pairs(one.need("match")))
    options: dict[str, Any] = {"ignore_missing": False}
    definitions = {name: str(pattern) for name, pattern in pairs(one.option("pattern_definitions"))}
    options[DOT_MATCHES_NEWLINE] = True
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
        found = succeeded if succeeded is None or found == FALSE else any_of(found, succeeded)
        if not last and one.option("break_on_match", True) is not False:
            where = both(one.where, FALSE if succeeded is None else negation(succeeded))
            if where == FALSE:
                break
    return found


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
            parser = unchecked_parser("grok", options)
        except ValueError:
            return set_ == "ecs-v1"
        if any(isinstance(tree, PatternError) for tree in getattr(parser, "trees", tuple)()):
            return set_ == "ecs-v1"
        names = {*parser.parsed_fields().names}
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
        raise NoCounterpartError("match without the name of a field and patterns of times")
    name, *formats = given
    one.option("locale")
    options = {
        "field": field_name(name),
        "formats": [java_letters(text) for text in formats],
        "target_field": one.field("target", TIME_FIELD),
        "timezone": one.option("timezone", one.steps.timezone),
    }
    if "TAI64N" in formats:
        raise NoCounterpartError("times in TAI64N")
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
        if (value := one.option(theirs, one.option(_OLD_NAMES.get(theirs, theirs)))) is not None:
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


_OLD_NAMES = {"trim_key": "trimkey", "trim_value": "trim"}
"""Names that options of kv had before Logstash 6."""


def _unescaped(text: Any) -> str:
    """The characters of a set, as ``\\t`` and ``\\|`` are written there."""
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n"}.get(found[1], found[1]), str(text))


def _references(text: str) -> set[str]:
    found = re.findall(r"(?:\[[@\w-]+\])+", text)
    return {field_name(one) for one in found}


def csv(one: Filter) -> Value | None:
    columns = as_list(one.option("columns") or [])
    if not columns or one.option("autodetect_column_names"):
        raise NoCounterpartError("columns without names; give them as `columns`")
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
        raise NoCounterpartError("all_fields; name the fields")
    return one.steps.attempt("urldecode", {"field": one.field("field")}, one.where, ())
