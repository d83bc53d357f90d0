"""Options of ``WITH (…)`` in three vocabularies, ours, Flink's and rsqldb's → options of sources, sinks and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml

from etl.catalogue import Catalogue
from etl.sql.statements import CreateTable, Option, ScriptError

Path = tuple[str | int, ...]
Value = tuple[Path, Any]
Reader = Callable[[str], list[Value]]
"""Reads an option's text: the values that it gives, each with the path in the component's options."""


def _to(*path: str) -> Reader:
    return lambda text: [(path, text)]


def _list(*path: str) -> Reader:
    return lambda text: [(path, [part.strip() for part in re.split("[;,]", text) if part.strip()])]


def _ignored(text: str) -> list[Value]:
    return []


def _startup(text: str) -> list[Value]:
    known = {"earliest-offset": "earliest", "latest-offset": "latest", "group-offsets": "group"}
    return [(("start",), known.get(text, text))]


def _milliseconds(*path: str) -> Reader:
    return lambda text: [(path, f"{text}ms" if text.isdecimal() else text)]


@dataclass(frozen=True)
class Connector:
    """A connector of another tool: the types of ours that it becomes, and its options by name; of ``prefixes`` the rest of the
    name is a key below the path."""

    source: str | None
    sink: str | None
    table: str | None = None
    options: Mapping[str, Reader] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)


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

_FLINK: Mapping[str, Connector] = {
    "filesystem": Connector("file", "file", "file", {"path": lambda text: [(("path",), text.removeprefix("file://"))]}),
    "kafka": Connector(
        "kafka",
        "kafka",
        None,
        {
            "topic": lambda text: [(("topic",), text)],
            "topic-pattern": _to("pattern"),
            "properties.bootstrap.servers": _list("servers"),
            "properties.group.id": _to("commit_group"),
            "scan.startup.mode": _startup,
            "scan.startup.timestamp-millis": _ignored,
        },
        {"properties.": "properties"},
    ),
    "print": Connector(None, "console", None, {"print-identifier": _ignored, "standard-error": _ignored}),
    "blackhole": Connector(None, "discard"),
    "datagen": Connector("generate", None, None, {"rows-per-second": _to("rate"), "number-of-rows": _to("count")}),
    "jdbc": Connector(
        "database",
        "database",
        "database",
        {
            "url": lambda text: [(("url",), text.removeprefix("jdbc:"))],
            "table-name": _to("table"),
            "username": _to("user"),
            "password": _to("password"),
            "driver": _ignored,
        },
    ),
    "elasticsearch-7": Connector(
        None,
        "elasticsearch",
        None,
        {"hosts": _list("urls"), "index": _to("index"), "username": _to("user"), "password": _to("password")},
    ),
}
_FLINK = {
    **_FLINK,
    "upsert-kafka": _FLINK["kafka"],
    "elasticsearch-6": _FLINK["elasticsearch-7"],
    "elasticsearch": _FLINK["elasticsearch-7"],
}

_BATCH: Mapping[str, Reader] = {
    "batchSize": _to("batch", "max_events"),
    "autoFlushSize": _ignored,
    "autoFlushTimeGap": _milliseconds("batch", "timeout"),
}
_INPUT: Mapping[str, Reader] = dict.fromkeys(
    ("isJsonData", "msgIsJsonArray", "maxThread", "maxFetchLogGroupSize", "pullIntervalMs", "fieldDelimiter", "data_format"),
    _ignored,
)
_RSQL: Mapping[str, Connector] = {
    "rocketmq": Connector(
        "rocketmq",
        "rocketmq",
        None,
        {
            **_BATCH,
            **_INPUT,
            "topic": _to("topic"),
            "consumerGroup": _to("group"),
            "producerGroup": _ignored,
            "groupName": _to("group"),
            "namesrvAddr": _list("servers"),
            "tag": _to("tags"),
            "encoding": _ignored,
        },
    ),
    "file": Connector(
        "file",
        "file",
        "file",
        {
            **_BATCH,
            **_INPUT,
            "filePath": _to("path"),
            "needAppend": _ignored,
            "cacheTTLMs": _milliseconds("refresh"),
            "isLarg": _ignored,
            "isLarge": _ignored,
        },
    ),
    "print": Connector(None, "console", None, _BATCH),
    "db": Connector(
        "database",
        "database",
        "database",
        {
            **_BATCH,
            "url": lambda text: [(("url",), text.removeprefix("jdbc:"))],
            "tableName": _to("table"),
            "userName": _to("user"),
            "password": _to("password"),
            "cacheTTLMs": _milliseconds("refresh"),
            "idFieldName": _ignored,
            "isLarg": _ignored,
            "isLarge": _ignored,
            "sqlMode": _ignored,
        },
    ),
    "syslog": Connector(
        "syslog",
        None,
        None,
        {
            "port": lambda text: [(("listen",), [f"udp://0.0.0.0:{text}"])],
            "protol": _ignored,
            "client_ips": _list("allow"),
        },
    ),
    "es": Connector(
        None,
        "elasticsearch",
        None,
        {
            **_BATCH,
            "endPoint": _list("urls"),
            "host": _list("urls"),
            "port": _ignored,
            "needAuth": _ignored,
            "authUsername": _to("user"),
            "authPassword": _to("password"),
            "esIndex": _to("index"),
            "index": _to("index"),
            "esIndexType": _ignored,
            "typeName": _ignored,
            "socketTimeOut": _milliseconds("timeout"),
            "connectTimeOut": _ignored,
            "connectionRequestTimeOut": _ignored,
            "schema": _ignored,
        },
    ),
    "kafka": Connector(
        "kafka",
        "kafka",
        None,
        {
            **_BATCH,
            **_INPUT,
            "topic": _to("topic"),
            "bootstrap.servers": _list("servers"),
            "group.id": _to("commit_group"),
            "consumerGroup": _to("commit_group"),
            "encoding": _ignored,
        },
    ),
}
_RSQL = {**_RSQL, "rds": _RSQL["db"], "elasticsearch": _RSQL["es"], "metaq": _RSQL["rocketmq"]}

_UNAVAILABLE = {
    "sls": "Alibaba's log service has no connector here; its Kafka interface works with 'type' = 'kafka'",
    "odps": "MaxCompute has no connector here; export it to files or a database",
    "mqtt": "MQTT has no connector here; a bridge of the broker to Kafka works",
}

_WITH_FORMAT = ("console", "spark", "http")
"""Types whose option ``format`` says no more than how they write or read."""

_TOPIC_LISTS = {("source", "kafka"), ("source", "rocketmq")}
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
                "add 'type' = '…' or 'connector' = '…'",
            )
        chosen = Option("type", "rocketmq", table.at, table.at)
    name = chosen.value
    if "connector" in texts:
        return _mapped("flink", _FLINK, name, family, texts, chosen)
    members = catalogue.families[family]  # type: ignore[index]
    is_ours = name in members and (name not in _RSQL or not _has_rsql_names(texts, _RSQL[name], members[name]))
    if is_ours:
        return _own(name, texts, chosen)
    return _mapped("rsql", _RSQL, name, family, texts, chosen)


def _modern(name: str) -> str:
    names = {"connector.type": "connector", "connector.path": "path", "format.type": "format", "connector.topic": "topic"}
    return names.get(name, name.removeprefix("connector."))


def _has_rsql_names(texts: Mapping[str, Option], connector: Connector, component: Any) -> bool:
    own = {model_field.alias or name for name, model_field in component.model_fields.items()} | {"format"}
    return any(name in connector.options and name.split(".")[0] not in own for name in texts)


def _own(name: str, texts: Mapping[str, Option], chosen: Option) -> Options:
    found = Options("own", name, chosen.value_at, texts={one: option.value for one, option in texts.items()})
    for option in texts.values():
        if option is not chosen and (option.name != "format" or name in _WITH_FORMAT):
            found.values[tuple(option.name.split("."))] = (_own_value(option.value), option.at, option.value_at)
    return found


def _own_value(text: str) -> Any:
    """A list or mapping in YAML's notation, or the text, which the schema converts."""
    if text[:1] in ("[", "{"):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text
    return text


def _mapped(
    kind: str, known: Mapping[str, Connector], name: str, family: str, texts: Mapping[str, Option], chosen: Option
) -> Options:
    connector = known.get(name)
    if connector is None:
        hint = _UNAVAILABLE.get(name) or _did_you_mean(name, known)
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
        for path, value in _values(connector, written, option, kind):
            if path == ("topic",) and (family, type_) in _TOPIC_LISTS:
                path, value = ("topics",), [part.strip() for part in str(value).split(";")]
            if family != "sink" and path[0] == "batch":
                continue
            found.values[path] = (value, option.at, option.value_at)
    return found


def _values(connector: Connector, name: str, option: Option, kind: str) -> Sequence[Value]:
    if name in connector.options:
        return connector.options[name](option.value)
    for prefix, path in connector.prefixes.items():
        if name.startswith(prefix):
            return [((path, name.removeprefix(prefix)), option.value)]
    if kind == "flink" and name.startswith(_FORMAT_OPTIONS):
        return []
    raise ScriptError("unknown-option", f"there is no option {name!r}", option.at, _did_you_mean(name, connector.options))


def _did_you_mean(name: str, known: Mapping[str, Any]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"is {near[0]!r} meant?" if near else f"one of: {', '.join(sorted(known))}"
