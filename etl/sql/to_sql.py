"""The value of a pipeline file → an SQL script that is compiled to the same value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.forms.join_queries import side_times
from etl.sql.forms.literals import identifier, option_text, quoted_value
from etl.sql.forms.match_queries import count_matched
from etl.sql.forms.query_writer import CLAUSES, FUNCTIONS, QUERIES, Query, QueryStyle
from etl.sql.forms.same_pipelines import same
from etl.sql.forms.step_queries import Step, comments_on, has_watermark, watermark_of
from etl.sql.script import compile_script

Path = tuple[str | int, ...]
_SETTINGS = ("name", "description", "run", "dead_letters")
_PARTS = ("functions", "sources", "streams", "sinks", "tables")


class NotSqlError(ValueError):
    """A part of the pipeline that SQL has no words for; ``path`` is its path in the long form."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def to_script(value: Mapping[str, Any], catalogue: Catalogue) -> str:
    """The script. Raises NotSqlError."""
    pipeline = long_form(value)
    try:
        return _written(_Writer(pipeline, catalogue, QUERIES), catalogue)
    except NotSqlError:
        return _written(_Writer(pipeline, catalogue, CLAUSES), catalogue)


def _written(writer: _Writer, catalogue: Catalogue) -> str:
    """The script that is compiled to the pipeline: with fewer queries in place of functions as long as it is another one."""
    pipeline, streams = writer.pipeline, writer.pipeline["streams"]
    while True:
        text = writer.text()
        compiled = compile_script(text, catalogue)
        others = writer.streams_at(error.at for error in compiled.errors) if compiled.errors else set()
        if not compiled.errors:
            others = {name for name in streams if not same(streams[name], compiled.value["streams"].get(name))}
            if not others and same(pipeline, compiled.value):
                return text
        if not writer.lower(others):
            raise _difference(pipeline, compiled.value, [str(error) for error in compiled.errors])


def long_form(value: Mapping[str, Any]) -> dict[str, Any]:
    """The value with `sources`, `streams` and `sinks`, whose names differ."""
    found = {key: part for key, part in value.items() if key not in ("source", "steps", "sink")}
    if found.get("functions"):
        found["functions"] = {name: {"function": name, **entry} for name, entry in found["functions"].items()}
    if "source" in value:
        steps = value.get("steps") or []
        found["sources"] = {"main": value["source"]}
        found["streams"] = {"steps": {"from": "main", "steps": steps}} if steps else {}
        sink = value.get("sink", {"type": "console"})
        found["sinks"] = {"result": {"from": "steps" if steps else "main", **sink}}
    for key in ("sources", "streams", "sinks"):
        found[key] = dict(found.get(key) or {})
    taken = {str(name).lower() for key in ("sources", "streams", "tables") for name in found.get(key) or {}}
    found["sinks"] = {_free(str(name), taken): sink for name, sink in found["sinks"].items()}
    return found


def _free(name: str, taken: set[str]) -> str:
    while name.lower() in taken:
        name += "_sink"
    taken.add(name.lower())
    return name


def _inputs(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _difference(pipeline: Mapping[str, Any], found: Mapping[str, Any], errors: Sequence[str]) -> NotSqlError:
    """The first part that is another one after all."""
    for name, stream in pipeline["streams"].items():
        other = (found.get("streams") or {}).get(name) or {}
        steps = stream.get("steps") or []
        others = [*(other.get("steps") or []), *[None] * len(steps)]
        for at, step in enumerate(steps):
            if not same({"steps": [step]}, {"steps": [others[at]]}):
                return NotSqlError(("streams", name, "steps", at), f"SQL cannot say this step {step.get('type')!r}")
        if not same(stream, other):
            return NotSqlError(("streams", name), "SQL cannot say this stream: it has no steps, or no sink reads it")
    for key in pipeline:
        for name, part in pipeline[key].items() if isinstance(pipeline[key], Mapping) else ():
            if not same(part, (found.get(key) or {}).get(name)):
                return NotSqlError((key, name), f"SQL cannot say this part of {key}{': ' + errors[0] if errors else ''}")
    return NotSqlError((), f"SQL cannot say this pipeline{': ' + errors[0] if errors else ''}")


@dataclass
class _Writer:
    """Writes the statements; streams whose steps read as others when they are written as queries are written as functions."""

    pipeline: Mapping[str, Any]
    catalogue: Catalogue
    default_style: QueryStyle
    """How much of a stream is written as queries."""
    _styles: dict[str, QueryStyle] = field(default_factory=dict)
    """The same of streams for which that is too much."""
    _spans: list[tuple[int, str]] = field(default_factory=list)
    """Characters at which streams begin."""
    _marks: dict[str, Step] = field(default_factory=dict)
    """Source → the step that says what its watermark is."""
    _marked: set[str] = field(default_factory=set)
    """Sources whose watermark a query needs."""
    _has_queries: bool = False

    def text(self) -> str:
        """The script."""
        for key in self.pipeline:
            if key not in (*_SETTINGS, *_PARTS):
                raise NotSqlError((key,), f"SQL has no words for {key!r}")
        self._has_queries, self._marked, self._marks = False, set(), self._watermarks()
        views: dict[str, str] = {}
        for name, stream in self.pipeline["streams"].items():
            views[name] = self._view(name, stream, list(views.values()))
        text, self._spans = self._head(self._marked), []
        for name, view in views.items():
            text += "\n\n"
            self._spans.append((len(text), name))
            text += view
        self._spans.append((len(text), ""))
        inserts = [
            f"INSERT INTO {identifier(name)} SELECT * FROM {identifier(one)};"
            for name, sink in self.pipeline["sinks"].items()
            for one in _inputs(sink.get("from"))
        ]
        return "\n".join([text, "", *inserts, ""])

    def lower(self, names: Iterable[str]) -> bool:
        """Write fewer queries in these streams; whether that is possible in one of them."""
        styles = {name: self._style(name) for name in names}
        self._styles |= {name: QueryStyle(max(style - 1, FUNCTIONS)) for name, style in styles.items()}
        return any(style > FUNCTIONS for style in styles.values())

    def _style(self, name: str) -> QueryStyle:
        return self._styles.get(name, self.default_style)

    def _head(self, marked: Iterable[str]) -> str:
        return "\n\n".join([*self._settings(), *self._functions(), *self._tables(marked)])

    def streams_at(self, characters: Iterator[int]) -> set[str]:
        """The streams in whose text these characters are."""
        found = set()
        for at in characters:
            found |= {name for (first, name), (last, _) in zip(self._spans, self._spans[1:], strict=False) if first <= at < last}
        return found

    def _settings(self) -> Iterator[str]:
        for key in ("name", "description"):
            if key in self.pipeline:
                yield f"SET {quoted_value('pipeline.name' if key == 'name' else key)} = {quoted_value(str(self.pipeline[key]))};"
        for name, value in (self.pipeline.get("run") or {}).items():
            yield f"SET {quoted_value(f'run.{name}')} = {quoted_value(option_text(value))};"
        if letters := self.pipeline.get("dead_letters"):
            yield f"SET 'dead_letters' = {quoted_value(option_text(letters))};"

    def _functions(self) -> Iterator[str]:
        for name, entry in (self.pipeline.get("functions") or {}).items():
            owner = entry.get("file") or entry.get("module")
            more = next((key for key in entry if key not in ("file", "module", "function")), None)
            if more or not owner:
                raise NotSqlError(("functions", name, *([more] if more else [])), f"CREATE FUNCTION has no words for {more!r}")
            target = f"{owner}:{entry['function']}"
            yield f"CREATE FUNCTION {identifier(name)} AS {quoted_value(target)} LANGUAGE PYTHON;"

    def _tables(self, marked: Iterable[str]) -> Iterator[str]:
        for key in ("tables", "sources", "sinks"):
            for name, part in (self.pipeline.get(key) or {}).items():
                columns = "(PERIOD FOR SYSTEM_TIME) " if key == "tables" else ""
                if key == "sources" and name in marked:
                    columns = f"({watermark_of(self._marks[name])}) "
                given = {one: value for one, value in part.items() if key != "sinks" or one != "from"}
                shown = ",\n".join(f"  {quoted_value(one)} = {quoted_value(option_text(value))}" for one, value in given.items())
                yield f"CREATE TABLE {identifier(name)} {columns}WITH (\n{shown}\n);"

    def _watermarks(self) -> dict[str, Step]:
        """Source → the first step that goes by a time of its events and that a query can say."""
        found: dict[str, Step] = {}
        for name, stream in self.pipeline["streams"].items():
            for step in stream.get("steps") or []:
                if not isinstance(step, Mapping) or not has_watermark(step):
                    continue
                inputs = _inputs(stream.get("from"))
                times = side_times(step, inputs) or dict.fromkeys([name], step["time"])
                for one, time in times.items():
                    for source in self._sources(one):
                        found.setdefault(source, {**step, "time": time})
        return found

    def _sources(self, name: str, visited: frozenset[str] = frozenset()) -> frozenset[str]:
        """The sources whose events a stream reads."""
        if name in self.pipeline["sources"]:
            return frozenset({name})
        inputs = _inputs((self.pipeline["streams"].get(name) or {}).get("from")) if name not in visited else []
        return frozenset().union(*(self._sources(one, visited | {name}) for one in inputs))

    def _view(self, name: str, stream: Mapping[str, Any], before: Sequence[str]) -> str:
        inputs, steps = _inputs(stream.get("from")), stream.get("steps") or []
        if not inputs:
            raise NotSqlError(("streams", name), "the stream does not say from where it reads")
        query = Query(inputs)
        at, comments = 0, []
        while at < len(steps):
            if not isinstance(steps[at], Mapping) or "type" not in steps[at]:
                raise NotSqlError(("streams", name, "steps", at), "the step is not a mapping with a type")
            if (count := count_matched(steps[at:])) and (
                matched := self._matched(query, name, steps[: at + count], before, count)
            ):
                query, at = matched, at + count
                continue
            at += 1
            query = self._extended(query, name, steps[:at], before)
            if query.is_call_of(steps[at - 1]):
                comments += comments_on(steps[at - 1])
        return "".join(f"-- {comment}\n" for comment in dict.fromkeys(comments)) + _statement(name, query)

    def _matched(self, query: Query, name: str, steps: Sequence[Step], before: Sequence[str], count: int) -> Query | None:
        """The query with the last ``count`` steps as MATCH_RECOGNIZE; None if that does not say the same."""
        matched = query.matched(steps[-count:]) if self._style(name) == QUERIES else None
        if matched is None or not self._is_same(matched, name, steps, before):
            return None
        self._note_query(name)
        return matched

    def _note_query(self, name: str) -> None:
        """Note that a stream has a query that uses the watermarks of its sources."""
        self._has_queries = True
        self._marked |= self._sources(name) & self._marks.keys()

    def _extended(self, query: Query, name: str, steps: Sequence[Step], before: Sequence[str]) -> Query:
        """The query with the last one of the steps: in the style that most looks like SQL and says it."""
        for style in range(self._style(name), FUNCTIONS, -1):
            extended = query.extended(steps[-1], QueryStyle(style), self._table_keys(steps[-1]))
            if extended is None:
                continue
            if style < QUERIES and not self._has_queries:
                return extended  # the whole script is compared
            if self._is_same(extended, name, steps, before):
                if style == QUERIES and has_watermark(steps[-1]):
                    self._note_query(name)
                self._has_queries |= style == QUERIES
                return extended
        return query.with_function(steps[-1])

    def _table_keys(self, step: Step) -> list[str]:
        """The keys of the table of a look-up."""
        table = (self.pipeline.get("tables") or {}).get(step.get("table"))
        return _inputs(table.get("key")) if isinstance(table, Mapping) else []

    def _is_same(self, query: Query, name: str, steps: Sequence[Step], before: Sequence[str]) -> bool:
        """Whether the view with this query is compiled to these steps, after the views before it."""
        statements = [self._head(self._marks), *before, _statement(name, query), f"SELECT * FROM {identifier(name)};"]
        compiled = compile_script("\n\n".join(statements), self.catalogue)
        found = compiled.value["streams"].get(name)
        return not compiled.errors and found is not None and same({"steps": list(steps)}, {"steps": found["steps"]})


def _statement(name: str, query: Query) -> str:
    return f"CREATE VIEW {identifier(name)} AS\n{query.select()};"
