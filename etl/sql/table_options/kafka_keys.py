"""Flink's options of keys and values of messages, ``key.fields``, ``value.fields-include`` …, of `kafka` and `upsert-kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from etl.sql.columns import column_of
from etl.sql.expressions import quoted
from etl.sql.relation import StepText
from etl.sql.statements import CreateTable, Option, ScriptError
from etl.sql.table_options.options import Options

KEY_FIELD = "kafka.key"
_OFFSET = "kafka.offset"
_REMOVED = "row_is_removed"
"""Whether a message has no value."""

_NAMES = ("key.format", "key.fields", "key.fields-prefix", "value.format", "value.fields-include")
_FORMATS = ("json", "csv", "raw", "avro", "debezium-json")
_UPSERT = "upsert-kafka"


@dataclass(frozen=True)
class MessageKeys:
    """Which columns the keys of messages have, and how."""

    fields: tuple[str, ...]
    format: str
    """``json`` or ``raw``."""
    prefix: str
    """Beginning of names of these columns, without which they are in keys."""
    is_in_value: bool
    is_upsert: bool
    """Whether a message is the row of its key, and one without a value removes it."""

    def sink_options(self) -> dict[str, Any]:
        """The options of the sink."""
        more: dict[str, Any] = {"key": list(self.fields)}
        more |= {"key_format": "json"} if self.format == "json" else {}
        more |= {"key_prefix": self.prefix} if self.prefix and self.format == "json" else {}
        return more | ({} if self.is_in_value else {"key_in_value": False})

    @property
    def reads_key(self) -> bool:
        """Whether columns are read from the key: else they are in the value."""
        return self.is_upsert or not self.is_in_value

    def key_steps(self, types: Mapping[str, str], at: int) -> list[StepText]:
        """Steps that read the columns of the key."""
        if self.format == "raw":
            return [StepText({"type": "set", "fields": {self.fields[0]: quoted(KEY_FIELD)}}, at)]
        read: dict[str, Any] = {"type": "json", "field": KEY_FIELD, "keep_field": True}
        read["fields"] = {name: types[name] for name in self.fields}
        if self.prefix:
            read["paths"] = {name: name.removeprefix(self.prefix) for name in self.fields}
        key = [] if self.is_upsert else [StepText({"type": "set", "fields": {KEY_FIELD: f"coalesce({_KEY}, '{{}}')"}}, at)]
        return [*key, StepText(read, at)]

    def last_rows(self, fields: list[str], at: int) -> list[StepText]:
        """Steps that make a changelog of messages: the last one of each key counts, and one without a value removes the row."""
        top: dict[str, Any] = {"type": "top", "keys": list(self.fields), "by": quoted(_OFFSET), "limit": 1, "changelog": True}
        exists: dict[str, Any] = {"type": "filter", "where": f"not {_REMOVED}"}
        select: dict[str, Any] = {"type": "select", "fields": {name: quoted(name) for name in fields}}
        return [StepText(step, at) for step in (top, exists, select)]

    @property
    def source_options(self) -> dict[str, Any]:
        """The options of the source."""
        return {"key_field": KEY_FIELD} | ({"metadata": True} if self.is_upsert else {})


_KEY = quoted(KEY_FIELD)
MARK_REMOVED: Mapping[str, str] = {_REMOVED: "message is null", "message": "coalesce(message, '{}')"}
"""Fields that are set before values are read, so that messages without one are read, too."""


def message_keys(table: CreateTable, options: Options) -> MessageKeys | None:
    """What the options say of the keys of messages; None if they say nothing. Raises ScriptError."""
    if options.kind != "flink" or options.type != "kafka":
        return None
    given = {option.name: option for option in table.options}
    _check_names(given)
    is_upsert = options.texts.get("connector") == _UPSERT
    if is_upsert:
        _check_upsert(table, options, given)
    declared = {column.name for column in table.columns}  # another name is a mistake of PRIMARY KEY, which is reported there
    names = tuple(name for name in table.primary_key if name in declared) if is_upsert else _listed(given.get("key.fields"))
    if not names:
        if "key.format" in given and not is_upsert:
            option = given["key.format"]
            raise ScriptError("missing-option", "the columns of the key are not given", option.at, "add 'key.fields' = 'a;b'")
        return None
    if not is_upsert and "key.format" not in given:
        raise ScriptError("missing-option", "key.fields needs key.format", given["key.fields"].at, "add 'key.format' = 'json'")
    _check_columns(table, names, table.at if is_upsert else given["key.fields"].value_at)
    prefix = given["key.fields-prefix"].value if "key.fields-prefix" in given else ""
    is_in_value = _is_in_value(given, prefix)
    keys = MessageKeys(tuple(names), _key_format(given, table, names), prefix, is_in_value, is_upsert)
    without = next((name for name in names if prefix and not name.startswith(prefix)), None)
    if without is not None:
        message = f"the column {without!r} of the key does not begin with {prefix!r}"
        raise ScriptError("invalid-value", message, given["key.fields-prefix"].value_at, f"name it {prefix + without!r}")
    return keys


def _listed(option: Option | None) -> tuple[str, ...]:
    return tuple(one.strip() for one in option.value.split(";") if one.strip()) if option else ()


def _check_columns(table: CreateTable, names: tuple[str, ...], at: int) -> None:
    """The columns of the key are those of messages, and have no members."""
    columns = {column.name: column for column in table.columns}
    for name in names:
        column = columns.get(name)
        if column is None:
            near = get_close_matches(name, list(columns), 1)
            hint = f"is {near[0]!r} meant?" if near else f"the columns are {', '.join(columns)}"
            raise ScriptError("unknown-field", f"there is no column {name!r}", at, hint)
        if column.type is None or column.metadata is not None:
            hint = "name a column that messages have"
            raise ScriptError("invalid-value", f"the column {name!r} is not in keys: it is computed, or metadata", at, hint)
        if column_of(name, name, column.type).members:
            raise ScriptError(
                "invalid-value", f"the column {name!r} of the key is a ROW", at, "a key has columns without members"
            )


def _check_names(given: Mapping[str, Option]) -> None:
    """Options that begin with ``key.`` or ``value.`` are known, or those of a format, which have no effect."""
    for name, option in given.items():
        side, _, rest = name.partition(".")
        if side in ("key", "value") and name not in _NAMES and rest.partition(".")[0] not in _FORMATS:
            near = get_close_matches(name, _NAMES, 1)
            hint = f"is {near[0]!r} meant?" if near else f"one of: {', '.join(_NAMES)}"
            raise ScriptError("unknown-option", f"there is no option {name!r}", option.at, hint)


def _check_upsert(table: CreateTable, options: Options, given: Mapping[str, Option]) -> None:
    if not table.primary_key:
        hint = "add PRIMARY KEY (…) NOT ENFORCED: the columns that are the key of messages"
        raise ScriptError("missing-option", "upsert-kafka needs a PRIMARY KEY", options.at, hint)
    if "key.fields" in given:
        hint = "leave it out: the columns of the PRIMARY KEY are the key"
        raise ScriptError("unknown-option", "upsert-kafka has no option 'key.fields'", given["key.fields"].at, hint)
    for name in ("value.format", "format"):
        if name in given and given[name].value != "json":
            message = f"upsert-kafka has no rows in {given[name].value!r}"
            raise ScriptError("invalid-value", message, given[name].value_at, "write 'value.format' = 'json'")


def _key_format(given: Mapping[str, Option], table: CreateTable, names: tuple[str, ...]) -> str:
    option = given.get("key.format")
    format_ = option.value if option else "json"
    if format_ not in ("json", "raw"):
        raise ScriptError(
            "invalid-value", f"keys are not {format_!r}", option.value_at if option else table.at, "'json' or 'raw'"
        )
    if format_ == "raw" and len(names) > 1:
        message = "a key in the format 'raw' is one column"
        raise ScriptError("invalid-value", message, option.value_at if option else table.at, "write 'key.format' = 'json'")
    types = [str(column_of(one.name, one.name, one.type).type) for one in table.columns if one.name in names and one.type]
    if format_ == "raw" and option is not None and types != ["string"]:
        message = f"a key in the format 'raw' is a STRING, and {names[0]!r} is another type, of which Flink writes the bytes"
        raise ScriptError("invalid-value", message, option.value_at, "write 'key.format' = 'json', or declare a STRING")
    return format_


def _is_in_value(given: Mapping[str, Option], prefix: str) -> bool:
    option = given.get("value.fields-include")
    text = option.value.upper() if option else "ALL"
    if option and text not in ("ALL", "EXCEPT_KEY"):
        raise ScriptError(
            "invalid-value", f"{option.value!r} is not a value.fields-include", option.value_at, "'ALL' or 'EXCEPT_KEY'"
        )
    if prefix and text == "ALL":
        message = "key.fields-prefix is for columns that are in the key alone"
        raise ScriptError("missing-option", message, given["key.fields-prefix"].at, "add 'value.fields-include' = 'EXCEPT_KEY'")
    return text == "ALL"
