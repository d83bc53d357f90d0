"""Options of ``WITH (…)`` in three vocabularies, ours, Flink's and rsqldb's → options of sources, sinks and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, get_args

import yaml

from etl.api import Component
from etl.catalogue import Catalogue
from etl.sql.statements import CreateTable, Option, ScriptError
from etl.sql.table_options.readers import (
    Connector,
    OptionValueError,
    Path,
    Value,
    delivery,
    ignored,
    read_offsets,
    startup,
    to_duration,
    to_list,
    to_option,
    to_time,
)
from etl.sql.table_options.rsql import RSQL, UNAVAILABLE, further_values, has_elsewhere, normalised

_FORMAT_OPTIONS = (
    "json.",
    "csv.",
    "value.",
    "key.",
    "sink.",
    "source.",
    "lookup.",
    "partition.",
    "auto-compaction",
    "debezium-json.",
)
"""Beginnings of options that say how Flink encodes or schedules, which formats and sinks here do by themselves."""

_WITHOUT_EFFECT = {
    "scan.parallelism": "`run.parallelism` is that of the whole job",
    **dict.fromkeys(
        ("scan.bounded.mode", "scan.bounded.specific-offsets", "scan.bounded.timestamp-millis"),
        "`etl run --once` ends where the topic ends when it starts",
    ),
    "scan.watermark.idle-timeout": "SET 'table.exec.source.idle-timeout' = '30 s'",
    **dict.fromkeys(
        (
            *(f"scan.watermark.{name}" for name in ("emit.strategy", "alignment.group", "alignment.max-drift")),
            *("scan.watermark.alignment.update-interval", "scan.auto-commit", "scan.fetch-size", "raw.charset", "raw.endianness"),
            *(f"scan.partition.{name}" for name in ("column", "lower-bound", "num", "upper-bound")),
            *("compaction.file-size", "compatible-mode", "connection.max-retry-timeout", "failure-handler", "socket.timeout"),
            *("connection.path-prefix", "connection.request-timeout", "connection.timeout", "document-id.key-delimiter"),
        ),
        "leave it out",
    ),
}
"""Options of Flink that change nothing here, and what to do instead."""

_FLINK: Mapping[str, Connector] = {
    "filesystem": Connector("file", "file", "file", {"path": lambda text: [(("path",), text.removeprefix("file://"))]}),
    "kafka": Connector(
        "kafka",
        "kafka",
        None,
        {
            "topic": lambda text: [(("topic",), text)],
            "topic-pattern": to_option("pattern"),
            "properties.bootstrap.servers": to_list("servers"),
            "properties.group.id": to_option("commit_group"),
            "scan.startup.mode": startup,
            "scan.startup.timestamp-millis": to_time("start_time"),
            "scan.startup.specific-offsets": lambda text: [(("start_offsets",), read_offsets(text))],
            "scan.topic-partition-discovery.interval": to_duration("discovery"),
            "sink.delivery-guarantee": delivery,
        },
        {"properties.": "properties"},
    ),
    "print": Connector(None, "console", None, {"print-identifier": ignored, "standard-error": ignored}),
    "blackhole": Connector(None, "discard"),
    "datagen": Connector("generate", None, None, {"rows-per-second": to_option("rate"), "number-of-rows": to_option("count")}),
    "jdbc": Connector(
        "database",
        "database",
        "database",
        {
            "url": lambda text: [(("url",), text.removeprefix("jdbc:"))],
            "table-name": to_option("table"),
            "username": to_option("user"),
            "password": to_option("password"),
            "driver": ignored,
            "create": to_option("create"),
        },
    ),
    "elasticsearch-7": Connector(
        None,
        "elasticsearch",
        None,
        {"hosts": to_list("urls"), "index": to_option("index"), "username": to_option("user"), "password": to_option("password")},
    ),
}
_FLINK = {
    **_FLINK,
    "upsert-kafka": _FLINK["kafka"],
    "elasticsearch-6": _FLINK["elasticsearch-7"],
    "elasticsearch": _FLINK["elasticsearch-7"],
}

_ELSEWHERE = "it is one of another connector of rsqldb, which reads over it here, too; leave it out"

_WITH_TABLE_FORMATS = {("source", "kafka"), ("source", "mqtt"), ("source", "rocketmq"), ("sink", "file")}
"""Components whose option ``format`` takes some values, beside which the format of a table in SQL has others."""

_OF_SINKS = frozenset({"delivery"})
_OF_SOURCES = frozenset({"discovery", "start", "start_time", "start_offsets", "commit_group"})
"""Options of one side, which a table that is read and written has for both."""

_TOPIC_LISTS = {("source", "kafka"), ("source", "mqtt"), ("source", "rocketmq")}
"""Components of ours that take a list of topics where other tools take one."""


@dataclass
class Options:
    """What ``WITH (…)`` says, as the options of a component of ours, with the characters at which they are written."""

    kind: str
    """``flink``, ``rsql`` or ``own``: whose names the options have."""
    type: str
    at: int
    values: dict[Path, tuple[Any, int, int]] = field(default_factory=dict)
    """Path → value, the character of the option's name, and that of its value."""
    texts: dict[str, str] = field(default_factory=dict)
    """The options as they are written, such as ``format`` for the columns."""
    warnings: list[ScriptError] = field(default_factory=list)
    """Options without effect."""


def read_options(table: CreateTable, family: str, catalogue: Catalogue) -> Options:
    """The options of a table that is a source, sink or look-up table. Raises ScriptError."""
    texts = {option.name: option for option in table.options}
    if not table.options:
        raise ScriptError(
            "missing-option",
            f"the table {table.name!r} has no WITH (…)",
            table.at,
            "name its connector: WITH ('type' = 'file', 'path' = '…')",
        )
    if "connector.type" in texts:  # the names of Flink before 1.11
        texts = {_modern(name): option for name, option in texts.items()}
    chosen = texts.get("connector") or texts.get("type")
    if chosen is None:
        if "topic" not in texts:
            raise ScriptError(
                "missing-option",
                f"the table {table.name!r} names no connector",
                table.at,
                _unnamed_hint(texts),
            )
        chosen = Option("type", "rocketmq", table.at, table.at)
        return _rsql("rocketmq", family, normalised("rocketmq", family, texts), chosen, catalogue.families[family])  # type: ignore[index]
    name = chosen.value
    members = catalogue.families[family]  # type: ignore[index]
    if "connector" in texts:
        return _map("flink", _FLINK, name, family, texts, chosen)
    is_ours = name in members and (name not in RSQL or not _has_rsql_names(texts, RSQL[name], members[name]))
    if is_ours:
        return _own(name, family, texts, chosen, members[name])
    return _rsql(name, family, normalised(name, family, texts), chosen, members)


def _unnamed_hint(texts: Mapping[str, Option]) -> str:
    near = next((name for name in texts if get_close_matches(name.lower(), ["connector", "type"], 1, 0.75)), None)
    return f"is 'connector' meant, not {near!r}?" if near else "add 'type' = '…' or 'connector' = '…'"


def option_names(component: type[Component]) -> set[str]:
    """The names of a component's options."""
    return {model_field.alias or name for name, model_field in component.model_fields.items()}


def _rsql(name: str, family: str, texts: Mapping[str, Option], chosen: Option, members: Mapping[str, Any]) -> Options:
    """rsqldb's options: those of the other family, such as a sink's group, have no effect, as in rsqldb."""
    found = _map("rsql", RSQL, name, family, texts, chosen)
    for path, value, option in further_values(name, family, texts, chosen):
        found.values[path] = (value, option.at, option.value_at)
    known = option_names(members[found.type])
    found.values = {path: value for path, value in found.values.items() if path[0] in known}
    return found


def _modern(name: str) -> str:
    names = {"connector.type": "connector", "connector.path": "path", "format.type": "format", "connector.topic": "topic"}
    return names.get(name, name.removeprefix("connector."))


def _has_rsql_names(texts: Mapping[str, Option], connector: Connector, component: Any) -> bool:
    own = option_names(component) | {"format"}
    names = {name.lower() for name in connector.options}
    return any(name.lower() in names and name.split(".")[0] not in own for name in texts)


def _own(name: str, family: str, texts: Mapping[str, Option], chosen: Option, component: type[Component]) -> Options:
    found = Options("own", name, chosen.value_at, texts={one: option.value for one, option in texts.items()})
    formats = component.model_fields.get("format")
    is_any = (family, name) not in _WITH_TABLE_FORMATS
    for option in texts.values():
        is_own = option.name != "format" or (formats is not None and (is_any or option.value in get_args(formats.annotation)))
        if option is not chosen and (is_own or family == "table"):
            found.values[tuple(option.name.split("."))] = (option_value(option.value), option.at, option.value_at)
    return found


def option_value(text: str) -> Any:
    """A list or mapping in YAML's notation, or the text, which the schema converts; ``{name}`` is a text, as in templates."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    return text if isinstance(found, dict) and None in found.values() else found


def _map(
    kind: str, known: Mapping[str, Connector], name: str, family: str, texts: Mapping[str, Option], chosen: Option
) -> Options:
    connector = known.get(name)
    if connector is None:
        hint = UNAVAILABLE.get(name) or _did_you_mean(name, known)
        raise ScriptError("unknown-type", f"there is no connector {name!r}", chosen.value_at, hint)
    type_ = {"source": connector.source, "sink": connector.sink, "table": connector.table}[family]
    if type_ is None:
        raise ScriptError(
            "unknown-type",
            f"{name!r} cannot be a {family}",
            chosen.value_at,
            f"it is read by no query, or written by no INSERT, as a {family}",
        )
    found = Options(kind, type_, chosen.value_at, texts={one: option.value for one, option in texts.items()})
    for written, option in texts.items():
        if option is chosen or written == "format":
            continue
        if kind == "rsql" and written not in connector.options and has_elsewhere(written):
            found.warnings.append(ScriptError("no-effect", f"{name!r} has no option {written!r}", option.at, _ELSEWHERE))
            continue
        if name == "datagen" and written.startswith("fields."):
            continue  # read with the columns
        if kind == "flink" and written in _WITHOUT_EFFECT:
            message = f"the option {written!r} has no effect"
            found.warnings.append(ScriptError("no-effect", message, option.at, _WITHOUT_EFFECT[written]))
            continue
        for path, value in _values(connector, written, option, kind):
            if path == ("topic",) and (family, type_) in _TOPIC_LISTS:
                path, value = ("topics",), [part.strip() for part in str(value).split(";")]
            if family != "sink" and path[0] == "batch":
                continue
            if kind == "flink" and path[0] in (_OF_SINKS if family != "sink" else _OF_SOURCES):
                continue
            if path == ("start_offsets",):
                value = {topic.strip(): value for topic in found.texts.get("topic", "").split(";")}
            found.values[path] = (value, option.at, option.value_at)
    return found


def _values(connector: Connector, name: str, option: Option, kind: str) -> Sequence[Value]:
    if name in connector.options:
        try:
            return connector.options[name](option.value)
        except OptionValueError as error:
            raise ScriptError("invalid-value", str(error), option.value_at, error.hint) from error
    for prefix, path in connector.prefixes.items():
        if name.startswith(prefix):
            return [((path, name.removeprefix(prefix)), option.value)]
    if kind == "flink" and name.startswith(_FORMAT_OPTIONS):
        return []
    raise ScriptError("unknown-option", f"there is no option {name!r}", option.at, _did_you_mean(name, connector.options))


def _did_you_mean(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"is {near[0]!r} meant?" if near else f"one of: {', '.join(sorted(known))}"
