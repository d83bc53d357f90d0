"""The statements of a ruleset: conditions, variables, and actions, each of which becomes a sink."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from etl.expressions.quoting import quoted
from etl.migration.draft import Draft, DraftStep, NoCounterpartError, clean_name
from etl.migration.given_options import GivenOptions, leave_options
from etl.migration.rsyslog.configuration import Command, Element, If, SetVariable, Statement
from etl.migration.rsyslog.endpoints import ACTIONS, NO_ACTION, WITHOUT_EFFECT, WITHOUT_EFFECT_ACTIONS
from etl.migration.rsyslog.properties import Properties
from etl.migration.rsyslog.templates import BUILT_IN, members_of, path_of, string_parts, template_parts, text_of
from etl.migration.topology import Destination, Topology, free_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, TEXT, TRUE, Value, both, negation, text_value

if TYPE_CHECKING:
    from etl.migration.rsyslog.importer import RsyslogImport

MAX_CALLS = 20
_HEADER = {
    "facility": "log.syslog.facility.name",
    "severity": "log.syslog.severity.name",
    "host": "host.hostname",
    "app_name": "log.syslog.appname",
    "process_id": "log.syslog.procid",
}
"""Options of the sink ``syslog`` for the header of a message that is passed on."""


@dataclass
class Rules:
    """Runs the statements of a ruleset over the draft of a stream."""

    whole: RsyslogImport
    part: Topology
    draft: Draft
    sinks: dict[str, Destination]
    """All sinks so far, of all rulesets."""
    keeps: bool
    """Whether statements change fields, so that a condition is computed where it stands."""
    stops: list[Value] = field(default_factory=list)
    """Conditions under which messages have stopped."""
    calls: int = 0
    properties: Properties = field(init=False)

    def __post_init__(self) -> None:
        self.properties = Properties(self.draft)

    def run(self, statements: Sequence[Statement], where: Value | None = None) -> None:
        """Carry out statements under a condition."""
        before = len(self.stops)
        for one in statements:
            active = where
            for stopped in self.stops[before:]:
                active = both(active, negation(stopped))
            if active == FALSE:
                return
            try:
                self._statement(one, active)
            except (NoCounterpartError, RecursionError) as error:
                self._leave(one, _label(one), str(error) or "too deep")

    def _leave(self, one: Statement, construct: str, reason: str) -> None:
        self.draft.comment(self.whole.leave(one, construct, reason))

    def _count(self) -> None:
        self.whole.report.total += 1

    def _keep_condition(self, condition: Value) -> Value:
        """The condition as a field, if a later statement may change what it reads."""
        if condition in (TRUE, FALSE) or not self.keeps:
            return condition
        return self.draft.keep(condition) or condition

    def _statement(self, one: Statement, where: Value | None) -> None:
        match one:
            case Element("action"):
                self._action(one, where)
            case If(condition, then, otherwise):
                self._if(one, condition, then, otherwise, where)
            case SetVariable(name, value):
                made = None if value is None else self.properties.expression(value)
                self._set(self.properties.variable(name), made, where)
                self._count()
            case Command("stop"):
                self._count()
                self.stops.append(TRUE if where is None else self._keep_condition(where))
            case Command("call", name):
                self._call(one, name, where)
            case Command(name, argument):
                raise NoCounterpartError(_NO_COMMAND.get(name, f"{argument!r} is not found or known here"))
            case _:
                raise NoCounterpartError("a statement that is unknown here")

    def _if(
        self, one: If, condition: Any, then: Sequence[Statement], otherwise: Sequence[Statement], where: Value | None
    ) -> None:
        try:
            found = self.properties.condition(condition)
            if found not in (TRUE, FALSE):
                self.draft.check(found)
        except (NoCounterpartError, RecursionError) as error:
            for inner in [*then, *otherwise]:
                self._leave(inner, _label(inner), f"its condition: {error}")
            return
        self._count()
        found = self._keep_condition(found)
        self.run(then, both(where, found))
        if otherwise:
            self.run(otherwise, both(where, negation(found)))

    def _set(self, name: str, value: Value | None, where: Value | None) -> None:
        if value is None:
            self.draft.drop([name], where)
            return
        if where is None:
            self.draft.set({name: value})
            return
        known = self.draft.field(name)
        rest = f" else {known.sql}" if not known.is_null and known.type == value.type else ""
        made = f"case when {where.sql} then {value.sql}{rest} end"
        self.draft.set({name: Value(made, value.type, where.reads | value.reads | known.reads)})

    def _call(self, one: Statement, name: str, where: Value | None) -> None:
        body = self.whole.rulesets.get(name)
        self.calls += 1
        if body is None or self.calls > MAX_CALLS:
            raise NoCounterpartError(f"there is no ruleset {name!r}" if body is None else f"more than {MAX_CALLS} calls")
        self._count()
        before = len(self.stops)
        self.run(body, where)
        del self.stops[before:]  # `stop` ends the ruleset that has it

    # ── Actions ───────────────────────────────────────────────────────────────────────────────────

    def _action(self, one: Element, where: Value | None) -> None:
        kind = one.text("type")
        if kind == "mmjsonparse":
            self._parse_json(one, where)
            return
        if kind in WITHOUT_EFFECT_ACTIONS:
            self._count()
            return
        make = ACTIONS.get(kind)
        if make is None:
            raise NoCounterpartError(NO_ACTION.get(kind, "an action that is unknown here"))
        given = GivenOptions(one.parameters)
        options = make(given)
        sink = Destination(options, None if where is None else where.sql, origin=self.part.stream)
        self._names(one, options, given)
        self._template(one, kind, sink, given)
        if not options.get("path", "x") or options.get("topic") == "":
            raise NoCounterpartError("no path or topic is given")
        self._count()
        sink.comments += leave_options(self.whole.report, one.location, f"action {kind}", given.left(WITHOUT_EFFECT))
        same = [name for name, known in self.sinks.items() if known.options == options and known.joins is None]
        sink.joins = same[0] if same and options["type"] == "file" else None
        name = free_name(kind.removeprefix("om"), self.sinks)
        self.sinks[name] = self.part.destinations[name] = sink

    def _names(self, one: Element, options: dict[str, Any], given: GivenOptions) -> None:
        """Paths, indexes and topics that a template gives."""
        names = {"dynafile": "path", "dynsearchindex": "index", "dynatopic": "topic"}
        for switch, option in names.items():
            value = given.get(switch)
            if not value or given.is_off(switch):
                continue
            template = str(value) if switch == "dynafile" else str(options[option])
            parts = template_parts(self._template_named(template))
            options[option] = path_of(parts, self.properties)
            if "{" in options[option] and any(letter in options[option] for letter in ("yyyy", "dd}", "HH}")):
                options |= {} if self.draft.field("timestamp").is_null else {"time_field": "timestamp"}

    def _template_named(self, name: str) -> Element:
        found = self.whole.templates.get(name.lower())
        if found is None and name.lower() in BUILT_IN:
            return Element("template", {"type": "string", "string": BUILT_IN[name.lower()]}, "")
        if found is None:
            raise NoCounterpartError(f"there is no template {name!r}")
        return found

    def _template(self, one: Element, kind: str, sink: Destination, given: GivenOptions) -> None:
        """What the sink writes: the fields of a template's object, its text, or the events."""
        name = one.text("template")
        if kind == "omfwd":
            self._forwarded(name, sink, given)
            return
        if not name:
            return
        members = members_of(template := self._template_named(name), self.properties) if name.lower() not in BUILT_IN else None
        if members:
            fields = _with_time(dict(members), sink.options)
            self._name_members(fields, sink.options)
            sink.steps.append(DraftStep({"type": "select", "fields": fields}))
            return
        if sink.options["type"] == "kafka":
            text = text_of(
                template_parts(template if name.lower() not in BUILT_IN else self._template_named(name)), self.properties
            )
            sink.steps.append(DraftStep({"type": "select", "fields": {"line": text.sql}}))
            sink.options["value_field"] = "line"
            return
        if name.lower() in BUILT_IN:
            self.draft.remark("files have the events as lines of JSON, where rsyslog writes lines of its own form")
        else:
            given.leave("template", f"{name} writes a text; the sink writes the events as JSON")

    def _name_members(self, members: dict[str, str], options: dict[str, Any]) -> None:
        """Let a path, index or topic name the members of an object in place of the event's fields, which they replace."""
        for option in ("path", "index", "topic"):
            for name in re.findall(r"\{([\w.@-]+)\}", str(options.get(option, ""))):
                if name in members or self.draft.field(name).is_null:
                    continue
                same = next((member for member, value in members.items() if value.replace("`", "") == name), None)
                if same is None and any(one.startswith(f"{name}.") or name.startswith(f"{one}.") for one in members):
                    raise NoCounterpartError(f"a name with {name}, which the object of the template does not have")
                if same is None:
                    members[name] = quoted(name)
                else:
                    options[option] = options[option].replace(f"{{{name}}}", f"{{{same}}}")

    def _forwarded(self, name: str, sink: Destination, given: GivenOptions) -> None:
        """Header and text of messages that go on as syslog."""
        sink.options |= {option: f"{{{known}}}" for option, known in _HEADER.items() if not self.draft.field(known).is_null} | {
            "value_field": "message"
        }
        key = name.lower()
        if key == "rsyslog_syslogprotocol23format":
            sink.options["format"] = "rfc5424"
        elif key and key not in BUILT_IN:
            members = members_of(template := self._template_named(name), self.properties)
            del sink.options["value_field"]
            if members:
                given.leave("template", "its object as the text of a message; the sink writes the whole event")
                return
            if parts := _protocol_parts(template):
                text, fields = self._protocol(parts, sink.options), dict[str, str]()
                for names in sink.options.get("structured_data", {}).values():
                    fields |= {name: text_value(parts["data"][name]).sql for name in names}
            else:
                text, fields = text_of(_without_header(template), self.properties), {}
            if text.sql not in ("message", "coalesce(message, '')"):
                fields["message"] = text.sql
            if fields:
                sink.steps.append(DraftStep({"type": "set", "fields": fields}))
            sink.options["value_field"] = "message"

    def _protocol(self, parts: Mapping[str, Any], options: dict[str, Any]) -> Value:
        """The text of a message of RFC 5424, whose header goes to the sink's options."""
        options["format"] = "rfc5424"
        if parts["id"]:
            options["message_id"] = parts["id"]
        if parts["element"]:
            options["structured_data"] = {parts["element"]: list(parts["data"])}
        return text_of(string_parts(parts["text"]), self.properties)

    def _parse_json(self, one: Element, where: Value | None) -> None:
        """``mmjsonparse``: an object after the cookie becomes fields."""
        cookie = one.text("cookie", "@cee:")
        text = "_object"
        if text in self.draft.types:
            raise NoCounterpartError("a second one; a parser `json` does it")
        begin = f"^\\s*{cookie}\\s*" if cookie else "^\\s*"
        made = Value(f"regexp_replace(message, {text_value(begin).sql}, '')", TEXT, frozenset(["message"]))
        self.draft.set({text: made})
        steps = TranslatedSteps(self.draft, self.whole.report, self.whole.timezone)
        good = steps.attempt("json", {"field": text, "add_to_root": True}, where)
        self.properties.success = good or TRUE
        self.draft.temporary.append(text)
        self._count()


_NO_COMMAND = {
    "foreach": "a loop over an array: the step `unnest` makes an event of each element, `transform(items, x -> …)` changes them",
    "call_indirect": "a ruleset whose name is in the event: a stream with a `filter` for each name does it",
}
"""Statements without a counterpart, and what to do instead."""


def _with_time(members: dict[str, str], options: dict[str, Any]) -> dict[str, str]:
    """The members with the time for an index or a path that has a date."""
    if "time_field" in options:
        names = [name for name, value in members.items() if value.strip("`") == "timestamp"]
        options["time_field"] = names[0] if names else "timestamp"
        if not names:
            members["timestamp"] = "`timestamp`"
    return members


_PROTOCOL = re.compile(
    r"""
    <%pri%>(?:1|%protocol-version[^%]*%) \s+ %timestamp[^%]*% \s+ %hostname[^%]*% \s+
    %(?:app-name|programname|syslogtag)[^%]*% \s+ (?:%procid[^%]*%|-) \s+ (?:%msgid[^%]*%|-|(?P<id>[^\s%\[]+)) \s+
    (?:%structured-data[^%]*%|-|\[(?P<element>[^\s=\]"%]+)(?P<data>(?:\s+[\w.-]+="[^"\]%]*")+)\s*\]) \s+ (?P<text>.*?)(?:\\n|\n)*
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
"""A message of RFC 5424, whose message identifier and structured data may be constants, such as a token of the receiver."""


def _protocol_parts(template: Element) -> Mapping[str, Any] | None:
    """The parts of a template of a message of RFC 5424; None for another one."""
    text = template.text("string").replace('\\"', '"')
    found = _PROTOCOL.fullmatch(text) if template.text("type", "string") == "string" else None
    if found is None:
        return None
    data = {clean_name(name): value for name, value in re.findall(r'([\w.-]+)="([^"]*)"', found["data"] or "")}
    return {"id": found["id"], "element": found["element"], "data": data, "text": found["text"]}


def _without_header(template: Element) -> Sequence[Any]:
    """The parts of a template of a whole message after its header, which the sink writes. Raises NoCounterpartError."""
    text = template.text("string")
    header = ("<%pri%>", "%timestamp", "%hostname%", "%syslogtag")
    if template.text("type", "string") != "string" or any(part not in text.lower() for part in header):
        raise NoCounterpartError("a template that is not a syslog message")
    at = text.lower().index("%syslogtag")
    return string_parts(text[text.index("%", at + 1) + 1 :].lstrip())


def _label(one: Statement) -> str:
    match one:
        case Element(kind):
            return f"{kind} {one.text('type')}".strip()
        case SetVariable(name):
            return f"set {name}"
        case Command(name, argument):
            return f"{name} {argument}".strip()
    return "if"


def changes(statements: Sequence[Statement]) -> bool:
    """Whether statements set variables, on which a later condition may depend."""
    return any(
        isinstance(one, SetVariable) or (isinstance(one, If) and (changes(one.then) or changes(one.otherwise)))
        for one in statements
    )
