"""A configuration of Telegraf → the topology of a pipeline: inputs that read logs by grok, and outputs.

Source: Telegraf's manual, "Grok input data format". Times in patterns are Go's (``2006-01-02``), or have names (``ts-httpd``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.given_options import GivenOptions, kafka_security, leave_options
from etl.migration.go_layout import java_layout
from etl.migration.ingest.processor import as_list, parsed_fields
from etl.migration.report import ImportReport
from etl.migration.strptime import java_pattern
from etl.migration.topology import Destination, Origin, Topology, free_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import TIME, Value

MAX_BYTES = 4 << 20
TIME_TEXT = "_time_text"

_REFERENCE = re.compile(r"%\{(\w+)(?::([^:{}]*))?(?::((?:\"[^\"]*\"|[^{}])*))?\}")
_BUILT_IN = {
    "CLIENT": r"(?:%{IPORHOST}|%{HOSTPORT}|::1)",
    "COMMON_LOG_FORMAT": (
        r'%{CLIENT:client_ip} %{NOTSPACE:ident} %{NOTSPACE:auth} \[%{HTTPDATE:ts:ts-httpd}\] "(?:%{WORD:verb:tag}'
        r' %{NOTSPACE:request}(?: HTTP/%{NUMBER:http_version:float})?|%{DATA})" %{NUMBER:resp_code:tag}'
        r" (?:%{NUMBER:resp_bytes:int}|-)"
    ),
    "COMBINED_LOG_FORMAT": r"%{COMMON_LOG_FORMAT} \"%{DATA:referrer}\" \"%{DATA:agent}\"",
}
"""Patterns of Telegraf's own, by the names and types that its manual documents."""
_TIMES = {
    "ts": "iso8601",
    "ts-rfc3339": "iso8601",
    "ts-rfc3339nano": "iso8601",
    "ts-httpd": "dd/MMM/yyyy:HH:mm:ss Z",
    "ts-syslog": "MMM d HH:mm:ss",
    "ts-ansic": "EEE MMM d HH:mm:ss yyyy",
    "ts-epoch": "epoch",
    "ts-epochmilli": "epoch_millis",
    "ts-rfc822": "dd MMM yy HH:mm z",
    "ts-rfc1123": "EEE, dd MMM yyyy HH:mm:ss z",
}


@dataclass
class TelegrafImport:
    """Imports a configuration."""

    file: Path
    name: str = "imported"
    timezone: str = "${TIMEZONE:-UTC}"
    report: ImportReport = field(default_factory=ImportReport)

    def run(self) -> Topology:
        """Raises NoCounterpartError if the file is none, or reads no logs."""
        root = self._read()
        topology = Topology(self.name)
        for kind, one in _inputs(root.get("inputs")):
            self.report.total += 1
            origin = Origin({"type": "stdin"})
            steps = TranslatedSteps(origin.draft, self.report, self.timezone)
            try:
                self._input(kind, one, origin, steps)
            except NoCounterpartError as error:
                steps.leave(f"{self.file}: inputs.{kind}", f"input {kind}", str(error))
                topology.comments += origin.draft.last_comments
                continue
            topology.origins[free_name(clean_name(kind), topology.origins)] = origin
        if not topology.origins:
            raise NoCounterpartError(f"{self.file}:1:1: no input of logs that is read by grok: inputs.tail or inputs.logparser")
        draft = topology.begin()
        for kind in ("processors", "aggregators"):
            for name, _ in _plugins(root.get(kind)):
                self.report.total += 1
                steps = TranslatedSteps(draft, self.report)
                steps.leave(f"{self.file}: {kind}.{name}", f"{kind[:-1]} {name}", "a step `set`, `rename` or `window` does it")
        for kind, one in _plugins(root.get("outputs")):
            self.report.total += 1
            make = OUTPUTS.get(kind)
            if make is None:
                reason = "an output that has no counterpart"
                TranslatedSteps(draft, self.report).leave(f"{self.file}: outputs.{kind}", f"output {kind}", reason)
            else:
                given = GivenOptions(one)
                options = make(given)
                if (time := options.get("time_field")) and draft.field(time).is_null:
                    draft.remark(f"no pattern gives {time}: it is the time of reading")
                    draft.set({time: Value("current_timestamp()", TIME)})
                left = given.left(WITHOUT_EFFECT)
                comments = leave_options(self.report, f"{self.file}: outputs.{kind}", f"output {kind}", left)
                topology.destinations[free_name(kind, topology.destinations)] = Destination(options, comments=comments)
        topology.finish()
        return topology

    def _read(self) -> Mapping[str, Any]:
        data = self.file.read_bytes()
        if len(data) > MAX_BYTES:
            raise NoCounterpartError(
                f"{self.file}:1:1: {len(data):,} bytes are more than a configuration may have: {MAX_BYTES:,}"
            )
        try:
            return tomllib.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise NoCounterpartError(f"{self.file}:1:1: {str(error).splitlines()[0]}") from None

    def _input(self, kind: str, one: Mapping[str, Any], origin: Origin, steps: TranslatedSteps) -> None:
        make = SOURCES.get(kind)
        if make is None:
            raise NoCounterpartError("an input of metrics")
        given = one.get("grok") if kind == "logparser" else one
        form = "grok" if kind == "logparser" else one.get("data_format", "syslog" if kind == "syslog" else "influx")
        if not isinstance(given, Mapping) or form not in ("grok", "json", "syslog"):
            raise NoCounterpartError(f"the format {form!r}; grok and json are carried over")
        if form == "grok" and not given.get("patterns" if kind == "logparser" else "grok_patterns"):
            raise NoCounterpartError("no pattern is given: `grok_patterns` has none")
        options = GivenOptions(one)
        origin.options = make(options)
        left = options.left(WITHOUT_EFFECT)
        origin.comments = leave_options(self.report, f"{self.file}: inputs.{kind}", f"input {kind}", left)
        if form == "json":
            origin.draft.rename({"message": "_event"})
            origin.draft.temporary.append("_event")
            steps.apply("json", {"field": "_event", "add_to_root": True}, None)
        elif form == "syslog":
            origin.draft.add({"type": "syslog", "timezone": self.timezone}, parsed_fields("syslog", {}))
        else:
            self._grok(given, "" if kind == "logparser" else "grok_", origin, steps)

    def _grok(self, given: Mapping[str, Any], prefix: str, origin: Origin, steps: TranslatedSteps) -> None:
        """The step of the patterns, and that of the time which they capture."""
        custom = str(given.get(f"{prefix}custom_patterns", ""))
        own = dict(line.strip().split(None, 1) for line in custom.splitlines() if len(line.split(None, 1)) == 2)
        times: list[str] = []
        definitions = {name: _converted(text, times) for name, text in {**_BUILT_IN, **own}.items()}
        patterns = [_converted(str(text), times) for text in as_list(given.get(f"{prefix}patterns") or [])]
        texts = [*patterns, *definitions.values()]
        used = {name: text for name, text in definitions.items() if any(f"%{{{name}" in one for one in texts)}
        steps.attempt("grok", {"field": "message", "patterns": patterns, "pattern_definitions": used}, None)
        if TIME_TEXT in origin.draft.types:
            zone = str(given.get(f"{prefix}timezone") or self.timezone)
            zone = self.timezone if zone in ("Local", "") else zone
            found = {"field": TIME_TEXT, "formats": list(dict.fromkeys(times)), "target_field": "timestamp", "timezone": zone}
            steps.attempt("date", found, None)
            origin.draft.temporary.append(TIME_TEXT)


def _converted(pattern: str, times: list[str]) -> str:
    """A pattern with the types of the parser grok; the formats of its times are noted."""

    def replace(found: re.Match[str]) -> str:
        name, capture, type_ = found[1], found[2], found[3] or ""
        if capture is None or type_ == "drop":
            return f"%{{{name}}}"
        if type_.startswith("ts"):
            layout = type_[3:].strip('"')
            times.append(_TIMES.get(type_) or java_layout(layout))
            return f"%{{{name}:{TIME_TEXT}}}"
        return f"%{{{name}:{clean_name(capture)}{f':{type_}' if type_ in ('int', 'float') else ''}}}"

    return _REFERENCE.sub(replace, pattern)


def _plugins(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    items = value.items() if isinstance(value, Mapping) else ()
    return [(str(name), one) for name, found in items for one in as_list(found) if isinstance(one, Mapping)]


def _inputs(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The inputs; one of several files is one of each file."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for kind, one in _plugins(value):
        files = as_list(one.get("files") or [])
        found += [(kind, {**one, "files": [file]}) for file in files] if kind in _OF_FILES and files else [(kind, one)]
    return found


_OF_FILES = ("tail", "logparser", "file")


def _tail(one: GivenOptions) -> dict[str, Any]:
    files = as_list(one.get("files") or [])
    if not files:
        raise NoCounterpartError("no file is given: `files` is empty")
    tag = {"path_field": clean_name(str(one["path_tag"]))} if one.get("path_tag") else {}
    return {"type": "file", "path": str(files[0]), **({} if one.get("from_beginning") is True else {"start": "end"}), **tag}


def _whole_file(one: GivenOptions) -> dict[str, Any]:
    options = _tail(one)
    options.pop("start", None)
    return options


def _kafka_consumer(one: GivenOptions) -> dict[str, Any]:
    login = [str(one.get(name, "")) for name in ("sasl_mechanism", "sasl_username", "sasl_password")]
    group = str(one.get("consumer_group", "telegraf_metrics_consumers"))
    return {
        "type": "kafka",
        "servers": as_list(one.get("brokers") or "localhost:9092"),
        "topics": as_list(one.get("topics") or "telegraf"),
        "start": "group",
        "start_group": group,
        "commit_group": group,
        **kafka_security("", *login),
        **_client_tls(one),
    }


def _mqtt_consumer(one: GivenOptions) -> dict[str, Any]:
    servers = [str(server) for server in as_list(one.get("servers") or "tcp://127.0.0.1:1883")]
    tls = _client_tls(one)
    if not tls and any(server.startswith(("ssl://", "tls://", "mqtts://")) for server in servers):
        tls = {"tls": {}}
    names = {"username": "user", "password": "password", "client_id": "client_id"}
    return {
        "type": "mqtt",
        "servers": [server.rpartition("://")[2] for server in servers],
        "topics": as_list(one.get("topics") or []),
        "qos": one.number("qos"),
        "version": "5" if str(one.get("protocol", "3.1.1")) == "5" else "3.1.1",
        **one.texts(names),
        **tls,
    }


def _listener(option: str) -> Callable[[GivenOptions], dict[str, Any]]:
    """A listener of messages or lines, at the address that an option has."""

    def make(one: GivenOptions) -> dict[str, Any]:
        scheme, _, address = str(one.get(option, "tcp://:6514")).partition("://")
        kinds = {"tcp": "tcp", "tcp4": "tcp", "udp": "udp", "udp4": "udp", "unix": "unix", "unixgram": "unixgram"}
        if scheme not in kinds:
            raise NoCounterpartError(f"the address {one.get(option)!r}; tcp://, udp:// and unix:// are read")
        files = one.texts({"tls_cert": "certificate", "tls_key": "key"})
        host = f"0.0.0.0{address}" if address.startswith(":") else address
        kind = "tls" if files and kinds[scheme] == "tcp" else kinds[scheme]
        return {"type": "syslog", "listen": [f"{kind}://{host}"], **({"tls": files} if kind == "tls" else {})}

    return make


SOURCES: Mapping[str, Callable[[GivenOptions], dict[str, Any]]] = {
    "tail": _tail,
    "logparser": _tail,
    "file": _whole_file,
    "kafka_consumer": _kafka_consumer,
    "mqtt_consumer": _mqtt_consumer,
    "socket_listener": _listener("service_address"),
    "syslog": _listener("server"),
}


def _file(one: GivenOptions) -> dict[str, Any]:
    path = next((str(name) for name in as_list(one.get("files") or []) if name != "stdout"), "")
    if one.get("data_format") not in (None, "json"):
        one.leave("data_format", f"{one['data_format']!r}; events are written as JSON")
    return {"type": "file", "path": path} if path else {"type": "console"}


def _client_tls(one: GivenOptions) -> dict[str, Any]:
    names = {"tls_ca": "authority", "tls_cert": "certificate", "tls_key": "key", "tls_key_pwd": "key_password"}
    made: dict[str, Any] = one.texts(names)
    if one.is_on("insecure_skip_verify"):
        made["verify"] = "none"
    return {"tls": made} if made or one.is_on("tls_enable") or one.is_on("enable_tls") else {}


def _kafka(one: GivenOptions) -> dict[str, Any]:
    compression = {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4", "4": "zstd"}
    login = [str(one.get(name, "")) for name in ("sasl_mechanism", "sasl_username", "sasl_password")]
    return {
        "type": "kafka",
        "servers": as_list(one.get("brokers")),
        "topic": str(one.get("topic", "telegraf")),
        "compression": compression.get(str(one.get("compression_codec", 0)), "none"),
        **kafka_security("", *login),
        **_client_tls(one),
    }


_INDEX_PART = re.compile(r"\{\{\s*(\w+)\s*\}\}|(?:%[A-Za-z][-._]?)+")


def _index(text: str) -> str:
    """``app-%Y.%m.%d`` and ``{{host}}`` as sinks write them."""

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return f"{{{clean_name(found[1])}}}"
        tail = found[0][-1] if not found[0][-1].isalpha() else ""
        return f"{{{java_pattern(found[0].removesuffix(tail) if tail else found[0])}}}{tail}"

    return _INDEX_PART.sub(replace, text)


def _elasticsearch(one: GivenOptions) -> dict[str, Any]:
    sink: dict[str, Any] = {
        "type": "elasticsearch",
        "urls": as_list(one.get("urls")),
        "index": _index(str(one.get("index_name", "telegraf"))),
    }
    if "%" in str(one.get("index_name", "")):
        sink["time_field"] = "timestamp"
    names = {"username": "user", "password": "password", "auth_bearer_token": "token", "use_pipeline": "pipeline"}
    gzip = {"compression": "gzip"} if one.is_on("enable_gzip") else {}
    return {**sink, **one.texts(names), **gzip, **_client_tls(one)}


def _http(one: GivenOptions) -> dict[str, Any]:
    headers = {name: str(value) for name, value in one.members("headers").items()}
    if one.get("data_format") not in (None, "json"):
        one.leave("data_format", f"{one['data_format']!r}; events are written as JSON")
    sink: dict[str, Any] = {"type": "http", "urls": [str(one.get("url", ""))], "method": str(one.get("method", "post")).upper()}
    gzip = {"compression": "gzip"} if one.get("content_encoding") == "gzip" else {}
    login = one.texts({"username": "user", "password": "password"})
    return {**sink, **({"headers": headers} if headers else {}), **login, **gzip, **_client_tls(one)}


OUTPUTS: Mapping[str, Callable[[GivenOptions], dict[str, Any]]] = {
    "file": _file,
    "discard": lambda one: {"type": "discard"},
    "kafka": _kafka,
    "elasticsearch": _elasticsearch,
    "http": _http,
}

WITHOUT_EFFECT = re.compile(
    r"""
    files | from_beginning | data_format | watch_method | max_undelivered_lines | pipe | initial_read_offset | interval | alias |
    log_level | metric_buffer_limit | metric_batch_size | flush_interval | flush_jitter | startup_error_behavior | timeout |
    name_override | grok | grok_patterns | grok_custom_patterns | grok_timezone | patterns | custom_patterns | timezone |
    measurement | health_check_interval | health_check_timeout | enable_sniffer | manage_template | template_name |
    overwrite_template | rotation_interval | rotation_max_size | rotation_max_archives | use_batch_format | max_retry |
    max_processing_time |
    client_id | version | required_acks | max_message_bytes | producer_timestamp | json_timestamp_units | idle_conn_timeout |
    max_idle_conn | non_retryable_statuscodes
    """,
    re.VERBOSE,
)
"""Options that tune Telegraf itself, or that another part of the import reads."""
