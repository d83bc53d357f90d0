"""Processors that read texts: grok, dissect, date, json, kv, csv, uri_parts, user_agent."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.migration.captures import (
    empty_captures,
    mark_optional_groups,
    optional_empty_captures,
    rename_in_pattern,
    unify_types,
)
from etl.migration.draft import FIELD_NAME, DraftStep, Members, NoCounterpartError, clean_name
from etl.migration.ingest.processor import ZONE_FIELD, Processor, as_list, build_parser, static_name
from etl.migration.ingest.templates import slots
from etl.migration.sampling import member_path, pair_keys
from etl.migration.topology import free_name
from etl.migration.values import TEXT, TIME, Value, as_type, both, call, choose, field_value, is_null, negation, text_value
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Capture, walk
from etl.scanner.tree_analysis import first_bytes


def grok(one: Processor) -> None:
    patterns, definitions = one.need("patterns"), one.option("pattern_definitions") or {}
    texts = [patterns] if isinstance(patterns, str) else list(patterns)
    texts = unify_types([rename_in_pattern(str(text), {}) for text in (*texts, *definitions.values())])
    count = len(texts) - len(definitions)
    options: dict[str, Any] = {"patterns": texts[:count]}
    if definitions:
        options["pattern_definitions"] = dict(zip(definitions, texts[count:], strict=True))
    if one.option("ecs_compatibility", "disabled") == "disabled":
        options["pattern_set"] = "legacy"
    if not one.option(DOT_MATCHES_NEWLINE) and _matches_any_character(options):
        options["dot_matches_newline"] = False
    one.parse("grok", options, empty=_mark_patterns(one, options) if one.option("keep_empty_captures", True) else {})


DOT_MATCHES_NEWLINE = "dot_matches_newline"
"""Option of ``grok`` that the import of Logstash sets."""


def _matches_any_character(options: Mapping[str, Any]) -> bool:
    """Whether it matters for the patterns that the dot matches no line end, as in Elasticsearch."""
    parsers = (build_parser("grok", {"field": "x", **options, "dot_matches_newline": dot}) for dot in (True, False))
    one, other = (list(getattr(parser, "trees", tuple)()) for parser in parsers)
    return one != other


def _mark_patterns(one: Processor, options: dict[str, Any]) -> Mapping[str, Sequence[str]]:
    """The fields that are an empty text where they are null after a match, with the fields that say which pattern has matched.

    Those are captures of the whole match, added to the patterns that need one; without them it is any pattern.
    """
    parser = build_parser("grok", {"field": "x", **options})
    trees = list(getattr(parser, "trees", tuple)())
    if any(isinstance(tree, PatternError) for tree in trees):
        return {}
    found = empty_captures(trees)
    numbers = sorted(set().union(*(some for some in found.values() if some)))
    marks = {number: one.draft.new_temporary("matched") for number in numbers}
    for number, name in marks.items():
        options["patterns"][number] = f"(?<{name}>{options['patterns'][number]})"
    made = {name: [marks[number] for number in sorted(some or ())] for name, some in found.items()}
    for number, tree in enumerate(trees):
        fields = optional_empty_captures(tree) - {name for name, some in found.items() if some is None}
        pattern, groups = mark_optional_groups(options["patterns"][number], fields, lambda: one.draft.new_temporary("matched"))
        if groups and _has_text(pattern, groups.values(), options):
            options["patterns"][number] = pattern
            for name, mark in groups.items():
                made.setdefault(name, []).append(mark)
    return made


def _has_text(pattern: str, names: Collection[str], options: Mapping[str, Any]) -> bool:
    """Whether captures are never empty, so that a value says that they have taken part."""
    (tree,) = build_parser("grok", {"field": "x", **options, "patterns": [pattern]}).trees()  # type: ignore[attr-defined]
    return not any(isinstance(node, Capture) and node.field in names and first_bytes(node.part)[1] for node in walk(tree))


def dissect(one: Processor) -> None:
    separator = one.option("append_separator")
    one.parse("dissect", {"pattern": one.need("pattern"), **({"append_separator": separator} if separator else {})})


_FORMATS = {
    "ISO8601": "iso8601",
    "UNIX": "epoch",
    "UNIX_MS": "epoch_millis",
    "epoch_second": "epoch",
    "epoch": "epoch",
    "iso8601": "iso8601",
    "epoch_millis": "epoch_millis",
    **{
        f"{strict}{name}": "iso8601"
        for strict in ("", "strict_")
        for name in ("date", "date_time", "date_time_no_millis", "date_optional_time", "date_optional_time_nanos")
    },
}


def date(one: Processor) -> None:
    _date(_with_zone(one))
    target = one.option("target_field", "@timestamp")
    if (form := one.option("output_format")) and one.draft.field(target).type == TIME:
        text = call("date_format", [one.draft.field(target), text_value(_letters(str(form)))], TEXT)
        one.draft.set({target: text})


_OWN_ZONE = re.compile(r"[zZXxVO]")


def _with_zone(one: Processor) -> Processor:
    """The processor on a text with the zone at its end, where a field of the event has that and the formats have none."""
    names = slots(str(one.option("timezone", "")))
    formats = [str(text) for text in as_list(one.need("formats"))]
    plain = [re.sub(r"'[^']*'", "", text) for text in formats]
    if len(names) != 1 or any(_OWN_ZONE.search(text) for text in plain) or any(text in _FORMATS for text in formats):
        return one
    zone, source = one.draft.field(clean_name(names[0])), one.draft.field(one.field_name())
    if zone.type != TEXT or source.type != TEXT:
        return one
    name = one.draft.new_temporary("zoned")
    default = text_value(one.timezone if names == [ZONE_FIELD] else "UTC")
    end = call("coalesce", [call("nullif", [zone, text_value("")], TEXT), default], TEXT)
    one.draft.set({name: call("concat", [source, text_value(" "), end], TEXT)})
    given = {
        "field": name,
        "target_field": one.option("target_field", "@timestamp"),
        "formats": [f"{text} z" for text in formats],
    }
    return replace(one, options={**{k: v for k, v in one.options.items() if k != "timezone"}, **given})


def _date(one: Processor) -> None:
    if not str(one.option("locale", "en")).lower().startswith(("en", "root")) and "{{" not in str(one.option("locale")):
        raise NoCounterpartError(f"the language {one.option('locale')!r} of names of months; English names are read")
    target = one.option("target_field", "@timestamp")
    if target == one.field_name() and one.source() is None:
        return
    if one.draft.field(one.field_name()).type == TIME:
        one.set(target, one.draft.field(one.field_name()))
        return
    formats = [_FORMATS.get(text, _letters(text)) for text in as_list(one.need("formats"))]
    for text in formats:
        build_parser("timestamp", {"field": "x", "formats": [text]})
    options = {"formats": formats, "timezone": _zone(one)}
    name = one.field_name()
    if target == name and one.where is None and one.is_fatal:
        one.draft.add({"type": "timestamp", "field": name, **options}, {name: TIME})
        return
    if target != name and target not in one.draft.types:
        one.parse("timestamp", options, more={"target": target})
        return
    made = one.draft.new_temporary("time")
    one.parse("timestamp", options, more={"target": made})
    if made in one.draft.types:
        value, before = one.draft.field(made), one.draft.field(target)
        one.draft.set({target: choose(negation(is_null(value)), value, as_type(before, TIME))})


def _letters(pattern: str) -> str:
    """A pattern of Java's letters: ``u`` is the year as ``y``; ``[`` begins an optional part in both."""
    parts = re.split(r"('[^']*')", pattern)
    return "".join(part if part.startswith("'") else part.replace("u", "y").replace("e", "E") for part in parts)


def _zone(one: Processor) -> str:
    zone = str(one.option("timezone", "UTC"))
    if not (names := slots(zone)):
        return zone
    if names != [ZONE_FIELD]:
        one.draft.comment(f"date: its time zone is in {names[0]} of each event; here all events have one zone")
    return one.timezone


def json_object(one: Processor) -> None:
    if one.option("add_to_root") and one.option("target_field"):
        raise NoCounterpartError("add_to_root and target_field exclude each other")
    root = bool(one.option("add_to_root"))
    name = one.field_name()
    prefix = "" if root else f"{one.target}."
    if not root and one.target == name:
        if one.source() is None:
            return
        moved = one.draft.new_temporary("json")
        one.draft.rename({name: moved})
        one = _on(one, moved)
    sample = one.samples.get(name, {})
    dotted = (full.removeprefix(prefix) for full in one.dotted if full.startswith(prefix))
    literal = {path: ("string", member_path("", path)) for path in dotted if "." in path}
    options: dict[str, Any] = {"fields": {}}
    members = Members(prefix, options, {**literal, **sample}, renamed="paths" if prefix else None)
    members.declared = frozenset(sample)
    if one.option(KEEP_REST) and not sample:
        options["rest"] = free_name(f"{prefix}json_rest", one.draft.types)
    _open(one, "json", options, members)


KEEP_REST = "keep_rest"
"""Option of ``json``, which imports of other tools set: members that nothing names stay in a field as JSON."""


def _on(one: Processor, name: str) -> Processor:
    return replace(one, options={**one.options, "field": name, "target_field": one.target})


def _open(one: Processor, type_: str, options: dict[str, Any], members: Members) -> None:
    """Add a parser whose fields are those that later processors name, and those of a sample."""
    source = one.source()
    if source is None:
        return
    text = one.field_name()
    tolerant = one.where is not None or not one.is_fatal or text not in one.draft.certain
    if tolerant:
        name = one.draft.new_temporary("text")
        one.draft.set({name: choose(one.where, as_type(source, TEXT), Value("cast(null as string)", TEXT))})
        text = name
    step = {"type": type_, "field": text, **options, **({"on_error": "keep"} if tolerant else {"keep_field": True})}
    one.draft.add(step, {rest: TEXT} if (rest := options.get("rest")) else None)
    members.options = step
    one.draft.members.append(members)
    taken: dict[str, str] = {}
    for inside in sorted(members.declared):
        if (name := members.prefix + inside) in one.draft.types:
            taken[name] = one.draft.new_temporary("found")
        else:
            one.draft.types[name] = members.declare(name)
    _merge(one, members, step, taken)
    if not members.declared:
        others = f"; {rest} has the others as JSON" if rest else ""
        one.draft.steps[-1].comments.append(
            f"{one.name}: fields are the members that later processors name, as texts; add yours with their types{others}"
        )
    if tolerant:
        one.failed(negation(is_null(one.draft.field(text))))


def _merge(one: Processor, members: Members, step: dict[str, Any], taken: Mapping[str, str]) -> None:
    """Replace fields that are known by the members of their names, where the text has them."""
    merged: dict[str, Value] = {}
    for name, temporary in taken.items():
        type_, path = members.known[name.removeprefix(members.prefix)]
        step["fields"][temporary] = one.draft.types[temporary] = type_
        step.setdefault("paths", {})[temporary] = path
        value = field_value(temporary, type_)
        merged[name] = choose(negation(is_null(value)), value, one.draft.field(name))
    one.draft.set(merged)


def key_value(one: Processor) -> None:
    target = one.option("target_field")
    prefix = (f"{static_name(target)}." if target else "") + (one.option("prefix") or "")
    options: dict[str, Any] = {"fields": {}, "quotes": "", "escapes": "none", "alone": "reject", "whitespace": "strict"}
    for theirs, ours in (("trim_key", "trim_keys"), ("trim_value", "trim_values")):
        if one.option(theirs):
            options[ours] = str(one.option(theirs))
    if one.option("strip_brackets"):
        options |= {"brackets": ["()", "<>", "[]"], "quotes": "\"'"}
    for theirs, ours in (("include_keys", "include"), ("exclude_keys", "exclude")):
        if one.option(theirs):
            options[ours] = as_list(one.option(theirs))
    options |= _separator("pair", one.need("field_split")) | _separator("value", one.need("value_split"))
    add_pairs(one, prefix, options)


def add_pairs(one: Processor, prefix: str, options: dict[str, Any]) -> None:
    """Add a parser of pairs whose fields are under the prefix: the keys that are named later, or chosen by ``include``."""
    build_parser("key_value", {"field": "x", **options, "fields": {"x": "string"}})
    names = dict.fromkeys(options.get("include") or _keys(one, prefix))
    keys = {name: (TEXT, name) for name in names if FIELD_NAME.fullmatch(name) and name not in options.get("exclude", ())}
    earlier = any(other.prefix == prefix and other.options["type"] == "key_value" for other in one.draft.members)
    members = Members(prefix, options, keys, names=_KEYS)
    if earlier:
        stem = one.draft.new_temporary("pairs")
        one.draft.temporary.pop()
        members.own_prefix, members.merged = f"{stem}.", {}
    own = members.own_prefix or prefix
    options = {**options, "rest": None}
    before = len(one.draft.members)
    _open(one, "key_value", {**options, **({"prefix": own} if own else {})}, members)
    if len(one.draft.members) == before:
        return
    if members.merged is not None:
        one.draft.steps.append(DraftStep({"type": "set", "fields": members.merged}))
    for name in keys:
        one.draft.field(prefix + name)
        if members.merged is not None and prefix + name in one.draft.types and prefix + name not in members.merged:
            one.draft.types[own + name] = members.declare(prefix + name)
            one.draft.temporary.append(own + name)
    members.declared = frozenset(options.get("include", ()))


_KEYS = re.compile(r"(?!(?:@timestamp|@version|tags)\Z).+")
"""Names that keys of pairs may have: not those of the event's time and tags, which have types of their own."""


def _keys(one: Processor, prefix: str) -> Iterator[str]:
    """Keys of pairs: those that processors name under the prefix, and those of a sample."""
    yield from (name.removeprefix(prefix) for name in sorted(one.named) if prefix and name.startswith(prefix))
    yield from pair_keys(one.samples.get("message", {}), str(one.need("value_split")))


def _separator(what: str, regex: str) -> dict[str, Any]:
    """The option for what separates pairs, or a key and its value: a text, or a regular expression."""
    plain = re.sub(r"\\([^\w\s])", r"\1", regex)
    is_plain = re.sub(r"\\[^\w\s]", "", regex).isprintable() and not re.search(
        r"[\\\[\](){}*+?^$|.]", re.sub(r"\\[^\w\s]", "", regex)
    )
    return {f"{what}_separators": [plain]} if is_plain else {f"{what}_pattern": regex}


def csv(one: Processor) -> None:
    names = one.need("target_fields")
    options: dict[str, Any] = {"names": [names] if isinstance(names, str) else names, "short": True}
    if one.option("separator"):
        options["delimiter"] = one.option("separator")
    if one.option("quote"):
        options["quote"] = one.option("quote")
    if one.option("trim"):
        options["trim"] = True
    one.parse("csv", options)
    if one.option("empty_value") is not None:
        empty = text_value(str(one.option("empty_value")))
        fields = {name: one.draft.field(name) for name in as_list(names) if name}
        one.draft.set({name: choose(both(one.where, is_null(value)), empty, value) for name, value in fields.items()})


def uri_parts(one: Processor) -> None:
    target = one.option("target_field", "url")
    one.parse("url", {"target": target, "decode": True})
    if one.option("keep_original") is False:
        one.draft.drop([f"{target}.original"], one.where)
    if one.option("remove_if_successful") and one.field_name() != f"{target}.original":
        one.draft.drop([one.field_name()])


def user_agent(one: Processor) -> None:
    target = one.option("target_field", "user_agent")
    source = one.source()
    if source is None:
        return
    if not one.draft.under(target) and one.where is None and source.type == TEXT:
        one.draft.add(
            {"type": "user_agent", "field": one.field_name(), "target": target, "on_error": "keep", "keep_field": True},
            {f"{target}.{name}": TEXT for name in ("original", *_AGENT)},
        )
        return
    source = as_type(source, TEXT)
    parts = {f"{target}.{name}": call("user_agent", [source, text_value(name)], TEXT) for name in _AGENT}
    one.draft.set({name: choose(one.where, value, one.draft.field(name)) for name, value in parts.items()})
    one.draft.set({f"{target}.original": choose(one.where, source, one.draft.field(f"{target}.original"))})


_AGENT = ("name", "version", "device.name", "os.name", "os.version", "os.full")

PARSER_PROCESSORS: Mapping[str, Any] = {
    "grok": grok,
    "dissect": dissect,
    "date": date,
    "json": json_object,
    "kv": key_value,
    "csv": csv,
    "uri_parts": uri_parts,
    "user_agent": user_agent,
}
