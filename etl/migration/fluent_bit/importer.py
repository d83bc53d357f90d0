"""A configuration of Fluent Bit → the topology of a pipeline. Each input has its own stream, for filters choose by its tag."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from etl.migration.draft import Draft, DraftStep, NoCounterpartError, clean_name
from etl.migration.fluent_bit.configuration import FluentFiles, Section
from etl.migration.fluent_bit.endpoints import INPUTS, OUTPUTS, WITHOUT_EFFECT, daily_index, has_daily_index
from etl.migration.fluent_bit.filters import FILTERS, NO_COUNTERPART
from etl.migration.fluent_bit.journal import journal_records
from etl.migration.fluent_bit.parsers import BUILT_IN, key_name, run_parser
from etl.migration.given_options import existing_fields, leave_options
from etl.migration.logstash.references import TIME_FIELD
from etl.migration.report import ImportReport
from etl.migration.sampling import Member
from etl.migration.topology import Destination, Origin, Topology, free_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, TIME, Value, both, either, negation

_CAPTURE = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")


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
                raise NoCounterpartError("an input that has no counterpart. Standard input is in its place")
            origin.options = make(one)
            if origin.options["type"] == "journald":
                origin.draft = journal_records(one, origin.options)
                steps = self._steps(origin.draft)
            left = one.options.left(WITHOUT_EFFECT)
            origin.comments = leave_options(self.report, one.location, f"input {one.name}", left)
        except NoCounterpartError as error:
            steps.leave(one.location, f"input {one.name}", str(error))
            origin.comments, origin.draft.last_comments = origin.draft.last_comments, []
        if origin.options["type"] in ("syslog", "forward", "http"):
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
                self.parse(steps, key, [parser], reserve=True, preserve=False)
            except NoCounterpartError as error:
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
        run = FILTERS.get(one.name)
        for number, name in enumerate(self._matching(one)):
            steps = self._steps(topology.origins[name].draft)
            try:
                if run is None:
                    raise NoCounterpartError(NO_COUNTERPART.get(one.name, "a filter that is unknown here"))
                run(self, one, steps)
            except NoCounterpartError as error:
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
                raise NoCounterpartError("an output that has no counterpart")
            if not names:
                raise NoCounterpartError("no input has a tag that it matches")
            sink = Destination(existing_fields(make(one), steps.draft, one.options))
            if has_daily_index(one):
                self._daily_index(one, sink, steps, all_origins=len(names) == len(topology.origins))
        except NoCounterpartError as error:
            steps.leave(one.location, f"output {one.name}", str(error))
            return
        left = one.options.left(WITHOUT_EFFECT)
        sink.comments = leave_options(self.report, one.location, f"output {one.name}", left)
        if len(names) < len(topology.origins):
            sink.origin = [topology.stream_of(name) for name in names]
        topology.destinations[free_name(re.sub(r"\W", "_", one.name), topology.destinations)] = sink

    def _daily_index(self, one: Section, sink: Destination, steps: TranslatedSteps, *, all_origins: bool) -> None:
        index = daily_index(one, sink.options["index"])
        if TIME_FIELD not in steps.draft.types:
            if not all_origins:
                one.options.leave("logstash_format", f"an index a day is `index: {index}` with the `time_field` of the events")
                return
            steps.draft.remark(f"no parser gives {TIME_FIELD}: it is the time of reading, as in Fluent Bit")
            steps.draft.set({TIME_FIELD: Value("current_timestamp()", TIME)})
        sink.options |= {"index": index, "time_field": TIME_FIELD}

    def parse(self, steps: TranslatedSteps, key: str, names: list[str], *, reserve: bool, preserve: bool) -> None:
        """Parse a field by the first parser that fits. Without ``reserve`` the other fields are dropped."""
        draft = steps.draft
        before = [name for name in draft.types if name != key and name not in draft.temporary]
        where: Value | None = None
        succeeded: Value | None = FALSE
        captured: set[str] = set()
        for name in names:
            found = self.files.parser(name)
            if found is None and name.lower() in BUILT_IN:
                found = Section("parser", BUILT_IN[name.lower()], "")
            if found is None:
                raise NoCounterpartError(f"the parser {name!r} is in none of the files; give the file of parsers, too")
            captured |= {clean_name(one) for one in re.findall(r"\(\?<(\w+)>", found.get("regex"))}
            good = run_parser(found, key, steps, where)
            succeeded = good if succeeded == FALSE or succeeded is None or good is None else either(succeeded, good)
            where = both(where, FALSE if good is None else negation(good))
            if where == FALSE:
                break
        if not preserve and key in draft.types and key not in captured:
            draft.drop([key], draft.keep(succeeded))
        if not reserve:
            draft.drop([name for name in before if name not in captured], draft.keep(succeeded))


def _may_match(tag: str, pattern: str) -> bool:
    """Whether a pattern has a match among the tags of an input: in ``kube.*`` the star stands for the path of a file."""
    if "*" not in tag:
        return fnmatchcase(tag, pattern)
    start, (other, star, _) = tag.partition("*")[0], pattern.partition("*")
    return other.startswith(start) or (bool(star) and start.startswith(other))
