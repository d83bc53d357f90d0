"""A configuration of Logstash → the topology of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.given_options import GivenOptions, existing_fields, leave_options
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.client_options import WITHOUT_EFFECT
from etl.migration.logstash.conditions import condition_value
from etl.migration.logstash.configuration import MAX_BYTES, Branch, Configuration, ConfigurationReader, Plugin
from etl.migration.logstash.filter_plugin import COMMON, Filter
from etl.migration.logstash.filters import FILTERS, NO_COUNTERPART
from etl.migration.logstash.inputs import INPUTS, NO_INPUT, multiline
from etl.migration.logstash.mutations import add_field
from etl.migration.logstash.outputs import NO_OUTPUT, OUTPUTS
from etl.migration.logstash.references import TIME_FIELD, resolved_references
from etl.migration.report import ImportReport
from etl.migration.sampling import Member
from etl.migration.topology import Destination, Origin, Topology, free_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, TEXTS, TIME, Value, as_type, both, constant, negation

METADATA = "@metadata"


def read_configurations(files: Sequence[Path]) -> tuple[Configuration, Mapping[int, str], str]:
    """The configuration in files, the file of each plugin and branch by its identity, and the whole text."""
    whole, origin, texts = Configuration(), dict[int, str](), list[str]()
    for file in files:
        data = file.read_bytes()
        if len(data) > MAX_BYTES:
            raise NoCounterpartError(f"{file}:1:1: {len(data):,} bytes are more than a configuration may have: {MAX_BYTES:,}")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise NoCounterpartError(f"{file}:1:1: byte {error.start} is not UTF-8") from None
        before = {name: len(found) for name, found in whole.sections.items()}
        try:
            ConfigurationReader(text).read(whole)
        except NoCounterpartError as error:
            raise NoCounterpartError(f"{file}:{error}") from None
        for name, found in whole.sections.items():
            _note(found[before[name] :], str(file), origin)
        texts.append(text)
    return whole, origin, "\n".join(texts)


def _note(found: Sequence[Plugin | Branch], file: str, origin: dict[int, str]) -> None:
    for one in found:
        origin[id(one)] = file
        for _, block in one.cases if isinstance(one, Branch) else ():
            _note(block, file, origin)


@dataclass
class LogstashImport:
    """Imports a configuration."""

    configuration: Configuration
    files: Mapping[int, str]
    text: str
    name: str = "imported"
    timezone: str = "${TIMEZONE:-UTC}"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)
    report: ImportReport = field(default_factory=ImportReport)

    def run(self) -> Topology:
        topology = Topology(self.name)
        self._inputs(topology)
        draft = topology.begin()
        steps = self._steps(draft)
        for one in self.configuration.sections["filter"]:
            self._filter(steps, one, None)
        self._outputs(topology, steps)
        self._drop_metadata(topology)
        topology.finish()
        self.report.remarks += draft.remarks
        return topology

    def _steps(self, draft: Draft) -> TranslatedSteps:
        return TranslatedSteps(draft, self.report, self.timezone, self.samples)

    def _location(self, one: Plugin | Branch) -> str:
        return f"{self.files.get(id(one), '')}:{one.line}:{one.column}"

    def _inputs(self, topology: Topology) -> None:
        for one in _plugins(self.configuration.sections["input"]):
            self.report.total += 1
            origin = self._origin(one)
            topology.origins[free_name(one.name.replace("-", "_"), topology.origins)] = origin
        if not topology.origins:
            topology.origins["log"] = Origin({"type": "stdin"}, comments=["the configuration has no input"])

    def _origin(self, one: Plugin) -> Origin:
        origin = Origin({"type": "stdin"})
        steps = self._steps(origin.draft)
        try:
            make = INPUTS.get(one.name)
            if make is None:
                raise NoCounterpartError(NO_INPUT.get(one.name, "an input that is unknown here"))
            given = GivenOptions(one.options)
            origin.options = {**make(given), **multiline(one.options.get("codec"))}
            origin.comments = leave_options(self.report, self._location(one), f"input {one.name}", given.left(WITHOUT_EFFECT))
        except NoCounterpartError as error:
            reason = f"{error}. Standard input is in its place"
            steps.leave(self._location(one), f"input {one.name}", reason)
            origin.comments = origin.draft.last_comments
            origin.draft.last_comments = []
        codec = one.options.get("codec", "json" if one.name in _OBJECTS else "plain")
        codec = codec.name if isinstance(codec, Plugin) else codec
        if codec in ("json", "json_lines"):
            origin.draft.rename({"message": "_event"})
            origin.draft.temporary.append("_event")
            steps.apply("json", {"field": "_event", "add_to_root": True}, None)
            for members in origin.draft.members:
                members.known = {"tags": (TEXTS, "tags"), **members.known}
        for key in ("type", "tags", "add_field"):
            value = one.options.get(key)
            if key == "add_field" and isinstance(value, dict):
                for name, text in value.items():
                    add_field(origin.draft, name, text, None)
            elif value is not None and key != "add_field":
                origin.draft.set({key: constant([str(tag) for tag in as_list(value)] if key == "tags" else str(value))})
        return origin

    def _filter(self, steps: TranslatedSteps, one: Plugin | Branch, where: Value | None) -> None:
        if isinstance(one, Branch):
            self._branch(steps, one, where)
            return
        self.report.total += 1
        label = f"filter {one.name}"
        run = FILTERS.get(one.name)
        if run is None:
            steps.leave(self._location(one), label, NO_COUNTERPART.get(one.name, "a filter that is unknown here"))
            return
        made = Filter(one.name, one.options, steps, where, self.text)
        try:
            made.finish(run(made))
        except (NoCounterpartError, RecursionError) as error:
            steps.leave(self._location(one), label, str(error) or "too deep")
            return
        unread = [name for name in one.options if name not in made.read and name not in COMMON]
        for name, reason in [*made.left, *((name, "an option without a counterpart") for name in unread)]:
            self.report.total += 1
            steps.leave(self._location(one), f"{label}.{name}", reason)

    def _branch(self, steps: TranslatedSteps, one: Branch, where: Value | None) -> None:
        for condition, block in self._cases(steps, one, where, steps.draft.keep):
            for inner in block:
                self._filter(steps, inner, condition)

    def _cases(
        self, steps: TranslatedSteps, one: Branch, where: Value | None, use: Callable[[Value | None], Value | None]
    ) -> list[tuple[Value | None, Sequence[Plugin | Branch]]]:
        """The blocks that are carried over, with their conditions as ``use`` makes them.

        Behind a condition that is not carried over no block is: which events reach it is not known.
        """
        before: Value | None = None
        found: list[tuple[Value | None, Sequence[Plugin | Branch]]] = []
        lost = False
        for test, block in one.cases:
            if lost:
                self._leave_block(steps, block, "a condition before it is not carried over")
                continue
            try:
                value = None if test is None else condition_value(steps.draft, test)
                if value == FALSE:
                    self._leave_block(steps, block, "its condition is never true: no step before gives a field that it names")
                    continue
                found.append((use(both(both(where, before), value)), block))
                before = both(before, FALSE if value is None else negation(value))
            except (NoCounterpartError, RecursionError) as error:
                reason = str(error) if isinstance(error, NoCounterpartError) else "too many operators in a row"
                self._leave_block(steps, block, f"its condition: {reason}")
                lost = True
        return found

    def _leave_block(self, steps: TranslatedSteps, block: Sequence[Plugin | Branch], reason: str) -> None:
        for one in _plugins(block):
            self.report.total += 1
            steps.leave(self._location(one), f"filter {one.name}", reason)

    def _outputs(self, topology: Topology, steps: TranslatedSteps) -> None:
        for one, where in self._conditioned(steps, self.configuration.sections["output"], None):
            self.report.total += 1
            name = free_name(one.name.replace("-", "_"), topology.destinations)
            try:
                make = OUTPUTS.get(one.name)
                if make is None:
                    raise NoCounterpartError(NO_OUTPUT.get(one.name, "an output that is unknown here"))
                values, missing = resolved_references(steps.draft, one.options)
                given = GivenOptions(values)
                options = existing_fields(make(given), steps.draft, given)
                for option, field_ in missing.items():
                    given.leave(option, f"no step gives the field {field_}: its name stands in its place")
            except NoCounterpartError as error:
                steps.leave(self._location(one), f"output {one.name}", str(error))
                continue
            if options.get("time_field") == TIME_FIELD and (time := steps.draft.field(TIME_FIELD)).type != TIME:
                if time.is_null:
                    steps.draft.remark(f"no filter gives {TIME_FIELD}: it is the time of reading, as in Logstash")
                made = Value("current_timestamp()", TIME) if time.is_null else as_type(time, TIME)
                steps.draft.set({TIME_FIELD: made})
            comments = leave_options(self.report, self._location(one), f"output {one.name}", given.left(WITHOUT_EFFECT))
            topology.destinations[name] = Destination(options, None if where is None else where.sql, comments)

    def _conditioned(
        self, steps: TranslatedSteps, found: Sequence[Plugin | Branch], where: Value | None
    ) -> list[tuple[Plugin, Value | None]]:
        made: list[tuple[Plugin, Value | None]] = []
        for one in found:
            if isinstance(one, Plugin):
                made.append((one, where))
                continue

            def checked(condition: Value | None) -> Value | None:
                if condition is not None:
                    steps.draft.check(condition)
                return condition

            for condition, block in self._cases(steps, one, where, checked):
                made += self._conditioned(steps, block, condition)
        return made

    def _drop_metadata(self, topology: Topology) -> None:
        """Fields of the metadata are not written, unless a sink names them."""
        shown = str([(one.options, one.where) for one in topology.destinations.values()])
        names = [name for name in topology.draft.under(METADATA) if name not in shown]
        topology.draft.drop(names)


_OBJECTS = frozenset(["beats", "elastic_agent", "http", "jdbc", "elasticsearch"])
"""Inputs whose events are objects."""


def _plugins(found: Sequence[Plugin | Branch]) -> list[Plugin]:
    """All plugins, at any depth."""
    made: list[Plugin] = []
    for one in found:
        if isinstance(one, Plugin):
            made.append(one)
        else:
            for _, block in one.cases:
                made += _plugins(block)
    return made
