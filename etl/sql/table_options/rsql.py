"""Options of rsqldb's connectors → options of sources, sinks and tables."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etl.sql.statements import Option, ScriptError
from etl.sql.table_options.readers import Connector, Path, Reader, Value, ignored, milliseconds, to_list, to_number, to_option

_DEFAULT_SERVERS = "${NAMESRV_ADDR:-127.0.0.1:9876}"
"""Name servers of a table that names none: the variable that RocketMQ's own clients read."""

_PROPERTY = re.compile(r"dipper(\.[A-Za-z]\w*)+")
"""A value that is the name of a property, of which rsqldb reads the value."""

_BATCH: Mapping[str, Reader] = {
    "batchSize": to_number("batch", "max_events"),
    "autoFlushSize": ignored,
    "autoFlushTimeGap": milliseconds("batch", "timeout"),
}
_INPUT: Mapping[str, Reader] = dict.fromkeys(
    ("isJsonData", "msgIsJsonArray", "maxThread", "maxFetchLogGroupSize", "pullIntervalMs", "fieldDelimiter", "data_format"),
    ignored,
)
_CACHE: Mapping[str, Reader] = {
    "cacheTTLMs": milliseconds("refresh"),
    "idFieldName": ignored,
    "isLarg": ignored,
    "isLarge": ignored,
}


def _rows(text: str) -> list[Value]:
    """A table's name, or the rows of a look-up table as ``from t where …``."""
    if re.match(r"\s*from\s", text, re.IGNORECASE):
        return [(("query",), f"SELECT * {text.strip()}")]
    return [(("query" if re.match(r"\s*select\s", text, re.IGNORECASE) else "table",), text.strip())]


_MODES = {"default": "insert", "ignore": "ignore", "replace": "replace"}


def _broker(text: str) -> list[Value]:
    """The address in ``tcp://host:port``; with ``ssl://`` the connection is encrypted."""
    scheme, _, address = text.strip().rpartition("://")
    tls: list[Value] = [(("tls",), {})] if scheme.lower() in ("ssl", "tls", "mqtts") else []
    return [(("servers",), [address]), *tls]


def _seconds(*path: str) -> Reader:
    return lambda text: [(path, f"{text.strip()}s" if text.strip().isdecimal() else text)]


_CONNECTORS: Mapping[str, Connector] = {
    "rocketmq": Connector(
        "rocketmq",
        "rocketmq",
        None,
        {
            **_BATCH,
            **_INPUT,
            "topic": to_option("topic"),
            "consumerGroup": to_option("group"),
            "producerGroup": to_option("group"),
            "groupName": to_option("group"),
            "namesrvAddr": to_list("servers"),
            "tag": to_option("tags"),
            "encoding": ignored,
        },
    ),
    "file": Connector(
        "file",
        "file",
        "file",
        {**_BATCH, **_INPUT, **_CACHE, "filePath": to_option("path"), "needAppend": ignored, "encoding": to_option("charset")},
    ),
    "print": Connector(None, "console", None, _BATCH),
    "db": Connector(
        "database",
        "database",
        "database",
        {
            **_BATCH,
            **_CACHE,
            "url": lambda text: [(("url",), text.removeprefix("jdbc:"))],
            "tableName": _rows,
            "userName": to_option("user"),
            "password": to_option("password"),
            "sqlMode": lambda text: [(("mode",), _MODES.get(text, text))],
        },
    ),
    "syslog": Connector(
        "syslog", None, None, {"port": ignored, "protol": ignored, "protocol": ignored, "client_ips": ignored, "ips": ignored}
    ),
    "es": Connector(
        None,
        "elasticsearch",
        None,
        {
            **_BATCH,
            "endPoint": ignored,
            "host": ignored,
            "port": ignored,
            "schema": ignored,
            "needAuth": ignored,
            "authUsername": to_option("user"),
            "authPassword": to_option("password"),
            "esIndex": to_option("index"),
            "index": to_option("index"),
            "esIndexType": ignored,
            "typeName": ignored,
            "socketTimeOut": milliseconds("timeout"),
            "connectTimeOut": ignored,
            "connectionRequestTimeOut": ignored,
        },
    ),
    "kafka": Connector(
        "kafka",
        "kafka",
        None,
        {
            **_BATCH,
            **_INPUT,
            "topic": to_option("topic"),
            "bootstrap.servers": to_list("servers"),
            "group.id": to_option("commit_group"),
            "consumerGroup": to_option("commit_group"),
            "encoding": ignored,
        },
    ),
    "mqtt": Connector(
        "mqtt",
        "mqtt",
        None,
        {
            **_BATCH,
            "url": _broker,
            "topic": to_option("topic"),
            "clientId": to_option("client_id"),
            "username": to_option("user"),
            "password": to_option("password"),
            "isJsonData": ignored,
            "cleanSession": to_option("clean_start"),
            "connectionTimeout": _seconds("timeout"),
            "aliveInterval": _seconds("keep_alive"),
            "automaticReconnect": ignored,
        },
    ),
}
RSQL: Mapping[str, Connector] = {
    **_CONNECTORS,
    "rds": _CONNECTORS["db"],
    "elasticsearch": _CONNECTORS["es"],
    "metaq": _CONNECTORS["rocketmq"],
}

UNAVAILABLE: Mapping[str, str] = {
    "sls": "Alibaba's log service has no connector here; its Kafka interface works with 'type' = 'kafka'",
    "odps": "MaxCompute has no connector here; export it to files or a database",
    "datahub": "DataHub has no connector here, nor in rsqldb; its Kafka interface works with 'type' = 'kafka'",
    "tt": "TimeTunnel has no connector here, nor in rsqldb; read a topic with 'type' = 'rocketmq' or 'kafka'",
    "random": "test data comes from 'connector' = 'datagen' or our 'type' = 'generate'",
    "collection": "a collection of a Java program is not a source of a script; write it to a file of JSON lines",
    "memory": "the memory of a Java program is not a source of a script; write it to a file of JSON lines",
}
"""Connectors that do not exist here → what to use."""


_NAMES = frozenset(name.lower() for connector in RSQL.values() for name in connector.options)


def has_elsewhere(name: str) -> bool:
    """Whether a connector of rsqldb has an option of this name."""
    return name.lower() in _NAMES


def normalised(name: str, family: str, texts: Mapping[str, Option]) -> dict[str, Option]:
    """Options under the names of the connector, whatever their case, without empty ones and the group of the other side; names of
    properties become variables."""
    known = {one.lower(): one for one in RSQL[name].options} if name in RSQL else {}
    known |= {"username": "userName"} if name in ("db", "rds") else {}
    found = {}
    for written, option in texts.items():
        if option.value.strip():
            found[known.get(written.lower(), written)] = _with_variable(option)
    if name == "mqtt" and family == "sink":
        found.pop("clientId", None)  # a writer has a connection of its own
    found.pop("consumerGroup" if family == "sink" else "producerGroup", None)
    return found


def _with_variable(option: Option) -> Option:
    if not _PROPERTY.fullmatch(option.value):
        return option
    variable = "${" + re.sub(r"\W", "_", option.value).upper() + "}"
    return Option(option.name, variable, option.at, option.value_at)


def further_values(name: str, family: str, texts: Mapping[str, Option], chosen: Option) -> Iterator[tuple[Path, Any, Option]]:
    """Values that several options give together, and defaults. Raises ScriptError for what does not exist here."""
    _check(name, family, texts)
    if name in ("rocketmq", "metaq") and "namesrvAddr" not in texts:
        yield ("servers",), [_DEFAULT_SERVERS], chosen
    make = _TOGETHER.get(name)
    if make:
        yield from make(texts, chosen)


def _check(name: str, family: str, texts: Mapping[str, Option]) -> None:
    array = texts.get("msgIsJsonArray")
    if array and family == "source" and array.value.lower() == "true":
        raise ScriptError(
            "unsupported-sql",
            "msgIsJsonArray = 'true' cannot be read in a script",
            array.value_at,
            "convert the script, and put steps before json: set the field to from_json(message, 'array<string>'), unnest it",
        )
    encoding = texts.get("encoding")
    if encoding and name != "file" and encoding.value.lower().replace("-", "") not in ("utf8", "ascii"):
        raise ScriptError("invalid-value", f"the encoding {encoding.value!r} is not read here", encoding.value_at, "write UTF-8")
    rows = texts.get("tableName")
    if rows and family == "sink" and re.match(r"\s*(from|select)\s", rows.value, re.IGNORECASE):
        raise ScriptError(
            "invalid-value", "a sink writes into a table, not into a query", rows.value_at, "write the name of the table only"
        )
    append = texts.get("needAppend")
    if append and family == "sink" and append.value.lower() == "false":
        raise ScriptError(
            "invalid-value", "a file is always continued at its end", append.value_at, "remove the file before the first run"
        )


def _listening(texts: Mapping[str, Option], chosen: Option) -> Iterator[tuple[Path, Any, Option]]:
    protocol = texts.get("protol") or texts.get("protocol") or Option("", "udp", chosen.at, chosen.value_at)
    if protocol.value.lower() not in ("udp", "tcp"):
        raise ScriptError("invalid-value", f"{protocol.value!r} is not a protocol", protocol.value_at, "write 'udp' or 'tcp'")
    is_tcp = protocol.value.lower() == "tcp"
    port = texts.get("port") or Option("", "12345" if is_tcp else "12346", chosen.at, chosen.value_at)
    yield ("listen",), [f"{protocol.value.lower()}://0.0.0.0:{port.value}"], port
    senders = texts.get("client_ips") or texts.get("ips")
    if senders and senders.value.strip() != "*":
        yield ("allow",), [network for one in senders.value.split(";") for network in _networks(one.strip(), senders)], senders


def _networks(text: str, option: Option) -> list[str]:
    """The networks of an address, a range ``a-b`` or a network."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        if dash:
            between = ipaddress.summarize_address_range(ipaddress.ip_address(first), ipaddress.ip_address(last))
            return [str(network) for network in between]
        return [str(ipaddress.ip_network(first, strict=False))]
    except (ValueError, TypeError) as error:
        raise ScriptError(
            "invalid-value",
            f"{text!r} is not an address, range or network",
            option.value_at,
            "an expression for senders does not exist here: filter by source.ip",
        ) from error


def _nodes(texts: Mapping[str, Option], chosen: Option) -> Iterator[tuple[Path, Any, Option]]:
    host = texts.get("endPoint") or texts.get("host")
    if host is None:
        return
    scheme = texts["schema"].value if "schema" in texts and texts["schema"].value in ("http", "https") else "http"
    port = f":{texts['port'].value}" if "port" in texts else ""
    urls = (one.strip() for one in re.split("[;,]", host.value))
    yield ("urls",), [one if "://" in one else f"{scheme}://{one}{'' if ':' in one.strip('${}') else port}" for one in urls], host


def _version(texts: Mapping[str, Option], chosen: Option) -> Iterator[tuple[Path, Any, Option]]:
    yield ("version",), "3.1.1", chosen  # of RocketMQ Streams' client


_TOGETHER: Mapping[str, Callable[[Mapping[str, Option], Option], Iterator[tuple[Path, Any, Option]]]] = {
    "syslog": _listening,
    "es": _nodes,
    "elasticsearch": _nodes,
    "mqtt": _version,
}
