"""Inputs and outputs of Fluent Bit → sources and sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.fluent_bit.configuration import Section
from etl.migration.fluent_bit.parsers import key_name
from etl.migration.given_options import kafka_security
from etl.migration.journal import FOLDER
from etl.migration.strptime import java_pattern

Options = dict[str, Any]


def _tail(one: Section) -> Options:
    paths = [part.strip() for part in one.get("path").split(",") if part.strip()]
    if len(paths) != 1:
        raise NoCounterpartError("a source `file` for each path. Standard input is in its place")
    source: Options = {"type": "file", "path": paths[0]}
    if not one.options.is_on("read_from_head"):
        source["start"] = "end"
    if excluded := [part.strip() for part in one.get("exclude_path").split(",") if part.strip()]:
        source["exclude"] = excluded
    if preset := one.get("multiline.parser").split(",")[0].strip().lower():
        if preset in ("java", "python", "go", "ruby", "docker", "cri"):
            source["multiline"] = {"preset": preset}
        else:
            one.options.leave("multiline.parser", f"{preset!r}: `multiline` of the source has `start`, `continue` and `end`")
    if one.get("path_key"):
        source["path_field"] = clean_name(one.get("path_key"))
    return source


def _server_tls(one: Section) -> Options:
    if not one.options.is_on("tls"):
        return {}
    made: Options = one.options.texts({"tls.crt_file": "certificate", "tls.key_file": "key"})
    if one.options.is_on("tls.verify_client_cert") and one.get("tls.ca_file"):
        made["client_authority"] = one.get("tls.ca_file")
    return {"tls": made} if "certificate" in made else {}


_TLS_FILES = {
    "tls.ca_file": "authority",
    "tls.crt_file": "certificate",
    "tls.key_file": "key",
    "tls.key_passwd": "key_password",
}


def _client_tls(one: Section) -> Options:
    if not one.options.is_on("tls"):
        return {}
    made: Options = one.options.texts(_TLS_FILES)
    if one.options.is_off("tls.verify"):
        made["verify"] = "none"
    elif one.options.is_off("tls.verify_hostname"):
        made["verify"] = "authority"
    return {"tls": made}


def _listen(default: int) -> Callable[[Section], Options]:
    def make(one: Section) -> Options:
        mode = one.get("mode", one.name if one.name in ("tcp", "udp") else "udp").lower()
        if mode.startswith("unix"):
            path = one.get("path", "/tmp/in_syslog")
            return {"type": "syslog", "listen": [f"{'unix' if mode == 'unix_tcp' else 'unixgram'}://{path}"]}
        tls = _server_tls(one) if mode == "tcp" else {}
        at = f"{one.get('listen', '0.0.0.0')}:{one.get('port', str(default))}"
        return {"type": "syslog", "listen": [f"{'tls' if tls else mode}://{at}"], **tls}

    return make


def _forward(one: Section) -> Options:
    tls = _server_tls(one)
    at = f"{one.get('listen', '0.0.0.0')}:{one.get('port', '24224')}"
    return {
        "type": "forward",
        "listen": [f"{'tls' if tls else 'tcp'}://{at}"],
        **tls,
        **one.options.texts({"shared_key": "shared_key"}),
    }


def _requests(form: str, default: int) -> Callable[[Section], Options]:
    def make(one: Section) -> Options:
        tls = _server_tls(one)
        at = f"{one.get('listen', '0.0.0.0')}:{one.get('port', str(default))}"
        source: Options = {"type": "http", "listen": [f"{'https' if tls else 'http'}://{at}"], "format": form, **tls}
        tokens = [token.strip() for token in one.get("splunk_token").split(",") if token.strip()]
        return {**source, "tokens": tokens} if tokens else source

    return make


def _kafka_client(one: Section) -> Options:
    """Addresses, security and further properties of librdkafka."""
    given = {name.removeprefix("rdkafka."): one.get(name) for name, _ in one.entries if name.startswith("rdkafka.")}
    servers = one.get("brokers") or given.pop("bootstrap.servers", "") or "localhost:9092"
    mechanism = given.pop("sasl.mechanism", "") or given.pop("sasl.mechanisms", "")
    login = (given.pop("sasl.username", ""), given.pop("sasl.password", ""))
    security = kafka_security(given.pop("security.protocol", ""), mechanism, *login)
    if "tls" in security:
        security["tls"] = {ours: given.pop(theirs) for theirs, ours in _KAFKA_FILES.items() if theirs in given}
        if given.pop("enable.ssl.certificate.verification", "true").lower() == "false":
            security["tls"]["verify"] = "none"
    properties = {name: value for name, value in given.items() if name not in _KAFKA_OWN}
    return {"servers": servers.split(","), **security, **({"properties": properties} if properties else {})}


_KAFKA_FILES = {"ssl.ca.location": "authority", "ssl.certificate.location": "certificate", "ssl.key.location": "key"}
_KAFKA_OWN = frozenset(
    [
        *(
            "enable.idempotence",
            "enable.auto.commit",
            "enable.partition.eof",
            "transactional.id",
            "group.id",
            "auto.offset.reset",
        ),
        *("metadata.broker.list", "request.required.acks", "acks", "log_level"),
    ]
)
"""Properties that the connector sets itself, because its delivery guarantee depends on them."""


def _kafka_source(one: Section) -> Options:
    made = {"type": "kafka", **_kafka_client(one), "topics": one.get("topics").split(",")}
    group = one.get("group_id")
    return {**made, "start": "group", "start_group": group, "commit_group": group} if group else made


def _systemd(one: Section) -> Options:
    source: Options = {"type": "journald", "path": one.get("path", FOLDER)}
    return {**source, "start": "end"} if one.options.is_on("read_from_tail") else source


INPUTS: Mapping[str, Callable[[Section], Options]] = {
    "tail": _tail,
    "systemd": _systemd,
    "stdin": lambda one: {"type": "stdin"},
    "tcp": _listen(5170),
    "udp": _listen(5170),
    "syslog": _listen(5140),
    "forward": _forward,
    "http": _requests("json", 9880),
    "splunk": _requests("splunk_hec", 8088),
    "opentelemetry": _requests("opentelemetry", 4318),
    "elasticsearch": _requests("elasticsearch", 9200),
    "kafka": _kafka_source,
}


def _login(one: Section) -> Options:
    return one.options.texts({"http_user": "user", "http_passwd": "password"})


def _compression(one: Section) -> Options:
    if one.get("compress") not in ("", "gzip"):
        one.options.leave("compress", f"{one.get('compress')!r}; the sink compresses by gzip")
    return {"compression": "gzip"} if one.get("compress") == "gzip" else {}


def _url(one: Section, port: int, path: str, tls: Options) -> str:
    return f"{'https' if tls else 'http'}://{one.get('host', '127.0.0.1')}:{one.get('port', str(port))}{path}"


def _json_only(one: Section, *formats: str) -> None:
    if one.get("format").lower() not in ("", "json", *formats):
        one.options.leave("format", f"{one.get('format')!r}; events are written as JSON")


def _elasticsearch(one: Section) -> Options:
    tls = _client_tls(one)
    index = one.get("logstash_prefix", "logstash") if one.options.is_on("logstash_format") else one.get("index", "fluent-bit")
    sink: Options = {"type": "elasticsearch", "urls": [_url(one, 9200, "", tls)], **_login(one), **tls, **_compression(one)}
    sink |= {"index": index, **one.options.texts({"pipeline": "pipeline"})}
    key, operation = one.get("id_key"), one.get("write_operation").lower()
    if key:
        sink |= {"id": [clean_name(key.lstrip("$"))], "action": "index"}
    if operation == "create" or (key and operation in ("index", "update")):
        sink["action"] = operation
    elif operation:
        one.options.leave("write_operation", f"{operation!r}; the sink's `action` is create, index or update, with an `id`")
    return sink


def daily_index(one: Section, prefix: str) -> str:
    """The index of a day, as sinks write it: ``app-{yyyy.MM.dd}``. Raises NoCounterpartError."""
    if not one.options.is_on("logstash_format"):
        return re.sub(r"(?:%[A-Za-z][-_.]?)*%[A-Za-z]", lambda found: f"{{{java_pattern(found[0])}}}", prefix)
    separator, pattern = one.get("logstash_prefix_separator", "-"), one.get("logstash_dateformat", "%Y.%m.%d")
    return f"{prefix}{separator}{{{java_pattern(pattern)}}}"


def has_daily_index(one: Section) -> bool:
    """Whether the index has a date: by ``logstash_format``, or as ``%Y`` in its name."""
    return one.options.is_on("logstash_format") or "%" in one.get("index")


def _headers(one: Section) -> Options:
    pairs = [value.split(None, 1) for value in one.all("header")]
    made = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    return {"headers": made} if made else {}


def _http(one: Section) -> Options:
    tls = _client_tls(one)
    form = "ndjson" if one.get("format").lower() in ("json_lines", "json_stream") else "json"
    _json_only(one, "json_lines", "json_stream")
    sink: Options = {"type": "http", "urls": [_url(one, 80, one.get("uri", "/"), tls)], "format": form}
    return {**sink, **_headers(one), **_login(one), **_compression(one), **tls}


def _label(key: str) -> str:
    """The name of a label for a key."""
    return key_name(key).replace(".", "_")


def _loki(one: Section) -> Options:
    tls = _client_tls(one)
    labels: dict[str, str] = {}
    for part in one.get("labels", "job=fluent-bit").split(","):
        name, _, value = part.strip().partition("=")
        if not value and name.startswith("$"):  # `$key` is a label of that name
            labels[_label(name)] = f"{{{key_name(name)}}}"
        elif name:
            labels[clean_name(name)] = f"{{{key_name(value)}}}" if value.startswith("$") else value
    for name in filter(None, map(str.strip, one.get("label_keys", "").split(","))):
        labels[_label(name)] = f"{{{key_name(name)}}}"
    given = one.options.texts({"bearer_token": "token", "tenant_id": "tenant"})
    sink: Options = {"type": "loki", "urls": [_url(one, 3100, "", tls)], "labels": labels or {"job": "fluent-bit"}}
    return {**sink, **given, **_headers(one), **_login(one), **tls}


_SPLUNK = {
    "splunk_token": "token",
    "event_host": "host",
    "event_source": "source",
    "event_sourcetype": "sourcetype",
    "event_index": "index",
}


def _splunk(one: Section) -> Options:
    tls = _client_tls(one)
    if not one.get("splunk_token"):
        raise NoCounterpartError("the option 'splunk_token' is missing")
    sink: Options = {"type": "splunk_hec", "urls": [_url(one, 8088, "", tls)]}
    return {**sink, **one.options.texts(_SPLUNK), **_compression(one), **tls}


def _syslog(one: Section) -> Options:
    mode = one.get("mode", "udp").lower()
    tls = _client_tls(one)
    scheme = "tls" if tls else mode
    if scheme not in ("tcp", "udp", "tls"):
        raise NoCounterpartError(f"the mode {mode!r}")
    sink: Options = {"type": "syslog", "address": f"{scheme}://{one.get('host', '127.0.0.1')}:{one.get('port', '514')}"}
    if key := one.get("syslog_message_key"):
        sink["value_field"] = clean_name(key.lstrip("$"))
    return {**sink, "format": one.get("syslog_format", "rfc5424"), **({"framing": "newline"} if scheme == "tcp" else {}), **tls}


def _file(one: Section) -> Options:
    _json_only(one, "plain")
    return {"type": "file", "path": f"{one.get('path', '.').rstrip('/')}/{one.get('file', 'fluent-bit.jsonl')}"}


def _kafka_sink(one: Section) -> Options:
    _json_only(one)
    sink: Options = {"type": "kafka", **_kafka_client(one), "topic": one.get("topics", "fluent-bit").split(",")[0]}
    return {**sink, "key": clean_name(one.get("message_key_field"))} if one.get("message_key_field") else sink


OUTPUTS: Mapping[str, Callable[[Section], Options]] = {
    "stdout": lambda one: {"type": "console"},
    "null": lambda one: {"type": "discard"},
    "file": _file,
    "es": _elasticsearch,
    "opensearch": _elasticsearch,
    "http": _http,
    "loki": _loki,
    "splunk": _splunk,
    "syslog": _syslog,
    "kafka": _kafka_sink,
}

WITHOUT_EFFECT = re.compile(
    r"""
    name | alias | tag | match | match_regex | parser | key | db | refresh_interval | rotate_wait | skip_long_lines |
    skip_empty_lines | buffer_chunk_size | buffer_max_size | static_batch_size | mem_buf_limit | buffer_size | threaded
    | watcher_interval | inotify_watcher | chunk_size | workers | retry_limit | log_level | type | suppress_type_name |
    trace_error | trace_output | generate_id | replace_dots | current_time_index | logstash_prefix |
    logstash_prefix_separator | logstash_dateformat | mkdir | timestamp_key | queue_full_retries | line_format |
    auto_kubernetes_labels | successful_response_code | poll_ms | data_mode | receive_buffer_size | tls\.debug |
    max_fields | max_entries |
    tls\.vhost | splunk_send_raw | syslog_maxsize | net\.\w+(?:\.\w+)* | storage\.\w+(?:\.\w+)* | db\.\w+(?:\.\w+)*
    """,
    re.VERBOSE,
)
"""Options that tune Fluent Bit itself, or that another part of the import reads."""
