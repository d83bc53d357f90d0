"""A configuration of Fluent Bit → the topology of a pipeline. Each input has its own stream, for filters choose by its tag."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from etl.migration.comparisons import equal, matching
from etl.migration.draft import Draft, DraftStep, NotCarriedError, clean_name
from etl.migration.fluent_bit.configuration import FluentFiles, Section
from etl.migration.report import ImportReport, NotCarried
from etl.migration.sampling import Member
from etl.migration.strptime import java_pattern
from etl.migration.topology import Destination, Origin, Topology, free_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, Value, both, choose, either, is_null, negation, text_value

_CAPTURE = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_TYPES = {"integer": "integer", "float": "float", "bool": "boolean", "string": "string", "hex": "string"}
_BUILT_IN = {
    "json": (("format", "json"),),
    "docker": (("format", "json"), ("time_key", "time"), ("time_format", "%+")),
    "logfmt": (("format", "logfmt"),),
}
"""Parsers of Fluent Bit's own file that need no more than their format."""


def key_name(text: str) -> str:
    """``$a['b']`` or ``a`` as a field's name."""
    parts = re.findall(r"^\$?([^\[\]$]+)|\['([^']+)'\]", text)
    return clean_name(".".join(one or other for one, other in parts)) if parts else clean_name(text)


def _words(value: str, count: int) -> list[str]:
    found = value.split(None, count - 1)
    if len(found) < count:
        raise NotCarriedError(f"{value!r} has {len(found)} words, and needs {count}")
    return found


@dataclass
class FluentBitImport:
    """Imports a configuration."""

    files: FluentFiles
    name: str = "imported"
    timezone: str = "${TIMEZONE:-UTC}"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)
    report: ImportReport = field(default_factory=ImportReport)
    tags: dict[str, str] = field(default_factory=dict)
    """Tag of each source."""

    def run(self) -> Topology:
        topology = Topology(self.name)
        for one in self.files.of("input"):
            self.report.total += 1
            name = free_name(re.sub(r"\W", "_", one.name) or "input", topology.origins)
            self.tags[name] = one.get("tag", one.name)
            topology.origins[name] = self._origin(one)
        if not topology.origins:
            topology.origins["log"] = Origin({"type": "stdin"}, comments=["the configuration has no input"])
            self.tags["log"] = "*"
        for one in self.files.of("filter"):
            self.report.total += 1
            self._filter(one, topology)
        topology.begin()
        for one in self.files.of("output"):
            self.report.total += 1
            self._output(one, topology)
        topology.finish()
        self.report.remarks += [text for origin in topology.origins.values() for text in origin.draft.remarks]
        return topology

    def _steps(self, draft: Draft) -> TranslatedSteps:
        return TranslatedSteps(draft, self.report, self.timezone, self.samples)

    def _origin(self, one: Section) -> Origin:
        origin = Origin({"type": "stdin"})
        steps = self._steps(origin.draft)
        try:
            make = INPUTS.get(one.name)
            if make is None:
                raise NotCarriedError("an input that has no counterpart. Standard input is in its place")
            origin.options = make(one)
        except NotCarriedError as error:
            steps.leave(one.location, f"input {one.name}", str(error))
            origin.comments, origin.draft.last_comments = origin.draft.last_comments, []
        if origin.options["type"] in ("syslog", "forward"):
            fields = ["log.source.address", "log.source.port"]
            origin.draft.steps.append(DraftStep({"type": "drop", "fields": fields}, ["the record has no sender there"]))
        if origin.options["type"] == "forward":
            origin.draft.rename({"message": "_record"})
            steps.apply("json", {"field": "_record", "add_to_root": True}, None)
            origin.draft.temporary.append("_record")
        key = key_name(one.get("key", "log")) if one.name in ("tail", "stdin", "tcp", "udp") else "message"
        if key != "message":
            origin.draft.rename({"message": key})
        if parser := one.get("parser"):
            try:
                self._parse(steps, key, [parser], reserve=True, preserve=False)
            except NotCarriedError as error:
                steps.leave(one.location, f"input {one.name}.parser", str(error))
        return origin

    def _matching(self, one: Section) -> list[str]:
        """The sources whose events a filter or an output takes."""
        if pattern := one.get("match_regex"):
            try:
                return [name for name, tag in self.tags.items() if tag == "*" or re.search(pattern, tag)]
            except re.error:
                return list(self.tags)
        pattern = one.get("match", "*")
        return [name for name, tag in self.tags.items() if _may_match(tag, pattern)]

    def _filter(self, one: Section, topology: Topology) -> None:
        label = f"filter {one.name}"
        run = _FILTERS.get(one.name)
        for number, name in enumerate(self._matching(one)):
            steps = self._steps(topology.origins[name].draft)
            try:
                if run is None:
                    raise NotCarriedError(NO_COUNTERPART.get(one.name, "a filter that is unknown here"))
                run(self, one, steps)
            except NotCarriedError as error:
                if number:
                    steps.draft.comment(f"NOT CARRIED OVER: {label}: {error}")
                else:
                    steps.leave(one.location, label, str(error))

    def _output(self, one: Section, topology: Topology) -> None:
        steps = self._steps(topology.draft)
        make = OUTPUTS.get(one.name)
        names = self._matching(one)
        try:
            if make is None:
                raise NotCarriedError("an output that has no counterpart")
            if not names:
                raise NotCarriedError("no input has a tag that it matches")
            sink = Destination(make(one))
        except NotCarriedError as error:
            steps.leave(one.location, f"output {one.name}", str(error))
            return
        if "index" in sink.options and _has_daily_index(one):
            self.report.total += 1
            reason = f"an index a day is `index: {sink.options['index']}-{{yyyy.MM.dd}}` with the `time_field` of the events"
            self.report.left.append(NotCarried(one.location, f"output {one.name}.logstash_format", reason))
            sink.comments.append(f"NOT CARRIED OVER: logstash_format: {reason}")
        if len(names) < len(topology.origins):
            sink.origin = [topology.stream_of(name) for name in names]
        topology.destinations[free_name(re.sub(r"\W", "_", one.name), topology.destinations)] = sink

    def _parse(self, steps: TranslatedSteps, key: str, names: list[str], *, reserve: bool, preserve: bool) -> None:
        """Parse a field by the first parser that fits. Without ``reserve`` the other fields are dropped."""
        draft = steps.draft
        before = [name for name in draft.types if name != key and name not in draft.temporary]
        where: Value | None = None
        succeeded: Value | None = FALSE
        for name in names:
            found = self.files.parser(name)
            if found is None and name.lower() in _BUILT_IN:
                found = Section("parser", _BUILT_IN[name.lower()], "")
            if found is None:
                raise NotCarriedError(f"the parser {name!r} is in none of the files; give the file of parsers, too")
            good = _run_parser(found, key, steps, where)
            succeeded = good if succeeded == FALSE or succeeded is None or good is None else either(succeeded, good)
            where = both(where, FALSE if good is None else negation(good))
            if where == FALSE:
                break
        if not preserve and key in draft.types:
            draft.drop([key], draft.keep(succeeded))
        if not reserve:
            draft.drop(before, draft.keep(succeeded))


def _may_match(tag: str, pattern: str) -> bool:
    """Whether a pattern has a match among the tags of an input: in ``kube.*`` the star stands for the path of a file."""
    if "*" not in tag:
        return fnmatchcase(tag, pattern)
    start, (other, star, _) = tag.partition("*")[0], pattern.partition("*")
    return other.startswith(start) or (bool(star) and start.startswith(other))


def _run_parser(parser: Section, key: str, steps: TranslatedSteps, where: Value | None) -> Value | None:
    """Add the steps of a parser; the condition of its success."""
    form = parser.get("format").lower()
    if form == "regex":
        pattern = parser.get("regex").strip()
        pattern = pattern[1:-1] if pattern.startswith("/") and pattern.endswith("/") else pattern
        good = steps.attempt("grok", {"field": key, "patterns": [pattern], "keep_empty_captures": False}, where)
    elif form == "json":
        good = steps.attempt("json", {"field": key, "add_to_root": True}, where)
    elif form in ("logfmt", "ltsv"):
        from etl.migration.ingest.parser_processors import add_pairs
        from etl.migration.ingest.processor import Processor

        options = {"fields": {}, "preset": "logfmt"} if form == "logfmt" else _LTSV
        made = Processor("kv", {"field": key, "value_split": "=", "ignore_failure": True}, steps.draft, where, lambda *_: None)
        add_pairs(made, "", {**options, "fields": {}})
        good = where
    else:
        raise NotCarriedError(f"a parser of the format {form!r}")
    for pair in parser.get("types").split():
        name, _, type_ = pair.partition(":")
        if kind := _TYPES.get(type_):
            steps.apply(
                "convert", {"field": clean_name(name), "type": kind, "ignore_failure": True, "ignore_missing": True}, good
            )
    if (time := parser.get("time_key")) and (pattern := parser.get("time_format")):
        formats = [java_pattern(pattern)]
        options = {"field": clean_name(time), "formats": formats, "target_field": "@timestamp", "timezone": _zone(parser, steps)}
        parsed = steps.attempt("date", options, good)
        if parser.get("time_keep").lower() not in ("on", "true", "yes"):
            steps.draft.drop([clean_name(time)], steps.draft.keep(parsed))
    return good


_LTSV: Mapping[str, Any] = {"pair_separators": ["\t"], "value_separators": [":"], "quotes": "", "whitespace": "strict"}


def _zone(parser: Section, steps: TranslatedSteps) -> str:
    return steps.timezone if parser.get("time_system_timezone").lower() in ("on", "true") else "UTC"


def _parser(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    def says(name: str) -> bool:
        return one.get(name).lower() in ("on", "true", "yes")

    reserve, preserve = says("reserve_data"), says("preserve_key")
    run._parse(steps, key_name(one.get("key_name", "log")), one.all("parser"), reserve=reserve, preserve=preserve)


def _grep(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    """Every `regex` must match, and no `exclude`; with `logical_op or` one of them."""
    draft, any_ = steps.draft, one.get("logical_op").lower() == "or"
    kept: Value | None = None
    for kind in ("regex", "exclude"):
        found: Value | None = None
        for rule in one.all(kind):
            name, pattern = _words(rule, 2)
            good = matching(draft.field(key_name(name)), pattern)
            good = good if kind == "regex" else negation(good)
            if found is None:
                found = good
            elif any_ == (kind == "regex"):
                found = either(found, good) if kind == "regex" else both(found, good)
            else:
                found = both(found, good)
        kept = found if kept is None else both(kept, found)
    if kept is None:
        raise NotCarriedError("neither regex nor exclude")
    steps.apply("drop", {}, negation(kept))


def _conditions(one: Section, draft: Draft) -> Value | None:
    where: Value | None = None
    for text in one.all("condition"):
        kind, *rest = text.split(None, 2)
        value = draft.field(key_name(rest[0])) if rest else None
        match kind.lower(), len(rest):
            case "key_exists", 1:
                found = negation(is_null(value)) if value is not None else FALSE
            case "key_does_not_exist", 1:
                found = is_null(value) if value is not None else FALSE
            case "key_value_equals", 2:
                found = equal(value, text_value(rest[1])) if value is not None else FALSE
            case "key_value_does_not_equal", 2:
                found = negation(equal(value, text_value(rest[1]))) if value is not None else FALSE
            case "key_value_matches", 2:
                found = matching(value, rest[1]) if value is not None else FALSE
            case "key_value_does_not_match", 2:
                found = negation(matching(value, rest[1])) if value is not None else FALSE
            case _:
                raise NotCarriedError(f"the condition {text!r}")
        where = both(where, found)
    return where


def _modify(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    """Rules in their order; ``add`` and ``rename`` leave a field as it is that is there."""
    draft = steps.draft
    where = draft.keep(_conditions(one, draft))
    if where == FALSE:
        return
    for rule, value in one.entries:
        match rule:
            case "set" | "add":
                name, text = _words(value, 2)
                before = draft.field(key_name(name))
                missing = where if rule == "set" else both(where, is_null(before))
                draft.set({key_name(name): choose(missing, text_value(text), before)})
            case "rename" | "hard_rename":
                name, to = map(key_name, _words(value, 2))
                draft.field(name)
                if rule == "hard_rename" and where is None:
                    draft.drop([to])
                if name in draft.types:
                    draft.rename({name: to}, where)
            case "copy" | "hard_copy":
                name, to = map(key_name, _words(value, 2))
                before, source = draft.field(to), draft.field(name)
                free = where if rule == "hard_copy" else both(where, is_null(before))
                draft.set({to: choose(free, source, before)})
            case "remove":
                name = key_name(value)
                draft.drop([name, *draft.under(name)], where)
            case "remove_wildcard" | "remove_regex":
                names = [n for n in draft.types if _fits(rule, value, n) and n not in draft.temporary]
                draft.drop(names, where)
            case "name" | "match" | "match_regex" | "condition" | "alias":
                pass
            case _:
                steps.leave(one.location, f"filter modify.{rule}", "a rule without a counterpart")
                run.report.total += 1


def _fits(rule: str, pattern: str, name: str) -> bool:
    if rule == "remove_regex":
        try:
            return re.search(pattern, name) is not None
        except re.error:
            return False
    return name.startswith(pattern.rstrip("*"))


def _record_modifier(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    draft = steps.draft
    draft.drop([key_name(name) for name in one.all("remove_key")])
    if kept := {key_name(name) for option in ("allowlist_key", "whitelist_key") for name in one.all(option)}:
        for name in kept:
            draft.field(name)
        draft.drop([name for name in draft.types if name not in kept and name not in draft.temporary])
    for record in one.all("record"):
        name, text = _words(record, 2)
        draft.set({key_name(name): text_value(text)})


def _nest(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    draft = steps.draft
    added, removed = one.get("add_prefix"), one.get("remove_prefix")
    if one.get("operation").lower() == "lift":
        under = f"{key_name(one.get('nested_under'))}."
        names = {name: name.removeprefix(under) for name in draft.types if name.startswith(under)}
    else:
        wildcards = one.all("wildcard")
        chosen = [name for name in draft.types if any(_fits("wildcard", text, name) for text in wildcards)]
        names = {name: name for name in chosen if name not in draft.temporary}
    for name, new in names.items():
        new = f"{clean_name(added)}{new.removeprefix(removed)}"
        nested = one.get("operation").lower() != "lift"
        draft.rename({name: f"{key_name(one.get('nest_under'))}.{new}" if nested else new})


_FILTERS: Mapping[str, Callable[[FluentBitImport, Section, TranslatedSteps], None]] = {
    "parser": _parser,
    "grep": _grep,
    "modify": _modify,
    "record_modifier": _record_modifier,
    "nest": _nest,
}

NO_COUNTERPART: Mapping[str, str] = {
    "aws": "metadata of the host are not asked for; a `set` with a constant does it",
    "geoip2": "the parser `geoip` with the file of places",
    "kubernetes": "metadata of pods are not asked for; a `lookup` in a table does the same",
    "log_to_metrics": "the step `window` counts",
    "lua": "code in Lua; write it as a function in Python, which the step `python` calls",
    "multiline": "the option `multiline` of the source joins lines",
    "rewrite_tag": "tags are streams here: a stream with `from` and a `filter` takes such events",
    "throttle": "the step `throttle`",
    "type_converter": "a step `convert`",
}
"""Filters without a counterpart, and what to do instead."""


def _tail(one: Section) -> dict[str, Any]:
    paths = [part.strip() for part in one.get("path").split(",") if part.strip()]
    if len(paths) != 1:
        raise NotCarriedError("a source `file` for each path. Standard input is in its place")
    start = {} if one.get("read_from_head").lower() in ("on", "true") else {"start": "end"}
    excluded = [part.strip() for part in one.get("exclude_path").split(",") if part.strip()]
    preset = one.get("multiline.parser").split(",")[0].strip().lower()
    multiline = {"multiline": {"preset": preset}} if preset in ("java", "python", "go", "ruby", "docker", "cri") else {}
    return {"type": "file", "path": paths[0], **start, **({"exclude": excluded} if excluded else {}), **multiline}


def _listen(default: int) -> Callable[[Section], dict[str, Any]]:
    def make(one: Section) -> dict[str, Any]:
        mode = one.get("mode", one.name if one.name in ("tcp", "udp") else "udp").lower()
        return {"type": "syslog", "listen": [f"{mode}://{one.get('listen', '0.0.0.0')}:{one.get('port', str(default))}"]}

    return make


INPUTS: Mapping[str, Callable[[Section], dict[str, Any]]] = {
    "tail": _tail,
    "stdin": lambda one: {"type": "stdin"},
    "tcp": _listen(5170),
    "udp": _listen(5170),
    "syslog": _listen(5140),
    "forward": lambda one: {
        "type": "forward",
        "listen": [f"tcp://{one.get('listen', '0.0.0.0')}:{one.get('port', '24224')}"],
    },
    "kafka": lambda one: {"type": "kafka", "servers": one.get("brokers").split(","), "topics": one.get("topics").split(",")},
}


def _elasticsearch(one: Section) -> dict[str, Any]:
    scheme = "https" if one.get("tls").lower() == "on" else "http"
    login = {ours: one.get(theirs) for theirs, ours in (("http_user", "user"), ("http_passwd", "password")) if one.get(theirs)}
    url = f"{scheme}://{one.get('host', '127.0.0.1')}:{one.get('port', '9200')}"
    index = one.get("logstash_prefix", "logstash") if _has_daily_index(one) else one.get("index", "fluent-bit")
    return {"type": "elasticsearch", "urls": [url], "index": index, **login}


def _has_daily_index(one: Section) -> bool:
    return one.get("logstash_format").lower() in ("on", "true", "yes")


def _http(one: Section) -> dict[str, Any]:
    scheme = "https" if one.get("tls").lower() == "on" else "http"
    url = f"{scheme}://{one.get('host', '127.0.0.1')}:{one.get('port', '80')}{one.get('uri', '/')}"
    form = "ndjson" if one.get("format").lower() in ("json_lines", "json_stream") else "json"
    return {"type": "http", "urls": [url], "format": form}


def _file(one: Section) -> dict[str, Any]:
    folder, name = one.get("path", ".").rstrip("/"), one.get("file", "fluent-bit.jsonl")
    return {"type": "file", "path": f"{folder}/{name}"}


OUTPUTS: Mapping[str, Callable[[Section], dict[str, Any]]] = {
    "stdout": lambda one: {"type": "console"},
    "null": lambda one: {"type": "discard"},
    "file": _file,
    "es": _elasticsearch,
    "opensearch": _elasticsearch,
    "http": _http,
    "kafka": lambda one: {
        "type": "kafka",
        "servers": one.get("brokers", "localhost:9092").split(","),
        "topic": one.get("topics", "fluent-bit").split(",")[0],
    },
}
