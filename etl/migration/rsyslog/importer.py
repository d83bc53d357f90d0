"""A configuration of rsyslog → the topology of a pipeline.

Listeners of one ruleset are one source ``syslog``; each ruleset's statements run over the events of its inputs. An action is a
sink after the conditions around it. What a template writes as JSON is a step ``select`` before the sink.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etl.migration.draft import Draft, DraftStep, NoCounterpartError
from etl.migration.given_options import GivenOptions, leave_options
from etl.migration.journal import JOURNAL_TIME, journal_draft
from etl.migration.report import ImportReport, OmittedConstruct
from etl.migration.rsyslog.configuration import Command, ConfigurationReader, Element, If, Statement
from etl.migration.rsyslog.endpoints import (
    INPUTS,
    LISTENERS,
    NO_EFFECT,
    NO_INPUT,
    WITHOUT_EFFECT,
    listener,
)
from etl.migration.rsyslog.expressions import FACILITIES, SEVERITIES
from etl.migration.rsyslog.properties import FACILITY, RAW, SEVERITY, VARIABLES
from etl.migration.rsyslog.rules import MAX_CALLS, Rules, changes
from etl.migration.topology import Destination, Origin, Topology, free_name, whole_text
from etl.migration.values import TEXT, WHOLE, Value, constant, text_value

DEFAULT = "RSYSLOG_DefaultRuleset"
SYSLOG_FIELDS = {
    "timestamp": "timestamp",
    "host.hostname": TEXT,
    "log.syslog.priority": WHOLE,
    FACILITY: WHOLE,
    "log.syslog.facility.name": TEXT,
    SEVERITY: WHOLE,
    "log.syslog.severity.name": TEXT,
    "log.syslog.version": TEXT,
    "log.syslog.appname": TEXT,
    "log.syslog.procid": TEXT,
    "log.syslog.msgid": TEXT,
    "event.sequence": WHOLE,
    "log.syslog.structured_data": TEXT,
    "message": TEXT,
}
"""Fields that the parser ``syslog`` gives."""


def read_configurations(files: Sequence[Path]) -> list[Statement]:
    """The statements of all files, in their order. Raises NoCounterpartError."""
    known: list[Path] = []
    pending: dict[str, str] = {}
    return [one for file in files for one in ConfigurationReader(file, known, pending=pending).read()]


@dataclass
class RsyslogImport:
    """Imports a configuration."""

    statements: Sequence[Statement]
    name: str = "imported"
    timezone: str = "${TIMEZONE:-UTC}"
    report: ImportReport = field(default_factory=ImportReport)
    templates: dict[str, Element] = field(default_factory=dict)
    rulesets: dict[str, Sequence[Statement]] = field(default_factory=dict)
    settings: GivenOptions = field(default_factory=lambda: GivenOptions({}))
    parts: dict[str, Topology] = field(default_factory=dict)
    """Ruleset → what becomes of it."""
    comments: list[str] = field(default_factory=list)

    def run(self) -> str:
        """The pipeline file."""
        self._declare()
        self._inputs()
        sinks: dict[str, Destination] = {}
        for ruleset, part in self.parts.items():
            draft = part.begin()
            statements = self._with_called_rulesets(self.rulesets.get(ruleset, ()))
            rules = Rules(self, part, draft, sinks, changes(statements))
            rules.run(self.rulesets.get(ruleset, ()))
            _drop_unread(part)
            part.finish()
            self.report.remarks += [text for text in draft.remarks if text not in self.report.remarks]
        unbound = self.rulesets.keys() - self.parts.keys() - self._called_rulesets(self.statements)
        for name in sorted(unbound - {DEFAULT}):
            self.comments.append(
                self.leave(Command("ruleset", name, "the configuration"), f"ruleset {name}", "no input is bound to it")
            )
        return whole_text(self.name, list(self.parts.values()), comments=self.comments)

    def _part(self, ruleset: str) -> Topology:
        if ruleset not in self.parts:
            stream = "events" if ruleset == DEFAULT else re.sub(r"\W", "_", ruleset)
            self.parts[ruleset] = Topology(self.name, stream=free_name(stream, {one.stream: one for one in self.parts.values()}))
        return self.parts[ruleset]

    def _add(self, ruleset: str, name: str, origin: Origin) -> None:
        taken = {known: 1 for part in self.parts.values() for known in part.origins}
        self._part(ruleset).origins[free_name(name, taken)] = origin

    def _with_called_rulesets(self, statements: Sequence[Statement]) -> list[Statement]:
        """Statements with those of the rulesets that they call."""
        names = self._called_rulesets(statements)
        for _ in range(MAX_CALLS):
            names |= {inner for name in names for inner in self._called_rulesets(self.rulesets.get(name, ()))}
        return [*statements, *(one for name in names for one in self.rulesets.get(name, ()))]

    def _declare(self) -> None:
        """Note templates, rulesets and settings; what is left is the default ruleset."""
        rest: list[Statement] = []
        settings: dict[str, Any] = {}
        for one in self.statements:
            match one:
                case Element("template"):
                    self.templates[one.text("name").lower()] = one
                case Element("ruleset"):
                    self.rulesets[one.text("name")] = one.body
                case Element("global" | "module"):
                    settings |= one.parameters
                case Element("input" | "main_queue" | "parser" | "timezone" | "lookup_table"):
                    continue
                case _:
                    rest.append(one)
        self.settings = GivenOptions(settings)
        self.rulesets[DEFAULT] = [*self.rulesets.get(DEFAULT, ()), *rest]

    def _called_rulesets(self, statements: Sequence[Statement]) -> set[str]:
        found: set[str] = set()
        for one in statements:
            match one:
                case If(_, then, otherwise):
                    found |= self._called_rulesets(then) | self._called_rulesets(otherwise)
                case Command("call", name):
                    found.add(name)
                case Element("ruleset", _, _, body):
                    found |= self._called_rulesets(body)
        return found

    def leave(self, one: Statement, construct: str, reason: str) -> str:
        """Note something that is not carried over: the comment for its place."""
        self.report.total += 1
        self.report.left.append(OmittedConstruct(one.location, construct, reason))
        return f"NOT CARRIED OVER: {construct}: {reason}"

    # ── Inputs ────────────────────────────────────────────────────────────────────────────────────

    def _inputs(self) -> None:
        default = str(self.settings.get("defaultruleset") or DEFAULT)
        for one in self._declared_inputs():
            kind, ruleset = one.text("type"), one.text("ruleset") or default
            if kind in NO_EFFECT:
                continue
            if kind in LISTENERS:
                self._listen(one, ruleset)
                continue
            make = INPUTS.get(kind)
            if make is None:
                self.comments.append(self.leave(one, f"input {kind}", NO_INPUT.get(kind, "an input that is unknown here")))
                continue
            self.report.total += 1
            given = GivenOptions(one.parameters)
            options = make(given)
            origin = Origin(options, _origin_draft(one, options, self))
            origin.comments = leave_options(self.report, one.location, f"input {kind}", given.left(WITHOUT_EFFECT))
            self._add(ruleset, kind.removeprefix("im"), origin)
        if not self.parts:
            origin = Origin({"type": "stdin"}, comments=["the configuration has no input of messages"])
            self._parse(origin.draft)
            self._add(default, "log", origin)

    def _declared_inputs(self) -> list[Element]:
        """Inputs, and the modules that read something without one."""
        found = [one for one in self.statements if isinstance(one, Element) and one.kind == "input"]
        for one in self.statements:
            if isinstance(one, Element) and one.kind == "module":
                kind = one.text("load").rpartition("/")[2].removesuffix(".so")
                if kind == "imuxsock" and one.text("syssock.use", "on") != "off":
                    socket = one.text("syssock.name") or "/dev/log"
                    found.append(Element("input", {"type": kind, "socket": socket}, one.location))
                elif kind in ("imjournal", "imklog"):
                    found.append(Element("input", {**one.parameters, "type": kind}, one.location))
        return found

    def _listen(self, one: Element, ruleset: str) -> None:
        """Add an address to the source ``syslog`` of its ruleset."""
        given = GivenOptions(one.parameters)
        kind = one.text("type")
        try:
            address, options = listener(given, self.settings)
        except NoCounterpartError as error:
            self.comments.append(self.leave(one, f"input {kind}", str(error)))
            return
        self.report.total += 1
        known = [origin for origin in self._part(ruleset).origins.values() if origin.options["type"] == "syslog"]
        origin = known[0] if known else Origin({"type": "syslog", "listen": []})
        if not known:
            self._parse(origin.draft, ["log.source.address", "event.created"])
            self._add(ruleset, "syslog", origin)
        origin.options["listen"].append(address)
        origin.options |= options
        origin.comments += leave_options(self.report, one.location, f"input {kind}", given.left(WITHOUT_EFFECT))

    def _parse(self, draft: Draft, received: Sequence[str] = ()) -> None:
        """Read the header of messages; a message without one has priority 13, as in rsyslog."""
        draft.types |= {name: "timestamp" if name == "event.created" else TEXT for name in received}
        draft.set({RAW: Value("message", TEXT, frozenset(["message"]))})
        options = {"type": "syslog", "priority": 13, "timezone": self.timezone, "on_error": "keep"}
        draft.add(options, SYSLOG_FIELDS)


def _drop_unread(part: Topology) -> None:
    """Drop the text as it came, local variables and kept conditions; those that a sink needs are dropped before it."""
    shown = str([(one.options, one.where, one.steps) for one in part.destinations.values()])
    draft = part.draft
    own = [name for name in (RAW, *draft.under(VARIABLES), *draft.temporary) if name in draft.types]
    needed = [name for name in own if re.search(rf"(?<![\w.]){re.escape(name)}\b", shown)]
    draft.temporary = [name for name in [*draft.temporary, *own] if name not in needed]
    for one in part.destinations.values():
        if needed and not any(step.options["type"] == "select" for step in one.steps):
            one.steps.append(DraftStep({"type": "drop", "fields": needed}))


def _origin_draft(one: Element, options: dict[str, Any], whole: RsyslogImport) -> Draft:
    """The fields of a file's or the journal's events, named as those of messages."""
    if options["type"] == "journald":
        draft = journal_draft(options, ["MESSAGE"])
        names = {"MESSAGE": "message", "SYSLOG_IDENTIFIER": "log.syslog.appname", "_PID": "log.syslog.procid"}
        draft.rename({**names, JOURNAL_TIME: "timestamp", "_HOSTNAME": "host.hostname"})
        draft.set({SEVERITY: Value("try_cast(PRIORITY as bigint)", WHOLE, frozenset(["PRIORITY"]))})
        return draft
    draft = Draft()
    if options["type"] == "kafka":
        whole._parse(draft)
        return draft
    facility, severity = one.text("facility", "local0").lower(), one.text("severity", "notice").lower()
    values: dict[str, Value] = {
        "log.syslog.appname": text_value(one.text("tag").rstrip(":")),
    }
    if facility in FACILITIES and severity in SEVERITIES:
        values |= {FACILITY: constant(FACILITIES.index(facility)), SEVERITY: constant(SEVERITIES.index(severity))}
        values |= {"log.syslog.facility.name": text_value(facility), "log.syslog.severity.name": text_value(severity)}
    if "path_field" in options:
        draft.types[options["path_field"]] = TEXT
    draft.set(values)
    return draft
