"""A configuration of Vector → the text of a pipeline: each transform becomes a stream."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from etl.expressions.quoting import quoted
from etl.migration.draft import Draft, DraftStep, NoCounterpartError, clean_name
from etl.migration.given_options import GivenOptions, existing_fields, leave_options
from etl.migration.ingest.processor import as_list
from etl.migration.rendering import comment_lines
from etl.migration.report import ImportReport
from etl.migration.sampling import Member
from etl.migration.topology import entry_text, merged_types, share_standard_input, stream_text
from etl.migration.translated import TranslatedSteps
from etl.migration.values import TEXT, TIME, either, negation
from etl.migration.vector.endpoints import DATE, SINKS, SOURCES, WITHOUT_EFFECT
from etl.migration.vector.journal import journal_events
from etl.migration.vector.program import Program
from etl.migration.vector.vrl import VrlReader

MAX_BYTES = 4 << 20
"""Maximum bytes of a configuration."""
MAX_COMPONENTS = 1000
"""Maximum number of transforms."""
Options = dict[str, Any]


def read_configuration(file: Path) -> Mapping[str, Any]:
    """A file in TOML, YAML or JSON. Raises NoCounterpartError with the location of the mistake."""
    data = file.read_bytes()
    if len(data) > MAX_BYTES:
        raise NoCounterpartError(f"{file}:1:1: {len(data):,} bytes are more than a configuration may have: {MAX_BYTES:,}")
    try:
        text = data.decode("utf-8-sig")
        root = tomllib.loads(text) if file.suffix == ".toml" else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise NoCounterpartError(f"{file}:1:1: {str(error).splitlines()[0]}") from None
    if not isinstance(root, Mapping) or not isinstance(root.get("sources"), Mapping):
        raise NoCounterpartError(f"{file}:1:1: a configuration of Vector has 'sources'")
    return root


@dataclass
class VectorImport:
    """Imports a configuration."""

    root: Mapping[str, Any]
    file: str
    name: str = "imported"
    timezone: str = "${TIMEZONE:-UTC}"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)
    report: ImportReport = field(default_factory=ImportReport)
    drafts: dict[str, Draft] = field(default_factory=dict)
    timed: list[tuple[str, list[str], list[tuple[str, Draft]]]] = field(default_factory=list)
    """Streams in front of sinks which need the time of events in another form."""

    def run(self) -> str:
        sources = [self._source(name, one) for name, one in self._components("sources")]
        share_standard_input(one for _, one in sources)
        origins = {identifier(name): self.drafts[identifier(name)] for name, _ in self._components("sources")}
        streams = self._components("transforms")
        if len(streams) > MAX_COMPONENTS:
            raise NoCounterpartError(f"{self.file}:1:1: more than {MAX_COMPONENTS} transforms")
        order = self._ordered(dict(streams))
        made = [(name, origins, self._transform(name, one, origins)) for name, one, origins in order]
        sinks = [self._sink(name, one) for name, one in self._components("sinks")]
        for draft in self.drafts.values():
            draft.finish()
            self.report.remarks += [text for text in draft.remarks if text not in self.report.remarks]
        texts = [stream_text(name, f"{name}_entries", draft.steps, []) for name, draft in origins.items() if draft.steps]
        made += self.timed
        texts += [stream_text(n, origins, draft.steps, draft.last_comments) for n, origins, drafts in made for n, draft in drafts]
        head = ["streams:\n"] if texts else []
        shown = [entry_text(f"{name}_entries" if origins[name].steps else name, *one) for name, one in sources]
        return "".join([f"name: {self.name}\n", "sources:\n", *shown, *head, *texts, "sinks:\n", *sinks])

    def _components(self, kind: str) -> list[tuple[str, Mapping[str, Any]]]:
        found = self.root.get(kind)
        items = found.items() if isinstance(found, Mapping) else ()
        return [(str(name), one) for name, one in items if isinstance(one, Mapping)]

    def _steps(self, draft: Draft) -> TranslatedSteps:
        return TranslatedSteps(draft, self.report, self.timezone, self.samples)

    def _location(self, kind: str, name: str) -> str:
        return f"{self.file}: {kind}.{name}"

    def _source(self, name: str, one: Mapping[str, Any]) -> tuple[str, tuple[Options, list[str]]]:
        """Translate a source to its name, options and comments. Steps that read further fields of a journal add them to these."""
        self.report.total += 1
        draft = self.drafts[identifier(name)] = Draft()
        options: Options = {"type": "stdin"}
        try:
            make = SOURCES.get(str(one.get("type")))
            if make is None:
                raise NoCounterpartError("a source that has no counterpart. Standard input is in its place")
            given = GivenOptions(one)
            options = make(given)
            if options["type"] == "journald":
                draft = self.drafts[identifier(name)] = journal_events(given, options)
            self._leave(draft, "source", name, given)
        except NoCounterpartError as error:
            self._steps(draft).leave(self._location("sources", name), f"source {one.get('type')}", str(error))
        comments, draft.last_comments = draft.last_comments, []
        return identifier(name), (options, comments)

    def _leave(self, draft: Draft, kind: str, name: str, given: GivenOptions) -> None:
        """Note the options of a source or sink that are not carried over."""
        left = given.left(WITHOUT_EFFECT)
        draft.last_comments += leave_options(self.report, self._location(f"{kind}s", name), f"{kind} {given['type']}", left)

    def _ordered(self, waiting: dict[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any], list[str]]]:
        """Sort the transforms, each after its inputs: name, options, names of the inputs."""
        found: list[tuple[str, Mapping[str, Any], list[str]]] = []
        known = {*self.drafts}
        while waiting:
            ready = [name for name, one in waiting.items() if all(self._names(text, known, waiting) for text in _inputs(one))]
            for name in ready or list(waiting):
                one = waiting.pop(name)
                origins = [other for text in _inputs(one) for other in self._names(text, known, {})]
                found.append((name, one, origins))
                known |= {identifier(name), *(f"{identifier(name)}_{route}" for route in self._routes(name, one))}
        return found

    def _routes(self, name: str, one: Mapping[str, Any]) -> list[str]:
        """The streams of a route; that of events which take no route only where something reads it."""
        routes = one.get("route")
        if one.get("type") != "route" or not isinstance(routes, Mapping):
            return []
        every = [other for kind in ("transforms", "sinks") for _, other in self._components(kind)]
        is_read = any(fnmatchcase(f"{name}.{UNMATCHED}", text) for other in every for text in _inputs(other))
        return [*map(str, routes), *([UNMATCHED] if is_read else [])]

    def _names(self, text: str, known: set[str], waiting: Mapping[str, Any]) -> list[str]:
        if "*" in text:
            return [] if any(fnmatchcase(name, text) for name in waiting) else [n for n in known if fnmatchcase(n, text)]
        return [identifier(text)] if identifier(text) in known else []

    def _input_draft(self, origins: Sequence[str]) -> Draft:
        drafts = [self.drafts[name] for name in origins if name in self.drafts]
        draft = Draft(merged_types(drafts), [], set())
        draft.types = draft.types or {"message": "string"}
        if len(drafts) == 1:
            draft.members = list(drafts[0].members)
        else:
            draft.origins = drafts
            for name in draft.types:
                for one in drafts:
                    one.field(name)  # a member of an open object is declared
        for one in drafts:
            for name in one.temporary:
                draft.types.pop(name, None)
        draft.certain = set.intersection(*(one.certain for one in drafts)) if drafts else set()
        return draft

    def _transform(self, name: str, one: Mapping[str, Any], origins: list[str]) -> list[tuple[str, Draft]]:
        """The streams of a transform: one, or one for each route."""
        self.report.total += 1
        routes = self._routes(name, one)
        made: list[tuple[str, Draft]] = []
        for route in routes or [""]:
            draft = self._input_draft(origins)
            label = f"transform {one.get('type')}"
            try:
                run = TRANSFORMS.get(str(one.get("type")))
                if run is None:
                    raise NoCounterpartError(NO_COUNTERPART.get(str(one.get("type")), "a transform that is unknown here"))
                run(self._steps(draft), one, route)
            except (NoCounterpartError, RecursionError) as error:
                reason = str(error) if isinstance(error, NoCounterpartError) else "too many operators in a row"
                self._steps(draft).leave(self._location("transforms", name), label, reason)
            stream = f"{identifier(name)}_{identifier(route)}" if route else identifier(name)
            self.drafts[stream] = draft
            made.append((stream, draft))
        if not origins:
            made[0][1].comment("its inputs do not exist")
        return made

    def _sink(self, name: str, one: Mapping[str, Any]) -> str:
        self.report.total += 1
        draft = Draft()
        options: Options = {"type": "discard"}
        origins = [other for text in _inputs(one) for other in self._names(text, {*self.drafts}, {})]
        try:
            if not origins:
                raise NoCounterpartError("none of its inputs exists")
            make = SINKS.get(str(one.get("type")))
            if make is None:
                raise NoCounterpartError("a sink that has no counterpart. Its events are discarded")
            given = GivenOptions(one)
            before = self._input_draft(origins)
            options = existing_fields(make(given), before, given)
            origins = self._timed(identifier(name), before, options, given, origins)
            self._leave(draft, "sink", name, given)
        except NoCounterpartError as error:
            self._steps(draft).leave(self._location("sinks", name), f"sink {one.get('type')}", str(error))
        if not origins:
            return textwrap.indent(comment_lines(draft.last_comments), "  ")
        origin = origins[0] if len(origins) == 1 else origins
        return entry_text(f"{identifier(name)}", {"from": origin, **options}, draft.last_comments)

    def _timed(self, name: str, before: Draft, options: Options, given: GivenOptions, origins: list[str]) -> list[str]:
        """Give a sink the time that it needs, in a stream of its own where a step has to make it; returns its streams."""
        time = "@timestamp" if options.get("data_stream") else options.get("time_field")
        if time is None or before.field(time).type == TIME:
            return origins
        steps: list[dict[str, Any]] = []
        source = "timestamp" if time == "@timestamp" and before.field(time).is_null else time
        if before.field(source).type == TIME:
            steps = [{"type": "rename", "fields": {source: time}}]  # as Vector's sink does
        elif before.field(source).type == TEXT:
            steps = [{"type": "set", "fields": {time: f"try_cast({quoted(source)} as timestamp)"}}]
        elif time == "@timestamp":
            steps = [{"type": "set", "fields": {time: "current_timestamp()"}}]
        else:
            options.pop("time_field")
            _without_time(options, given)
            return origins
        draft = Draft(steps=[DraftStep(step) for step in steps])
        self.timed.append((f"to_{name}", origins, [(f"to_{name}", draft)]))
        return [f"to_{name}"]


def identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _inputs(one: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in as_list(one.get("inputs") or [])]


def _without_time(options: Options, given: GivenOptions) -> None:
    """Remove dates from names of indexes and paths: they need the time of events, which the events do not have."""
    for option in ("index", "path"):
        if option in options:
            given.leave(
                option, f"{options[option]!r} needs the time of events: a step `set` with `timestamp: current_timestamp()`"
            )
            options[option] = re.sub(rf"[-_.]?{DATE}", "", str(options[option]))


UNMATCHED = "_unmatched"
"""The output of a route for events that take none of its routes."""


def _remap(steps: TranslatedSteps, one: Mapping[str, Any], route: str) -> None:
    if "source" not in one:
        raise NoCounterpartError("a program in a file; write it as `source`")
    program = Program(steps, one.get("drop_on_error") is True, one.get("drop_on_abort", True) is not False)
    failures: list[str] = []
    count = 0
    for line, statement in VrlReader(str(one["source"])).statements():
        count += 1
        try:
            if isinstance(statement, NoCounterpartError):
                raise statement
            program.run([statement], None)
        except NoCounterpartError as error:
            reason = f"line {line}: {str(error).removeprefix(f'line {line}: ')}"
            failures.append(reason)
            steps.draft.comment(f"NOT CARRIED OVER: {reason}")
    if failures:
        raise NoCounterpartError(f"{len(failures)} of {count} statements: {'; '.join(failures)}")


def _condition(steps: TranslatedSteps, given: Any) -> Any:
    text = given.get("source") if isinstance(given, Mapping) else given
    if not isinstance(text, str) or (isinstance(given, Mapping) and given.get("type", "vrl") != "vrl"):
        raise NoCounterpartError("a condition that is not in VRL")
    statements = VrlReader(text).program()
    if len(statements) != 1:
        raise NoCounterpartError("a condition of several expressions")
    return Program(steps).condition(statements[0])


def _filter(steps: TranslatedSteps, one: Mapping[str, Any], route: str) -> None:
    where = _condition(steps, one.get("condition"))
    steps.draft.check(where)
    steps.draft.add({"type": "filter", "where": where.sql})


def _route(steps: TranslatedSteps, one: Mapping[str, Any], route: str) -> None:
    if not route:
        raise NoCounterpartError("a route without conditions: `route` names them")
    conditions = list(one["route"].values()) if route == UNMATCHED else [one["route"][route]]
    found = [_condition(steps, condition) for condition in conditions]
    where = negation(reduce(either, found)) if route == UNMATCHED else found[0]
    steps.draft.check(where)
    steps.draft.add({"type": "filter", "where": where.sql})


def _json_parser(steps: TranslatedSteps, one: Mapping[str, Any], route: str) -> None:
    """The parser of JSON that Vector had before `remap`."""
    name, target = clean_name(str(one.get("field", "message"))), one.get("target_field")
    draft = steps.draft
    moved = draft.new_temporary("json")
    draft.set({moved: draft.field(name)})
    if one.get("drop_field", True) is not False:
        draft.drop([name])
    more = {"target_field": clean_name(str(target))} if target else {"add_to_root": True}
    steps.apply("json", {"field": moved, **more, **({} if one.get("drop_invalid") is True else {"ignore_failure": True})}, None)


def _sample(steps: TranslatedSteps, one: Mapping[str, Any], route: str) -> None:
    rate = one.get("rate")
    share = 1 / rate if isinstance(rate, int) and rate > 0 else 0.1
    raise NoCounterpartError(f"{{type: filter, where: rand() < {share:.4f}}} does it, in Spark")


TRANSFORMS: Mapping[str, Callable[[TranslatedSteps, Mapping[str, Any], str], None]] = {
    "json_parser": _json_parser,
    "remap": _remap,
    "filter": _filter,
    "route": _route,
    "sample": _sample,
}
NO_COUNTERPART: Mapping[str, str] = {
    "aggregate": "the step `window`",
    "dedupe": "the step `dedupe`, which needs the field of the time and how long a key is remembered",
    "log_to_metric": "the step `window` counts",
    "lua": "code in Lua; write it as a function in Python, which the step `python` calls",
    "reduce": "the steps `window` and `sequence` put events together",
    "throttle": "the step `throttle`",
}
"""Transforms without a counterpart, and what to do instead."""
