"""An ingest pipeline → the steps of a stream."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.ingest.field_processors import FIELD_PROCESSORS, NO_COUNTERPART
from etl.migration.ingest.function_processors import ELEMENT_FUNCTIONS, FUNCTION_PROCESSORS
from etl.migration.ingest.loops import foreach
from etl.migration.ingest.options import checked_options, unread_options
from etl.migration.ingest.painless.expressions import Expressions
from etl.migration.ingest.painless.parser import condition_statements, parse_condition
from etl.migration.ingest.painless.python_step import python_condition
from etl.migration.ingest.painless.tree import Call, Return
from etl.migration.ingest.parser_processors import PARSER_PROCESSORS
from etl.migration.ingest.processor import ZONE_FIELD, FailureScope, Processor
from etl.migration.report import ImportReport, OmittedConstruct
from etl.migration.sampling import Member
from etl.migration.values import FALSE, TRUE, Value, both, either, negation, text_value

PROCESSORS: Mapping[str, Callable[[Processor], None]] = {
    **FIELD_PROCESSORS,
    **FUNCTION_PROCESSORS,
    **PARSER_PROCESSORS,
    "foreach": foreach,
}

MAX_DEPTH = 10
"""Pipelines that call each other."""

Locate = Callable[[str, Sequence[str | int]], str]
"""Name of a pipeline and path in it → ``file:line:column``."""


@dataclass
class IngestImport:
    """Imports a pipeline and those that it calls."""

    pipelines: Mapping[str, Mapping[str, Any]]
    locate: Locate
    timezone: str = "${TIMEZONE:-UTC}"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)
    """Members of JSON texts, by the field that holds the text and their names."""
    draft: Draft = field(default_factory=Draft)
    report: ImportReport = field(default_factory=ImportReport)
    _depth: int = 0
    _ended: Value | None = None
    """Where a processor ``terminate`` has ended the pipeline, which those that call it do not notice."""

    def run(self, name: str) -> Draft:
        """The draft with the steps of a pipeline."""
        if sample := self.samples.get("message"):
            self.samples = {**dict.fromkeys(message_names(self.pipelines), sample), **self.samples}
        if prefix := decoded_prefix(self.pipelines, self.samples.get("message", {})):
            self.draft.comment("the shipper has read the line as JSON")
            options = {"field": "message", **({"target_field": prefix} if prefix != "." else {"add_to_root": True})}
            PARSER_PROCESSORS["json"](Processor("json", options, self.draft, None, lambda *_: None, samples=self.samples))
            self.draft.drop(["message"] if "message" not in self.samples["message"] else [])
        self._pipeline(name, None, None)
        self.draft.finish()
        return self.draft

    def _pipeline(self, name: str, where: Value | None, scope: FailureScope | None) -> None:
        if self._depth == MAX_DEPTH:
            raise NoCounterpartError(f"pipelines call each other more than {MAX_DEPTH} deep, at {name}")
        document = self.pipelines[name]
        self._depth += 1
        before, self._ended = self._ended, None
        handlers = _list(document.get("on_failure"))
        own = FailureScope(handlers) if handlers else scope
        self._processors(name, ("processors",), document.get("processors") or [], where, own, {})
        self._ended = before
        if own is not None and own is not scope and own.failed is not None:
            self._processors(name, ("on_failure",), handlers, own.failed, None, own.details)
        self._depth -= 1

    def _processors(
        self,
        pipeline: str,
        path: tuple[str | int, ...],
        processors: Sequence[Any],
        where: Value | None,
        scope: FailureScope | None,
        constants: Mapping[str, Value],
    ) -> None:
        for number, entry in enumerate(processors):
            at = (*path, number)
            self.report.total += not constants
            try:
                name, options = _entry(entry)
                self._processor(pipeline, at, name, options, where, scope, constants)
            except NoCounterpartError as error:
                self._leave(pipeline, at, entry, str(error))
            except RecursionError:
                self._leave(pipeline, at, entry, "too many parentheses or operators inside each other")

    def _leave(self, pipeline: str, at: Sequence[str | int], entry: Any, reason: str) -> None:
        name = next(iter(entry)) if isinstance(entry, dict) and entry else "?"
        shown = f"{_shown(at)}.{name}"
        self.report.left.append(OmittedConstruct(self.locate(pipeline, at), shown, reason))
        self.draft.comment(f"NOT CARRIED OVER: {shown}: {reason}")

    def _processor(
        self,
        pipeline: str,
        at: tuple[str | int, ...],
        name: str,
        options: Mapping[str, Any],
        where: Value | None,
        scope: FailureScope | None,
        constants: Mapping[str, Value],
    ) -> None:
        options = checked_options(options)
        where = both(where, self._condition(options.get("if"), name == "date"))
        if self._ended is not None:
            where = both(where, negation(self._ended))
        if where == FALSE:
            return
        if scope is not None and _gives_fields(name, options, scope):
            where = both(where, scope.going)
        if where is not None and name in ("pipeline", "rename", "remove") and where.reads:
            where = self.draft.keep(where)
        if name == "terminate":
            self._end(where if "if" in options else None)
            return
        if name == "pipeline":
            if options.get("ignore_missing_pipeline") and _called_name(options) not in self.pipelines:
                self.draft.comment(f"the pipeline {_called_name(options)!r} is not among the files, and may be missing there")
                return
            self._call(options, where, scope)
            return
        run = PROCESSORS.get(name)
        if run is None:
            raise NoCounterpartError(NO_COUNTERPART.get(name, "a processor that is unknown here"))

        def further(processors: Sequence[Any], condition: Value | None, values: Mapping[str, Value]) -> None:
            self._processors(pipeline, (*at, name, "on_failure"), processors, condition, scope, values)

        def leave_option(option: str, reason: str) -> None:
            self._leave_option(pipeline, at, name, option, reason, not constants)

        for option in unread_options(name, options):
            leave_option(option, _UNREAD)
        run(
            Processor(
                name,
                options,
                self.draft,
                where,
                further,
                scope,
                constants,
                self.timezone,
                self.samples,
                dotted_names(self.pipelines),
                mentioned_names(self.pipelines),
                pipeline,
                leave_option,
            )
        )

    def _end(self, where: Value | None) -> None:
        """No further processor of the pipeline runs for the events with this condition."""
        ended = self.draft.keep(where, "ended") or TRUE
        self._ended = ended if self._ended is None else self.draft.keep(either(self._ended, ended), "ended")

    def _leave_option(
        self, pipeline: str, at: tuple[str | int, ...], name: str, option: str, reason: str, is_counted: bool
    ) -> None:
        self.report.total += is_counted
        shown = f"{_shown(at)}.{name}.{option}"
        self.report.left.append(OmittedConstruct(self.locate(pipeline, (*at, name, option)), shown, reason))
        self.draft.comment(f"NOT CARRIED OVER: {shown}: {reason}")

    def _call(self, options: Mapping[str, Any], where: Value | None, scope: FailureScope | None) -> None:
        """Import a pipeline that another calls; what fails in it fails in the caller, if it has no ``on_failure``."""
        own = _list(options.get("on_failure"))
        inner = FailureScope(own) if own or options.get("ignore_failure") else scope
        name = self._called(options)
        self._pipeline(name, where, inner)
        if inner is not None and inner is not scope and inner.failed is not None and own:
            self._processors(name, ("on_failure",), own, inner.failed, scope, inner.details)

    def _called(self, options: Mapping[str, Any]) -> str:
        name = _called_name(options)
        if name not in self.pipelines:
            others = ", ".join(self.pipelines)
            raise NoCounterpartError(f"the pipeline {name!r} is not among those that were given: {others}")
        return name

    def _condition(self, text: Any, knows_zone: bool) -> Value | None:
        """Where a processor runs. The zone that shippers note counts as known: the pipeline has it as an option."""
        if text is None:
            return None
        if isinstance(text, bool):
            return TRUE if text else FALSE
        if isinstance(text, dict):
            text = text.get("source", "")
        evaluator = Expressions(self.draft)
        if knows_zone and ZONE_FIELD not in self.draft.types:
            evaluator.fields[ZONE_FIELD] = text_value(self.timezone)
        try:
            return evaluator.condition(parse_condition(str(text)))
        except NoCounterpartError as error:
            return self._condition_in_python(str(text), error)

    def _condition_in_python(self, text: str, reason: NoCounterpartError) -> Value:
        """A condition that is more than an expression. Raises the reason if that fails too."""
        statements = condition_statements(text)
        if len(statements) == 1 and isinstance(call := statements[0], Call):
            statements = (Return(call.call),)
        try:
            return python_condition(self.draft, statements)
        except NoCounterpartError as error:
            raise (reason if str(error) == str(reason) else NoCounterpartError(f"{reason}; and not as Python: {error}")) from None


_CHANGES = frozenset(["rename", "remove", *ELEMENT_FUNCTIONS, "convert", "split", "join", "sort", "foreach", "dot_expander"])
"""Processors that change fields which are there: after a failure they may run, since they find nothing that is new."""


def _gives_fields(name: str, options: Mapping[str, Any], scope: FailureScope) -> bool:
    """Whether a processor could give an event fields for which another has failed before."""
    if name in PARSER_PROCESSORS:
        return clean_name(str(options.get("field", ""))) in scope.known
    return name not in _CHANGES


_UNREAD = "an option without a counterpart; the processor does its work without it"


def _shown(at: Sequence[str | int]) -> str:
    """A path of processors as reports show it."""
    return f"{at[0]}[{'].['.join(str(one) for one in at[1:])}]"


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _entry(entry: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(entry, dict) or len(entry) != 1:
        raise NoCounterpartError("a processor is a mapping with one key, its name")
    ((name, options),) = entry.items()
    return str(name), options if isinstance(options, dict) else {}


def entries(value: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """Options of all processors of a name, at any depth."""
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if key == name and isinstance(inside, Mapping):
                yield inside
            yield from entries(inside, name)
    elif isinstance(value, list):
        for one in value:
            yield from entries(one, name)


def called_names(pipeline: Mapping[str, Any]) -> list[str]:
    """The pipelines that a pipeline calls."""
    return [_called_name(one) for one in entries(dict(pipeline), "pipeline")]


def _called_name(options: Mapping[str, Any]) -> str:
    """The name of a call; Beats writes it as a template."""
    text = str(options.get("name", ""))
    found = re.search(r'IngestPipeline\s+"([^"]+)"', text)
    return found[1] if found else text


def dotted_names(pipelines: Mapping[str, Any]) -> frozenset[str]:
    """The members with dots in their names that ``dot_expander`` names."""
    found = (
        f"{one['path']}.{one.get('field')}" if "path" in one else str(one.get("field"))
        for one in entries(dict(pipelines), "dot_expander")
    )
    return frozenset(found)


def mentioned_names(pipelines: Mapping[str, Any]) -> frozenset[str]:
    """The dotted names in the options and scripts of processors."""
    found = re.findall(r"[A-Za-z_@][\w@-]*(?:\??\.[A-Za-z_@][\w@-]*)+", json.dumps(dict(pipelines), default=str))
    return frozenset(name.replace("?", "").removeprefix("ctx.") for name in found)


def message_names(pipelines: Mapping[str, Any]) -> frozenset[str]:
    """The fields that hold the whole line: ``message``, and those to which a processor moves or copies it."""
    moved = (one.get("target_field") for one in entries(dict(pipelines), "rename") if one.get("field") == "message")
    copied = (
        one.get("field")
        for one in entries(dict(pipelines), "set")
        if one.get("copy_from") == "message" or re.fullmatch(r"\{{2,3}\s*message\s*\}{2,3}", str(one.get("value", "")))
    )
    return frozenset(["message", *(str(name) for name in (*moved, *copied) if name)])


def decoded_prefix(pipelines: Mapping[str, Any], sample: Mapping[str, Member]) -> str | None:
    """The object that a shipper has put the members of JSON lines into, if the sample has such and no processor reads them.

    It is ``json`` where fields are named so, as Filebeat does by itself, else the object under which most members are named.
    """
    texts = message_names(pipelines)
    if not sample or any(one.get("field") in texts for one in entries(dict(pipelines), "json")):
        return None
    names = mentioned_names(pipelines)
    if any(name.startswith("json.") for name in names):
        return "json"
    tops = {name.split(".")[0] for name in sample}
    counts = Counter(stem for name in names for stem, member in _splits(name) if member in tops)
    best = counts.most_common(1)
    return best[0][0] if best and best[0][1] >= 3 else None


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """``a.b.c`` as (a, b) and (a.b, c)."""
    parts = name.split(".")
    for count in range(1, len(parts)):
        yield ".".join(parts[:count]), parts[count]
