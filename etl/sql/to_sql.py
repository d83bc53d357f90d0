"""The value of a pipeline file → an SQL script that is compiled to the same value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.script import compile_script

Path = tuple[str | int, ...]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
    writer = _Writer(pipeline)
    for _ in range(3):
        text = writer.text()
        compiled = compile_script(text, catalogue)
        others = writer.streams_at(error.at for error in compiled.errors) if compiled.errors else set()
        if not compiled.errors:
            streams = pipeline["streams"]
            others = {name for name in streams if not same(streams[name], compiled.value["streams"].get(name))}
            if not others and same(pipeline, compiled.value):
                return text
        if not others - writer.in_notation:
            break
        writer.in_notation |= others
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


def same(one: Any, other: Any) -> bool:
    """Whether two values say the same to the schema, which converts texts of options to their types."""
    return bool(_plain(one) == _plain(other))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _inputs(one) if key == "from" else _plain(one) for key, one in value.items() if one not in ({}, None)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inputs(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _difference(pipeline: Mapping[str, Any], found: Mapping[str, Any], errors: Sequence[str]) -> NotSqlError:
    """The first part that is another one after all."""
    for name, stream in pipeline["streams"].items():
        other = (found.get("streams") or {}).get(name) or {}
        steps = stream.get("steps") or []
        others = [*(other.get("steps") or []), *[None] * len(steps)]
        for at, step in enumerate(steps):
            if not same(step, others[at]):
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
    """Writes the statements; streams whose steps read as others when they are written as SELECT are written as functions."""

    pipeline: Mapping[str, Any]
    in_notation: set[str] = field(default_factory=set)
    _spans: list[tuple[int, str]] = field(default_factory=list)
    """Characters at which streams begin."""

    def text(self) -> str:
        """The script."""
        for key in self.pipeline:
            if key not in (*_SETTINGS, *_PARTS):
                raise NotSqlError((key,), f"SQL has no words for {key!r}")
        parts = [*self._settings(), *self._functions(), *self._tables()]
        text = "\n\n".join(parts)
        self._spans = []
        for name, stream in self.pipeline["streams"].items():
            text += "\n\n"
            self._spans.append((len(text), name))
            text += self._view(name, stream)
        self._spans.append((len(text), ""))
        inserts = [
            f"INSERT INTO {identifier(name)} SELECT * FROM {identifier(one)};"
            for name, sink in self.pipeline["sinks"].items()
            for one in _inputs(sink.get("from"))
        ]
        return "\n".join([text, "", *inserts, ""])

    def streams_at(self, places: Iterator[int]) -> set[str]:
        """The streams in whose text these characters are."""
        found = set()
        for at in places:
            found |= {name for (first, name), (last, _) in zip(self._spans, self._spans[1:], strict=False) if first <= at < last}
        return found

    def _settings(self) -> Iterator[str]:
        for key in ("name", "description"):
            if key in self.pipeline:
                yield f"SET {_quote('pipeline.name' if key == 'name' else key)} = {_quote(str(self.pipeline[key]))};"
        for name, value in (self.pipeline.get("run") or {}).items():
            yield f"SET {_quote(f'run.{name}')} = {_quote(_text(value))};"
        if letters := self.pipeline.get("dead_letters"):
            yield f"SET 'dead_letters' = {_quote(_text(letters))};"

    def _functions(self) -> Iterator[str]:
        for name, entry in (self.pipeline.get("functions") or {}).items():
            owner = entry.get("file") or entry.get("module")
            more = next((key for key in entry if key not in ("file", "module", "function")), None)
            if more or not owner:
                raise NotSqlError(("functions", name, *([more] if more else [])), f"CREATE FUNCTION has no words for {more!r}")
            target = f"{owner}:{entry['function']}"
            yield f"CREATE FUNCTION {identifier(name)} AS {_quote(target)} LANGUAGE PYTHON;"

    def _tables(self) -> Iterator[str]:
        for key, columns in (("tables", "(PERIOD FOR SYSTEM_TIME) "), ("sources", ""), ("sinks", "")):
            for name, part in (self.pipeline.get(key) or {}).items():
                options = {one: value for one, value in part.items() if key != "sinks" or one != "from"}
                shown = ",\n".join(f"  {_quote(one)} = {_quote(_text(value))}" for one, value in options.items())
                yield f"CREATE TABLE {identifier(name)} {columns}WITH (\n{shown}\n);"

    def _view(self, name: str, stream: Mapping[str, Any]) -> str:
        inputs = _inputs(stream.get("from"))
        if not inputs:
            raise NotSqlError(("streams", name), "the stream does not say from where it reads")
        query = _Query(inputs)
        for at, step in enumerate(stream.get("steps") or []):
            if not isinstance(step, Mapping) or "type" not in step:
                raise NotSqlError(("streams", name, "steps", at), "the step is not a mapping with a type")
            query.add(step, plain=name not in self.in_notation)
        return f"CREATE VIEW {identifier(name)} AS\n{query.select()};"


@dataclass
class _Query:
    """A query that grows step by step."""

    inputs: list[str]
    call: str = ""
    """The call of a step's function; without it rows come from the inputs."""
    inner: str = ""
    """The query whose rows the next one reads."""
    where: str = ""
    items: str = ""

    def add(self, step: Mapping[str, Any], plain: bool) -> None:
        """Add a step, ``plain``: as a clause of SELECT if there is one for it."""
        kind, rest = step["type"], {key: value for key, value in step.items() if key != "type"}
        if plain and kind == "filter" and set(rest) == {"where"}:
            self._wrap(bool(self.where or self.items))
            self.where = str(rest["where"])
        elif plain and kind in ("select", "set") and set(rest) == {"fields"} and rest["fields"]:
            self._wrap(bool(self.items))
            items = [f"  {_item(name, text)}" for name, text in rest["fields"].items()]
            self.items = ",\n".join(["  *", *items] if kind == "set" else items)
        else:
            self._wrap(bool(self.where or self.items))
            options = "".join(f",\n  {_option_name(key)} => {_literal(value)}" for key, value in rest.items())
            self.call = f"{identifier(kind)}({self._as_arguments()}{options})"
            self.inner = ""

    def _wrap(self, is_needed: bool) -> None:
        if is_needed:
            self.inner, self.call, self.where, self.items = self.select(), "", "", ""

    def _as_arguments(self) -> str:
        if self.inner:
            return f"TABLE ({self.inner})"
        return self.call or ", ".join(f"TABLE {identifier(one)}" for one in self.inputs)

    def select(self) -> str:
        """The query."""
        rows = f"({self.inner})" if self.inner else f"TABLE({self.call})" if self.call else ""
        if not rows and len(self.inputs) == 1:
            rows = identifier(self.inputs[0])
        elif not rows:
            rows = "(" + " UNION ALL ".join(f"SELECT * FROM {identifier(one)}" for one in self.inputs) + ")"
        items = f"\n{self.items}\n" if self.items else " * "
        return f"SELECT{items}FROM {rows}" + (f"\nWHERE {self.where}" if self.where else "")


def _item(name: str, text: Any) -> str:
    return str(text) if str(text) == name and _NAME.fullmatch(name) else f"{text} AS {identifier(name)}"


def identifier(name: str) -> str:
    """A name of a table or column as SQL writes it."""
    return name if _NAME.fullmatch(name) and name.lower() not in _WORDS else "`" + name.replace("`", "``") + "`"


_WORDS = frozenset(
    """
    select from where group by order having table view insert into values union all and or not in is
    null case when then else end as on join left right full inner cross lateral with create set limit
    offset distinct between like interval date timestamp current_timestamp current_date current_time row
    rows range over partition window user exists cast true false for time
    """.split()  # noqa: SIM905
)
"""Words that need backticks as names."""


def _quote(text: str) -> str:
    """A text as scripts write it."""
    return "'" + text.replace("'", "''") + "'"


def _option_name(name: str) -> str:
    return name if _NAME.fullmatch(name) else f"`{name}`"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int | float) else _quote(_text(value))


def _text(value: Any) -> str:
    """The text of an option's value: lists and mappings as JSON, which is YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, Mapping | list | tuple) else str(value)
