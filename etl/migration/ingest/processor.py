"""A processor of an ingest pipeline while it is imported: its options, its condition, and the processors for failures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from etl.api import Parser
from etl.catalogue import installed
from etl.migration.captures import rename_in_pattern
from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.ingest.templates import template_value
from etl.migration.sampling import Member
from etl.migration.values import (
    FALSE,
    NULL,
    TEXT,
    TRUE,
    TRUTH,
    Value,
    array_of,
    as_type,
    both,
    call,
    choose,
    constant,
    either,
    field_value,
    is_null,
    negation,
    text_value,
)
from etl.types import format_type

ZONE_FIELD = "event.timezone"
"""Where shippers note the zone of their host; the pipeline has one zone for all events."""

FAILURE = "_ingest.on_failure_message"

RunProcessors = Callable[[Sequence[Any], "Value | None", Mapping[str, Value]], None]


_FAILURES = {
    "grok": ("Provided Grok expressions do not match field value: [", "]"),
    "dissect": ("Unable to find match for dissect pattern: {pattern} against source: ", ""),
    "date": ("unable to parse date [", "]"),
    "convert": ("unable to convert [", "] to {type}"),
}
"""What Elasticsearch's messages have before and after the text that a processor could not read."""


@dataclass
class FailureScope:
    """A pipeline with ``on_failure``: where a processor has failed, later ones give nothing, and the handlers run at its end."""

    handlers: Sequence[Any]
    failed: Value | None = None
    """Where a processor has failed; None: no processor can have."""
    details: dict[str, Value] = field(default_factory=dict)
    """What templates of handlers can name: message, processor, tag and pipeline of the first failure."""
    known: frozenset[str] = frozenset()
    """The fields before the first processor that can fail."""

    @property
    def going(self) -> Value | None:
        """Where no processor has failed; None: everywhere."""
        return None if self.failed is None else Value(f"not {self.failed.sql}", TRUTH, self.failed.reads)

    def record(self, draft: Draft, where: Value, details: Mapping[str, Value], known: frozenset[str]) -> None:
        """Note where a processor fails, for events for which none before has. ``known``: the fields before it."""
        failing = draft.keep(where, "failed")
        assert failing is not None
        if self.failed is None:
            self.failed, self.known = failing, known
            self.details = {key: self._keep(draft, value, failing) for key, value in details.items()}
            return
        first = both(failing, self.going)
        for key, value in details.items():
            if value != self.details[key]:
                self.details[key] = self._keep(draft, choose(first, value, self.details[key]), TRUE)
        name = self.failed.sql if self.failed.sql.startswith("_failed_") else draft.new_temporary("failed")
        draft.set({name: either(self.failed, failing)})
        self.failed = field_value(name, TRUTH)

    @staticmethod
    def _keep(draft: Draft, value: Value, where: Value) -> Value:
        """The value as it is now."""
        if not value.reads:
            return value
        name = draft.new_temporary("failure")
        draft.set({name: choose(where, value, NULL)})
        return draft.field(name)


@dataclass
class Processor:
    """A processor of an ingest pipeline, with the draft that it adds steps to."""

    name: str
    options: Mapping[str, Any]
    draft: Draft
    where: Value | None
    """The condition of the events for which it runs; None: all events."""
    run: RunProcessors
    """Imports the processors of its ``on_failure``."""
    scope: FailureScope | None = None
    """Where it fails if it has no ``on_failure``; None: the event is a dead letter."""
    constants: Mapping[str, Value] = field(default_factory=dict)
    timezone: str = "UTC"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)
    """Members of JSON texts, by field and name."""
    dotted: frozenset[str] = frozenset()
    """Members whose names have dots, as ``dot_expander`` says."""
    named: frozenset[str] = frozenset()
    """Names of fields that any processor mentions."""
    pipeline: str = ""
    """The name of the pipeline that has it."""
    leave_option: Callable[[str, str], None] = lambda option, reason: None
    """Reports an option that is not carried over, with the reason."""

    def __post_init__(self) -> None:
        self._known = frozenset(self.draft.types)

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)

    def need(self, name: str) -> Any:
        if name not in self.options:
            raise NoCounterpartError(f"the option {name!r} is missing")
        return self.options[name]

    def field_name(self, name: str = "field") -> str:
        return static_name(self.need(name))

    @property
    def target(self) -> str:
        return static_name(self.option("target_field") or self.need("field"))

    @property
    def is_fatal(self) -> bool:
        """Whether the event is a dead letter where it fails."""
        return not self.option("ignore_failure") and not self.option("on_failure") and self.scope is None

    def template(self, value: Any) -> Value:
        """The value of an option: a template, another scalar or a list of them."""
        if isinstance(value, list):
            return array_of([self.template(one) for one in value])
        constants = {"_ingest.pipeline": text_value(self.pipeline), **self.constants}
        return template_value(value, self.draft, constants) if isinstance(value, str) else constant(value)

    def set(self, name: str, value: Value) -> None:
        """Set a field where the processor runs."""
        self.draft.set({name: choose(self.where, value, self.draft.field(name) if self.where is not None else value)})

    def source(self) -> Value | None:
        """The field that the processor reads; None if no step before it gives the field, so that no step is written."""
        name = self.field_name()
        value = self.draft.field(name)
        if not value.is_null:
            return value
        if self.draft.under(name):
            raise NoCounterpartError(f"{name} is an object, and {self.name} reads a value")
        if not self.option("ignore_missing") and self.is_fatal:
            self.draft.comment(f"{self.name}: no step before gives {name}")
        return None

    def _failure(self, text: Value | None) -> Value:
        """The message of a failure, in Elasticsearch's words where they are known. ``text``: what the processor has read."""
        if self.name == "fail":
            return as_type(self.template(self.options.get("message", "fail")), TEXT)
        begin, end = _FAILURES.get(self.name, ("", ""))
        if begin and text is not None and not text.is_null:
            end = end.format(**{"type": "", **self.options})
            parts = [text_value(begin.format(**{"pattern": "", **self.options})), as_type(text, TEXT), text_value(end)]
            return call("concat", parts if end else parts[:2], TEXT)
        return text_value(
            f"{self.name}: {self.field_name()} does not fit" if "field" in self.options else f"{self.name}: it failed"
        )

    def failed(self, condition: Value, text: Value | None = None) -> None:
        """Import the processors that run for events for which the processor fails, which are those with this condition."""
        where = both(self.where, condition)
        if where == FALSE:
            return
        handlers = self.option("on_failure")
        if not handlers and (self.option("ignore_failure") or self.scope is None):
            return
        details = {
            FAILURE: self._failure(text),
            "_ingest.on_failure_processor_type": text_value(self.name),
            "_ingest.on_failure_processor_tag": text_value(str(self.option("tag", ""))),
            "_ingest.on_failure_pipeline": text_value(self.pipeline),
        }
        if handlers:
            self.run(handlers, self.draft.keep(where, "failed"), {**self.constants, **details})
        elif self.scope is not None:
            self.scope.record(self.draft, where or TRUE, details, self._known)

    def parse(
        self,
        type_: str,
        options: Mapping[str, Any],
        *,
        more: Mapping[str, str] | None = None,
        keeps: bool = True,
        empty: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Add a parser of the field. Where it fails, fields that earlier steps have given keep their values.

        ``more``: options with names of fields that it gives, such as ``target``. ``keeps``: the parsed field is kept. ``empty``:
        fields that are an empty text instead of null where the parser succeeds, or where one of the fields of their lists has a
        value. Raises NoCounterpartError for options that the parser does not accept.
        """
        name, empty = self.field_name(), empty or {}
        source = self.source()
        if source is None:
            self.failed(FALSE if self.option("ignore_missing") else TRUE)
            return
        chosen = {**options, **(more or {})}
        given = parsed_fields(type_, {"field": name, **chosen})
        taken = [one for one in given if one in self.draft.types]
        direct = self.where is None and self.is_fatal and not taken and source.type == TEXT
        if direct and (name in self.draft.certain or not self.option("ignore_missing")):
            self.draft.add({"type": type_, "field": name, **chosen, **({"keep_field": True} if keeps else {})}, given)
            self._take_first(given)
            self.draft.set({one: _filled(field_value(one, TEXT), marks, None) for one, marks in empty.items() if one in given})
            return
        text = self.draft.new_temporary("text")
        self.draft.set({text: choose(self.where, as_type(source, TEXT), Value("cast(null as string)", TEXT))})
        renamed = self._new_names(type_, chosen, given)
        chosen = rename_captures(type_, {**options, **(more or {})}, renamed)
        types = {renamed.get(one, one): kind for one, kind in given.items()}
        self.draft.add({"type": type_, "field": text, **chosen, "on_error": "keep"}, types)
        types |= self._take_first(types)
        merged: dict[str, Value] = {}
        parsed = both(self.where, both(negation(is_null(source)), is_null(field_value(text, TEXT))))
        for one in empty.keys() & given.keys():
            new = renamed.get(one, one)
            self.draft.set({new: _filled(field_value(new, TEXT), empty[one], parsed)})
        for one, new in renamed.items():
            value = field_value(new, types[new])
            merged[one] = choose(negation(is_null(value)), value, self.draft.field(one))
        self.draft.set(merged)
        self.failed(negation(is_null(field_value(text, TEXT))), field_value(text, TEXT))

    def _take_first(self, types: Mapping[str, str]) -> Mapping[str, str]:
        """Replace fields that a pattern captures several times by their first capture; returns the types of these fields."""
        values = {name: _first(self.draft.field(name)) for name, type_ in types.items() if type_.startswith("array<")}
        self.draft.set(values)
        return {name: value.type for name, value in values.items()}

    def _new_names(self, type_: str, options: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
        """Temporary names for fields that earlier steps have given; for all fields of `url`, which have one prefix."""
        taken = [one for one in given if one in self.draft.types]
        if type_ != "url" or not taken:
            return {one: self.draft.new_temporary("found") for one in taken}
        stem = self.draft.new_temporary("found")
        self.draft.temporary.pop()
        names = {one: stem + one.removeprefix(options["target"]) for one in given}
        self.draft.temporary += names.values()
        return names


def _filled(value: Value, marks: Sequence[str], parsed: Value | None) -> Value:
    """The value, or an empty text where it is null and one of the fields ``marks`` is not, or else where the text is parsed."""
    where = parsed
    if marks:
        where = reduce(either, (negation(is_null(field_value(name, TEXT))) for name in marks))
    if where is None:
        return Value(f"coalesce({value.sql}, '')", TEXT, value.reads)
    return choose(both(where, is_null(value)), text_value(""), value)


def _first(value: Value) -> Value:
    return Value(f"get({value.sql}, 0)", value.type[6:-1], value.reads)


def static_name(value: Any) -> str:
    """A field's name in an option, without the prefixes ``_source.`` and ``ctx.``."""
    if not isinstance(value, str):
        raise NoCounterpartError(f"{value!r} is not the name of one field")
    if "{{" in value:
        raise NoCounterpartError(f"a field whose name is a template, {value}: a schema here is known before the run")
    return clean_name(value.removeprefix("_source.").removeprefix("ctx."))


def as_list(value: Any) -> list[Any]:
    """An option that is a value or a list of them."""
    return value if isinstance(value, list) else [value]


def parsed_fields(type_: str, options: Mapping[str, Any]) -> Mapping[str, str]:
    """The fields that a parser gives, with their types; options with variables of the environment are ignored."""
    parser = build_parser(type_, {name: value for name, value in options.items() if "${" not in str(value)})
    return {one.name: format_type(one.type) for one in parser.parsed_fields()}


def build_parser(type_: str, options: Mapping[str, Any]) -> Parser:
    """The parser with these options. Raises NoCounterpartError with their first problem."""
    try:
        text = json.dumps(dict(options))
    except TypeError:  # a time of YAML
        return _checked_parser(type_, options)
    return _cached_parser(type_, text)


def unchecked_parser(type_: str, options: Mapping[str, Any]) -> Parser:
    """The parser with these options, whose patterns may be wrong. Raises ValueError for options that it does not have."""
    parser = installed().families["step"][type_].model_validate({"type": type_, **options})
    assert isinstance(parser, Parser)
    return parser


@lru_cache(maxsize=256)
def _cached_parser(type_: str, options: str) -> Parser:
    """The parser with options in JSON: it is asked for several times."""
    return _checked_parser(type_, json.loads(options))


def _checked_parser(type_: str, options: Mapping[str, Any]) -> Parser:
    try:
        parser = unchecked_parser(type_, options)
        flaws = [one.message for one in parser.check(pa.schema([(parser.field, pa.string())])) if one.severity == "error"]
    except ValidationError as error:
        raise NoCounterpartError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    except ValueError as error:
        raise NoCounterpartError(str(error)) from None
    if flaws:
        raise NoCounterpartError(flaws[0])
    return parser


def rename_captures(type_: str, options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The options of a parser with other names for the fields that it gives: ``names`` is old → new."""
    if not names:
        return dict(options)
    if type_ == "grok":
        definitions = {name: rename_in_pattern(text, names) for name, text in options.get("pattern_definitions", {}).items()}
        patterns = [rename_in_pattern(text, names) for text in options["patterns"]]
        return {**options, "patterns": patterns, **({"pattern_definitions": definitions} if definitions else {})}
    if type_ == "dissect":
        return {**options, "pattern": rename_in_dissect(options["pattern"], names)}
    if type_ == "url":
        return {**options, "target": next(iter(names.values())).split(".")[0]}
    if "target" in options and options["target"] in names:
        return {**options, "target": names[options["target"]]}
    if "fields" in options and isinstance(options["fields"], Mapping):
        paths = options.get("paths", {})
        fields = {names.get(name, name): kind for name, kind in options["fields"].items()}
        return {**options, "fields": fields, "paths": {names.get(n, n): paths.get(n, n) for n in options["fields"]}}
    raise NoCounterpartError(f"{type_} gives {next(iter(names))}, which another step has given before; rename that first")


def rename_in_dissect(pattern: str, names: Mapping[str, str]) -> str:
    return re.sub(r"(%\{[+*&?]?)([\w.@-]+)", lambda found: found[1] + names.get(found[2], found[2]), pattern)
