"""A pipeline while it is imported: its steps so far, and the fields with their types that events have after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from textwrap import shorten
from typing import Any

import pyarrow as pa

from etl.expressions.analysis import analyse
from etl.expressions.quoting import quoted
from etl.migration.values import NOTHING, NULL, Value, as_type, both, choose, common_type, field_value, is_null
from etl.types import parse_type

FIELD_NAME = re.compile(r"[A-Za-z_@][\w@-]*(\.[A-Za-z_@][\w@-]*)*", re.ASCII)

MAX_EXPRESSION = 20_000
"""Characters of the longest expression that an import makes."""


def clean_name(name: str) -> str:
    """A name without the characters that a field's name cannot have, which become ``_``."""
    return ".".join(re.sub(r"^(?=\d)", "_", re.sub(r"[^\w@-]", "_", part, flags=re.ASCII)) for part in name.split("."))


class NoCounterpartError(ValueError):
    """A construct that has no counterpart; the text says why, and what to do."""


_TEMPORARY = re.compile(r"\b_[a-z]+_\d+\b")
"""The name of a temporary field; those that differ in their number only are the same to `_has_errors`."""


@lru_cache(maxsize=2048)
def _has_errors(text: str, fields: tuple[tuple[str, str], ...]) -> bool:
    """Whether an expression is wrong on these fields: a branch of hundreds of blocks has the same few expressions."""
    schema = pa.schema([(name, parse_type(type_)) for name, type_ in fields])
    return any(one.severity == "error" for one in analyse(text, schema).findings)


@dataclass
class DraftStep:
    """A step as the pipeline file has it, with the comment above it."""

    options: dict[str, Any]
    comments: list[str] = field(default_factory=list)


@dataclass
class Members:
    """Declared members of JSON objects or keys of pairs: those that the imported configuration names become fields."""

    prefix: str
    """Of the names of its fields, such as ``elasticsearch.server.``; empty for the event itself."""
    options: dict[str, Any]
    """Options of the step; its ``fields`` are written to."""
    known: Mapping[str, tuple[str, str]]
    """Type and path of the members that a sample has shown, by the name inside the object."""
    renamed: str | None = None
    """Option for the paths of fields whose names are not their paths."""

    declared: frozenset[str] = frozenset()
    """Members that become fields even if nothing names them."""
    own_prefix: str = ""
    """Of the parser's own fields, where ``merged`` is given."""
    merged: dict[str, str] | None = None
    """Expressions by which the fields of a parser replace those of an earlier one under the same prefix."""
    names: re.Pattern[str] | None = None
    """What names of members look like; without it any name is one."""

    def declare(self, name: str) -> str:
        inside = name.removeprefix(self.prefix)
        type_, path = self.known.get(inside, ("string", inside))
        if self.merged is not None:
            own = quoted(self.own_prefix + inside)
            self.options["fields"][self.own_prefix + inside] = type_
            self.merged[name] = f"coalesce({own}, {quoted(name)})"
            return type_
        self.options["fields"][name] = type_
        if self.renamed and path != name:
            self.options.setdefault(self.renamed, {})[name] = path
        return type_


@dataclass
class Draft:
    """Steps and fields of one stream."""

    types: dict[str, str] = field(default_factory=lambda: {"message": "string"})
    steps: list[DraftStep] = field(default_factory=list)
    certain: set[str] = field(default_factory=lambda: {"message"})
    """Fields that are null in no event."""
    temporary: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What a user has to know of the whole."""
    members: list[Members] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    """Code in Python of the functions that steps call, by name."""
    origins: list[Draft] = field(default_factory=list)
    """Drafts of several streams, whose events these steps take."""
    _count: int = 0
    last_comments: list[str] = field(default_factory=list)
    """Comments for the next step, or for the end."""

    def field(self, name: str) -> Value:
        """The value of a field; null if no step before has given it."""
        if name not in self.types:
            self._declare(name)
        return field_value(name, self.types[name]) if name in self.types else NULL

    def under(self, prefix: str) -> list[str]:
        """The known fields of an object."""
        return [name for name in self.types if name.startswith(prefix + ".")]

    def _declare(self, name: str) -> None:
        """Let a parser of open objects give the field, if one of them can have it."""
        if not FIELD_NAME.fullmatch(name) or self.under(name) or name in self.temporary or name.startswith("@metadata."):
            return
        if self.origins:
            self._declare_in_origins(name)
            return
        found: list[Members] = []
        for one in reversed(self.members):
            if one.names is not None and not one.names.fullmatch(name):
                continue
            if name.startswith(one.prefix) and not one.declared and name != one.prefix:
                found.append(one)
                if one.merged is None:
                    break
        for one in reversed(found):
            self.types[name] = one.declare(name)
            if one.merged is not None:
                self.temporary.append(one.own_prefix + name.removeprefix(one.prefix))
                self.types[self.temporary[-1]] = self.types[name]

    def _declare_in_origins(self, name: str) -> None:
        """Let each stream give the field that can, in one type."""
        found = {id(one): one.field(name).type for one in self.origins}
        types = [type_ for type_ in found.values() if type_ != NOTHING]
        if not types:
            return
        self.types[name] = reduce(common_type, types)
        for one in self.origins:
            if found[id(one)] not in (NOTHING, self.types[name]):
                one.set({name: as_type(one.field(name), self.types[name])})

    def comment(self, text: str) -> None:
        """Say something above the next step."""
        self.last_comments.append(text)

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)

    def add(self, options: dict[str, Any], fields: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Add a step that gives fields."""
        for name in fields or {}:
            self._check_name(name)
        self.steps.append(DraftStep(options, self.last_comments))
        self.last_comments = []
        self.types.update(fields or {})
        self.certain -= {*(fields or {})}
        return options

    def set(self, values: Mapping[str, Value]) -> None:
        """Set fields, in the step before where that is a ``set`` whose fields these do not read."""
        values = {name: value for name, value in values.items() if not (value.is_null and name not in self.types)}
        if not values:
            return
        for name, value in values.items():
            self._check_name(name)
            if len(value.sql) > MAX_EXPRESSION:
                raise NoCounterpartError(f"the expression for {name} would have {len(value.sql):,} characters; write it by hand")
            self.check(value)
        reads = {name for value in values.values() for name in value.reads} | {*values}
        last = self.steps[-1] if self.steps else None
        types = {name: "string" if value.is_null else value.type for name, value in values.items()}
        fields = {name: f"cast(null as {self.types[name]})" if one.is_null else one.sql for name, one in values.items()}
        if last and last.options["type"] == "set" and not self.last_comments and not reads & {*last.options["fields"]}:
            last.options["fields"] |= fields
            self.types |= {name: type_ for name, type_ in types.items() if not values[name].is_null}
        else:
            self.add({"type": "set", "fields": fields}, {n: t for n, t in types.items() if not values[n].is_null})
        self.certain -= {*values}

    def check(self, value: Value) -> None:
        """Refuse an expression that is wrong on the fields that there are."""
        known = {name: self.types[name] for name in value.reads if name in self.types}
        short = {name: f"_t{number}" for number, name in enumerate(dict.fromkeys(_TEMPORARY.findall(value.sql))) if name in known}
        text = _TEMPORARY.sub(lambda found: short.get(found[0], found[0]), value.sql)
        if _has_errors(text, tuple(sorted((short.get(name, name), type_) for name, type_ in known.items()))):
            fields = [(name, parse_type(type_)) for name, type_ in sorted(known.items())]
            for one in analyse(value.sql, pa.schema(fields)).findings:
                if one.severity == "error":
                    raise NoCounterpartError(f"as an expression, {shorten(value.sql, 80)}: {one.message}")

    def _check_name(self, name: str) -> None:
        if not FIELD_NAME.fullmatch(name):
            raise NoCounterpartError(
                f"{name!r} cannot be a field's name: letters, digits, '_', '@' and '-', with dots between members"
            )
        if self.under(name):
            raise NoCounterpartError(f"{name} is an object here, because of {self.under(name)[0]}, and cannot be a value as well")
        parts = name.split(".")
        for count in range(1, len(parts)):
            if (stem := ".".join(parts[:count])) in self.types:
                raise NoCounterpartError(f"{stem} is a value here, and cannot be an object with {name} as well")

    def new_temporary(self, stem: str) -> str:
        """A name of a field that is dropped at the end."""
        self._count += 1
        name = f"_{stem}_{self._count}"
        self.temporary.append(name)
        return name

    def keep(self, condition: Value | None, stem: str = "when") -> Value | None:
        """The condition as a field, so that steps which change what it reads do not change it."""
        if condition is None or not condition.reads or condition.sql in self.temporary:
            return condition
        name = self.new_temporary(stem)
        self.set({name: Value(f"coalesce({condition.sql}, false)", "boolean", condition.reads)})
        return field_value(name, "boolean")

    def drop(self, names: Iterable[str], condition: Value | None = None) -> None:
        """Remove fields, or set them to null where the condition is true."""
        names = [name for name in dict.fromkeys(names) if name in self.types]
        if condition is not None and condition.reads:
            self.set({name: choose(condition, NULL, self.field(name)) for name in names})
            return
        if not names:
            return
        last = self.steps[-1] if self.steps else None
        if last and last.options["type"] == "drop" and not self.last_comments:
            last.options["fields"] += names
        else:
            self.add({"type": "drop", "fields": names})
        for name in names:
            del self.types[name]
            self.certain.discard(name)

    def rename(self, names: Mapping[str, str], condition: Value | None = None) -> None:
        """Move fields; one whose new name is taken moves only where that is null, as in the tools that are imported."""
        plain = {old: new for old, new in names.items() if new not in self.types and condition is None}
        if plain:
            last = self.steps[-1] if self.steps else None
            for old, new in plain.items():
                self._check_name_beside(new, old)
            if last and last.options["type"] == "rename" and not self.last_comments and not self._meets(last, plain):
                last.options["fields"] |= plain
            else:
                self.add({"type": "rename", "fields": plain})
            for old, new in plain.items():
                self.types[new] = self.types.pop(old)
                if old in self.certain:
                    self.certain = self.certain - {old} | {new}
        for old, new in names.items():
            if old not in plain:
                self._move(old, new, condition)

    def _check_name_beside(self, new: str, old: str) -> None:
        type_ = self.types.pop(old)
        try:
            self._check_name(new)
        finally:
            self.types[old] = type_

    def _meets(self, last: DraftStep, names: Mapping[str, str]) -> bool:
        """Whether the step before has given a name that is renamed, or taken one that is given."""
        before = {*last.options["fields"], *last.options["fields"].values()}
        return bool(before & {*names, *names.values()})

    def _move(self, old: str, new: str, condition: Value | None) -> None:
        source, target = self.field(old), self.field(new)
        free = None if target.is_null else is_null(target)
        if condition is None and (target.is_null or new in self.temporary):
            self.set({new: source})
            self.drop([old])
            return
        where = both(condition, free)
        moved = choose(where, source, target)
        self.set({new: moved, old: choose(where, NULL, source)})

    def finish(self) -> None:
        """Drop the temporary fields, and parsers of open objects that nothing reads."""
        self._prune()
        remaining_steps: list[DraftStep] = []
        waiting: list[str] = []
        for step in self.steps:
            if step.options.get("fields") == {} and not step.options.get("rest"):
                waiting += step.comments
            else:
                step.comments, waiting = [*waiting, *step.comments], []
                remaining_steps.append(step)
        self.steps, self.last_comments = remaining_steps, [*waiting, *self.last_comments]
        self.drop(self.temporary)

    def _prune(self) -> None:
        """Leave out temporary fields that nothing reads."""
        texts = [str(step.options) for step in self.steps]
        for at in range(len(self.steps) - 1, -1, -1):
            options = self.steps[at].options
            if options["type"] != "set":
                continue
            later = " ".join(texts[at + 1 :])
            unread = [name for name in options["fields"] if name in self.temporary and not re.search(rf"\b{name}\b", later)]
            for name in unread:
                del options["fields"][name]
                self.types.pop(name, None)
                self.temporary.remove(name)
            texts[at] = str(options)
