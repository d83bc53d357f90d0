"""A configuration of Filebeat → the topology of a pipeline. Each input has its own stream, which the global processors end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.migration.comparisons import matching
from etl.migration.draft import Draft, DraftStep, NoCounterpartError, clean_name
from etl.migration.filebeat.conditions import condition
from etl.migration.filebeat.configuration import FilebeatFiles
from etl.migration.filebeat.decoding import decode_json, parse_syslog, read_into_event
from etl.migration.filebeat.field_processors import add_fields, add_tags
from etl.migration.filebeat.inputs import INPUTS, NO_INPUT, WITHOUT_EFFECT, container_format, name_of
from etl.migration.filebeat.journal import journal_records
from etl.migration.filebeat.outputs import NO_OUTPUT, OUTPUTS, TIME_FIELD, sink_text
from etl.migration.filebeat.outputs import WITHOUT_EFFECT as OUTPUT_WITHOUT_EFFECT
from etl.migration.filebeat.processors import ProcessorTranslation
from etl.migration.given_options import GivenOptions, existing_fields, leave_options
from etl.migration.ingest.processor import as_list
from etl.migration.report import ImportReport, OmittedConstruct
from etl.migration.sampling import Member, member_path
from etl.migration.topology import Destination, Origin, Topology, free_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, TEXT, TEXTS, TIME, TRUE, Value, both, choose, either, negation

PATH_FIELD = "log.file.path"


@dataclass
class FilebeatImport:
    """Imports a configuration."""

    files: FilebeatFiles
    name: str = "imported"
    timezone: str = "${TIMEZONE:-UTC}"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)
    report: ImportReport = field(default_factory=ImportReport)

    def run(self) -> Topology:
        topology = Topology(self.name)
        for one in self.files.inputs:
            if one.get("enabled", True) is not False:
                self._input(one, topology)
        self._report_sections()
        if not topology.origins:
            topology.origins["log"] = Origin({"type": "stdin"}, comments=["the configuration has no input that is enabled"])
        draft = topology.begin()
        ProcessorTranslation(self._steps(draft), self._location).run(self.files.root.get("processors"))
        self._outputs(topology, draft)
        topology.finish()
        self.report.remarks += [one for origin in topology.origins.values() for one in origin.draft.remarks]
        self.report.remarks = list(dict.fromkeys([*self.report.remarks, *draft.remarks]))
        return topology

    def _steps(self, draft: Draft, report: ImportReport | None = None) -> TranslatedSteps:
        return TranslatedSteps(draft, report or self.report, self.timezone, self._samples)

    @property
    def _samples(self) -> Mapping[str, Mapping[str, Member]]:
        """The sample's members, also for the temporary field that has the line."""
        members = self.samples.get("message")
        return {} if members is None else {"message": members, "_event_1": members}

    def _location(self, one: Any) -> str:
        return self.files.location(one) or self.name

    def _input(self, one: Mapping[str, Any], topology: Topology) -> None:
        """The sources of an input: one for each of its paths."""
        kind = str(one.get("type", "log"))
        self.report.total += 1
        given = GivenOptions(one)
        try:
            make = INPUTS.get(kind)
            if make is None:
                raise NoCounterpartError(NO_INPUT.get(kind, "an input that is unknown here"))
            sources = make(given)
        except NoCounterpartError as error:
            self.report.left.append(
                OmittedConstruct(self._location(one), f"input {kind}", f"{error}. Standard input is in its place")
            )
            sources = [{"type": "stdin"}]
        comments = leave_options(self.report, self._location(one), f"input {kind}", given.left(WITHOUT_EFFECT))
        for number, options in enumerate(sources):
            report = self.report if number == 0 else ImportReport()
            draft = self._draft(kind, one, options)
            try:
                self._input_steps(self._steps(draft, report), kind, one)
            except NoCounterpartError as error:
                self._steps(draft, report).leave(self._location(one), f"input {kind}.parsers", str(error))
            name = free_name(name_of(kind, one), topology.origins)
            topology.origins[name] = Origin(options, draft, comments if number == 0 else [])

    def _draft(self, kind: str, one: Mapping[str, Any], options: dict[str, Any]) -> Draft:
        if options["type"] == "journald":
            return journal_records(GivenOptions(one), options)
        draft = Draft()
        if options["type"] == "file" and (kind in ("container", "docker") or self.files.mentions(PATH_FIELD)):
            options["path_field"] = PATH_FIELD
            draft.types[PATH_FIELD] = TEXT
        if options["type"] in ("syslog", "http", "beats"):
            fields = ["log.source.address", "log.source.port"]
            if not self.files.mentions(fields[0]):
                draft.steps.append(DraftStep({"type": "drop", "fields": fields}))
        return draft

    def _input_steps(self, steps: TranslatedSteps, kind: str, one: Mapping[str, Any]) -> None:
        """Translate what an input does itself: parsing of containers' lines and JSON, omitted lines, tags, fields, processors."""
        given = GivenOptions(one)
        if kind in ("container", "docker"):
            _container(steps, container_format(given, [str(path) for path in as_list(one.get("paths") or ["docker"])]), given)
        if kind == "syslog":
            parse_syslog(steps, "message", str(one.get("format", "auto")), str(one.get("timezone", "Local")))
        if kind in ("http_endpoint", "lumberjack"):
            decode_json(steps, "message", "" if kind == "lumberjack" else str(one.get("prefix", "json")), None, overwrites=True)
        if name := one.get("expand_event_list_from_field"):
            _expand(steps, str(name))
        self._parsers(steps, one)
        self._lines(steps, given)
        tags = [*as_list(self.files.root.get("tags") or []), *as_list(one.get("tags") or [])]
        add_tags(steps, tags, None)
        for owner in (self.files.root, one):
            values = owner.get("fields")
            if isinstance(values, Mapping):
                add_fields(steps, values, "" if owner.get("fields_under_root") is True else "fields.", None)
        ProcessorTranslation(steps, self._location).run(one.get("processors"))

    def _parsers(self, steps: TranslatedSteps, one: Mapping[str, Any]) -> None:
        if isinstance(json := one.get("json"), Mapping):
            _json_lines(steps, json, "" if json.get("keys_under_root") is True else "json")
        for parser in as_list(one.get("parsers") or []):
            for name, options in parser.items() if isinstance(parser, Mapping) else ():
                options = options if isinstance(options, Mapping) else {}
                if name == "ndjson":
                    _json_lines(steps, options, str(options.get("target") or ""))
                elif name == "container":
                    _container(steps, "cri" if options.get("format") == "cri" else "docker", GivenOptions(options))
                elif name == "syslog":
                    parse_syslog(steps, "message", str(options.get("format", "auto")), str(options.get("timezone", "Local")))
                elif name == "include_message":
                    patterns = [str(text) for text in as_list(options.get("patterns") or [])]
                    _keep_lines(steps, patterns)
                elif name != "multiline":
                    self.report.total += 1
                    steps.leave(self._location(one), f"parser {name}", "a parser that is unknown here")

    def _lines(self, steps: TranslatedSteps, given: GivenOptions) -> None:
        message = steps.draft.field("message")
        if patterns := [str(text) for text in as_list(given.get("include_lines") or [])]:
            _keep_lines(steps, patterns)
        for pattern in as_list(given.get("exclude_lines") or []):
            steps.apply("drop", {}, matching(message, str(pattern)))

    def _report_sections(self) -> None:
        filebeat = self.files.section("filebeat")
        notes = {
            f"filebeat.{name}": reason
            for name, reason in _SECTIONS.items()
            if isinstance(filebeat.get(name), (list, dict)) and filebeat[name]
        }
        notes |= {name: reason for name, reason in _ROOT_SECTIONS.items() if self.files.root.get(name)}
        for path in self.files.missing:
            notes["filebeat.config.inputs"] = f"no file matches {path}: name these files as well"
        for name, reason in notes.items():
            self.report.total += 1
            self.report.left.append(OmittedConstruct(self._location(filebeat) or self.name, name, reason))

    def _outputs(self, topology: Topology, draft: Draft) -> None:
        steps = self._steps(draft)
        for kind, one in self.files.section("output").items():
            if isinstance(one, Mapping) and one.get("enabled", True) is not False:
                self.report.total += 1
                try:
                    self._output(kind, one, topology, steps)
                except NoCounterpartError as error:
                    steps.leave(self._location(one), f"output {kind}", str(error))

    def _output(self, kind: str, one: Mapping[str, Any], topology: Topology, steps: TranslatedSteps) -> None:
        make = OUTPUTS.get(kind)
        if make is None:
            raise NoCounterpartError(NO_OUTPUT.get(kind, "an output that is unknown here"))
        given = GivenOptions(one)
        options = existing_fields(make(given), steps.draft, given)
        if options.get("time_field") == TIME_FIELD and TIME_FIELD not in steps.draft.types:
            steps.draft.remark(f"no processor gives {TIME_FIELD}: it is the time of reading, as in Filebeat")
            steps.draft.set({TIME_FIELD: Value("current_timestamp()", TIME)})
        comments = leave_options(self.report, self._location(one), f"output {kind}", given.left(OUTPUT_WITHOUT_EFFECT))
        if options.get("index") == "filebeat":
            comments.append(
                "in Filebeat the name of the data stream has Filebeat's version, and Filebeat installs a template for it"
            )
        rest: Value | None = None
        option, ours = _RULES.get(kind, ("", ""))
        for rule in as_list(one.get(option) or []):
            rest = self._rule(kind, rule, {**options}, (option, ours), rest, topology, steps)
        where = None if rest is None else rest.sql
        topology.destinations[free_name(kind, topology.destinations)] = Destination(options, where, comments)

    def _rule(
        self,
        kind: str,
        rule: Mapping[str, Any],
        options: dict[str, Any],
        names: tuple[str, str],
        before: Value | None,
        topology: Topology,
        steps: TranslatedSteps,
    ) -> Value | None:
        """Translate a rule that routes events to another index or topic: it becomes a sink. Returns the condition of the events
        that no rule has routed so far."""
        self.report.total += 1
        option, ours = names
        try:
            if not isinstance(rule, Mapping) or "mappings" in rule or ours not in rule:
                raise NoCounterpartError("a rule with mappings; a step `set` with CASE gives the name")
            test = condition(steps.draft, rule["when"]) if "when" in rule else TRUE
            steps.draft.check(test)
            options = {name: value for name, value in options.items() if name not in ("data_stream", "time_field")}
            options[ours] = sink_text(rule[ours])
            if options[ours] != sink_text(re.sub(r"%\{\+[^{}]*\}", "", str(rule[ours]))):
                options["time_field"] = TIME_FIELD
                if TIME_FIELD not in steps.draft.types:
                    steps.draft.set({TIME_FIELD: Value("current_timestamp()", TIME)})
        except NoCounterpartError as error:
            steps.leave(self._location(rule), f"output {kind}.{option}", str(error))
            return before
        where = both(before, test)
        if where != FALSE:
            sink = Destination(options, None if where is None else where.sql)
            topology.destinations[free_name(kind, topology.destinations)] = sink
        return both(before, negation(test))


_RULES = {"elasticsearch": ("indices", "index"), "kafka": ("topics", "topic")}

_SECTIONS = {
    "autodiscover": "containers are found by a glob of paths; the recipes cri-logs and docker-logs have it",
    "modules": "import the ingest pipelines of the modules, which parse their logs",
}
_ROOT_SECTIONS = {
    "cloud": "the addresses and the login of the deployment are `urls` and `api_key` of the sink elasticsearch",
}


def _expand(steps: TranslatedSteps, name: str) -> None:
    """An event for each object in an array of a JSON document."""
    if name == ".[]":
        raise NoCounterpartError("an array that is the whole document: the source `http` splits it, the source `file` does not")
    array = steps.draft.new_temporary("records")
    paths = {"paths": {array: member_path("", name)}}
    steps.draft.add({"type": "json", "fields": {array: TEXTS}, **paths}, {array: TEXTS})
    steps.draft.types.pop("message", None)
    steps.draft.steps.append(DraftStep({"type": "unnest", "field": array, "target": "message"}))
    del steps.draft.types[array]
    steps.draft.temporary.remove(array)
    steps.draft.types["message"] = TEXT


def _keep_lines(steps: TranslatedSteps, patterns: list[str]) -> None:
    found = FALSE
    for pattern in patterns:
        found = either(found, matching(steps.draft.field("message"), pattern))
    steps.apply("drop", {}, negation(found))


def _json_lines(steps: TranslatedSteps, options: Mapping[str, Any], target: str) -> None:
    """Parse lines of JSON: their members go into the event, or into an object; a line that is not JSON stays in `message`."""
    draft = steps.draft
    line = draft.new_temporary("event")
    draft.rename({"message": line})
    if target:
        failed = steps.failure("json", {"field": line, "target_field": clean_name(target)}, None)
    else:
        failed = read_into_event(steps, line, None, overwrites=options.get("overwrite_keys") is True)
    text = draft.field(line)
    key = options.get("message_key")
    inner = draft.field(clean_name(f"{target}.{key}" if target else str(key))) if key else draft.field("message")
    made = choose(FALSE if failed is None else failed, text, inner)
    if not made.is_null:
        draft.set({"message": made})


_CRI = (
    r"\A(?<_time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) (?<stream>stdout|stderr) "
    r"(?<_flags>[FP](?::[^ ]*)?)(?: (?<message>.*))?\z"
)


def _container(steps: TranslatedSteps, form: str, given: GivenOptions) -> None:
    """The text of a container's line is `message`, with its stream and time."""
    draft = steps.draft
    if form == "cri":
        fields = dict.fromkeys(("_time", "stream", "_flags", "message"), TEXT)
        draft.add({"type": "regex", "patterns": [_CRI], "on_error": "keep"}, fields)
    else:
        fields = dict.fromkeys(("_text", "stream", "_time"), TEXT)
        paths = {"_text": "log", "_time": "time"}
        draft.add({"type": "json", "fields": fields, "paths": paths, "on_error": "keep", "keep_field": True}, fields)
        text = r"coalesce(regexp_replace(_text, '\r?\n\\z', ''), message)"
        draft.set({"message": Value(text, TEXT, frozenset(["_text", "message"]))})
        draft.temporary.append("_text")
    draft.temporary += ["_time", *(["_flags"] if form == "cri" else [])]
    steps.apply("date", {"field": "_time", "target_field": TIME_FIELD, "formats": ["ISO8601"], "ignore_failure": True}, None)
    if given.get("stream") in ("stdout", "stderr"):
        steps.apply("drop", {}, negation(Value(f"stream = '{given['stream']}'", "boolean", frozenset(["stream"]))))
