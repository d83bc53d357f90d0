"""Sources and sinks of Vector → sources and sinks here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.given_options import GivenOptions, kafka_security
from etl.migration.ingest.processor import as_list
from etl.migration.journal import FOLDER
from etl.migration.object_store import leave_connection, leave_login, object_folder, object_glob, with_connection
from etl.migration.strptime import java_pattern

Options = dict[str, Any]

STDIN = "Standard input is in its place"


def _file(one: GivenOptions) -> Options:
    paths = as_list(one.get("include") or [])
    if len(paths) != 1:
        raise NoCounterpartError(f"a source `file` for each path. {STDIN}")
    source: Options = {"type": "file", "path": str(paths[0])}
    if one.get("read_from") == "end" or one.is_on("ignore_checkpoints"):
        source["start"] = "end"
    if excluded := [str(name) for name in as_list(one.get("exclude") or [])]:
        source["exclude"] = excluded
    if one.get("file_key"):
        source["path_field"] = clean_name(str(one["file_key"]))
    return {**source, **_multiline(one)}


def _multiline(one: GivenOptions) -> Options:
    """The option ``multiline`` of the source ``file``."""
    multiline = one.members("multiline")
    mode = multiline.get("mode")
    if mode in ("halt_before", "continue_through"):
        key = "start" if mode == "halt_before" else "continue"
        pattern = str(multiline.get("condition_pattern") or multiline.get("start_pattern"))
        multiline.get("start_pattern")
        return {"multiline": {key: pattern}}
    if mode:
        one.leave("multiline", f"the mode {mode!r}; `multiline` of the source has `start`, `continue` and `end`")
    return {}


def _objects(one: GivenOptions) -> Options:
    sqs = one.members("sqs")
    if not sqs.get("queue_url"):
        raise NoCounterpartError(f"the option 'sqs.queue_url' is missing. {STDIN}")
    one.leave("bucket", "the messages name it there; here it is in `path`, as ${S3_BUCKET}")
    if sqs.is_off("delete_message"):
        sqs.leave("delete_message", "messages are deleted when all sinks have their objects")
    if one.get("compression", "auto") != "auto":
        one.leave("compression", f"{one['compression']!r}; objects whose names end in .gz, .zst and .bz2 are decompressed")
    leave_login(one, ("auth", "assume_role"))
    region = one.get("region")
    notifications = {"queue": str(sqs["queue_url"]), "visibility": f"{sqs.get('visibility_timeout_secs', 300)}s"}
    notifications |= {"region": str(region)} if region else {}
    path = with_connection(object_glob("${S3_BUCKET:?the bucket that the notifications are about}"), region, one.get("endpoint"))
    return {"type": "file", "path": path, "notifications": notifications, **_multiline(one)}


_TLS_FILES = {"ca_file": "authority", "crt_file": "certificate", "key_file": "key", "key_pass": "key_password"}


def _tls(one: GivenOptions, *, always: bool = False) -> Options:
    """The option ``tls`` of what connects."""
    given = one.members("tls")
    made: Options = given.texts(
        {"ca_file": "authority", "crt_file": "certificate", "key_file": "key", "key_pass": "key_password"}
    )
    if given.is_off("verify_certificate"):
        made["verify"] = "none"
    elif given.is_off("verify_hostname"):
        made["verify"] = "authority"
    return {"tls": made} if made or always or given.is_on("enabled") else {}


def _server_tls(one: GivenOptions) -> Options:
    """The option ``tls`` of a receiver; none where it has no certificate."""
    given = one.members("tls")
    if not given.is_on("enabled"):
        return {}
    made = given.texts({"crt_file": "certificate", "key_file": "key"})
    if given.is_on("verify_certificate") and given.get("ca_file"):
        made["client_authority"] = str(given["ca_file"])
    return {"tls": made} if "certificate" in made else {}


def _kafka_client(one: GivenOptions) -> Options:
    servers = [part.strip() for part in str(one.get("bootstrap_servers", "localhost:9092")).split(",")]
    sasl = one.members("sasl")
    login = [str(sasl.get(name, "")) for name in ("mechanism", "username", "password")] if sasl.is_on("enabled") else ["", "", ""]
    tls = _tls(one) if one.members("tls").is_on("enabled") else {}
    properties = {name: value for name, value in one.members("librdkafka_options").items() if name not in _KAFKA_OWN}
    more = {"properties": properties} if properties else {}
    return {"type": "kafka", "servers": servers, **kafka_security("", *login), **tls, **more}


_KAFKA_OWN = ("group.id", "enable.auto.commit", "auto.offset.reset", "transactional.id", "enable.idempotence", "acks")


def _kafka(one: GivenOptions) -> Options:
    source: Options = {**_kafka_client(one), "topics": [str(topic) for topic in as_list(one.get("topics") or [])]}
    if group := one.get("group_id"):
        source |= {"start": "group", "start_group": str(group), "commit_group": str(group)}
    if one.get("auto_offset_reset") in ("latest", "largest", "end"):
        one.leave("auto_offset_reset", "a partition without an offset of the group is read from its first message")
    if one.get("key_field"):
        source["key_field"] = clean_name(str(one["key_field"]).lstrip("."))
    return source


def _listen(one: GivenOptions) -> Options:
    mode = str(one.get("mode", "tcp"))
    if mode not in ("tcp", "udp"):
        raise NoCounterpartError(f"the mode {mode!r}. {STDIN}")
    tls = _server_tls(one) if mode == "tcp" else {}
    codec = str(one.members("decoding").get("codec", "bytes"))
    if codec not in ("bytes", "syslog"):
        one.leave("decoding.codec", f"{codec!r}; messages of syslog and lines are read: a parser after the source reads more")
    return {"type": "syslog", "listen": [f"{'tls' if tls else mode}://{one.get('address', '0.0.0.0:514')}"], **tls}


def _receiver(type_: str, address: str) -> Callable[[GivenOptions], Options]:
    def make(one: GivenOptions) -> Options:
        tls = _server_tls(one)
        return {"type": type_, "listen": [f"{'tls' if tls else 'tcp'}://{one.get('address', address)}"], **tls}

    return make


def _requests(one: GivenOptions) -> Options:
    codec = one.members("decoding").get("codec") or one.get("encoding") or "text"
    return _http_source(one, {"json": "json", "ndjson": "ndjson"}.get(str(codec), "text"), str(one.get("address", "0.0.0.0:80")))


def _http_source(one: GivenOptions, form: str, address: str) -> Options:
    tls = _server_tls(one)
    return {"type": "http", "listen": [f"{'https' if tls else 'http'}://{address}"], "format": form, **tls}


def _splunk_source(one: GivenOptions) -> Options:
    tokens = [str(token) for token in [*as_list(one.get("valid_tokens") or []), *as_list(one.get("token") or [])]]
    source = _http_source(one, "splunk_hec", str(one.get("address", "0.0.0.0:8088")))
    return {**source, "tokens": tokens} if tokens else source


def _opentelemetry(one: GivenOptions) -> Options:
    if one.get("grpc"):
        one.leave("grpc", "OTLP over HTTP only")
    return _http_source(one.members("http"), "opentelemetry", str(one.members("http").get("address", "0.0.0.0:4318")))


def _journald(one: GivenOptions) -> Options:
    source: Options = {"type": "journald", "path": str(one.get("journal_directory") or FOLDER)}
    if one.is_on("remap_priority"):
        one.leave("remap_priority", "PRIORITY is a number; a step `set` with a CASE gives names")
    return {**source, "start": "end"} if one.is_on("since_now") else source


SOURCES: Mapping[str, Callable[[GivenOptions], Options]] = {
    "file": _file,
    "aws_s3": _objects,
    "journald": _journald,
    "stdin": lambda one: {"type": "stdin"},
    "syslog": _listen,
    "socket": _listen,
    "kafka": _kafka,
    "http_server": _requests,
    "http": _requests,
    "splunk_hec": _splunk_source,
    "opentelemetry": _opentelemetry,
    "logstash": _receiver("beats", "0.0.0.0:5044"),
    "fluent": _receiver("forward", "0.0.0.0:24224"),
}


def _template(text: Any) -> str:
    """``{{ field }}`` and ``%Y-%m-%d`` as sinks write them."""
    made = re.sub(r"\{\{\s*\.?([\w.@]+)\s*\}\}", r"{\1}", str(text))
    return re.sub(r"(?:%[A-Za-z][-_./]?)+", lambda found: _date(found[0]), made)


def _date(text: str) -> str:
    tail = text[-1] if not text[-1].isalpha() else ""
    return "{" + java_pattern(text.removesuffix(tail) if tail else text) + "}" + tail


DATE = r"\{[yMdHhmsDE'.:/_ -]+\}"
"""A pattern of a time in a template of a sink."""


def _timed(options: Options, option: str) -> Options:
    """The options with ``time_field``, where a template has parts of a time."""
    return {**options, "time_field": "timestamp"} if re.search(DATE, str(options[option])) else options


def _encoded_as(one: GivenOptions) -> str | None:
    """The field that is written alone; None for events as JSON."""
    encoding = one.members("encoding")
    codec = str(encoding.get("codec", "json"))
    if codec in ("text", "raw_message"):
        return "message"
    if codec not in ("json", "native_json", "ndjson"):
        one.leave("encoding.codec", f"{codec!r}; events are written as JSON")
    return None


def _compression(one: GivenOptions, *kinds: str) -> Options:
    given = one.get("compression", "none")
    algorithm = given.get("algorithm") if isinstance(given, GivenOptions) else given
    if algorithm in ("none", None):
        return {}
    if algorithm not in kinds:
        one.leave("compression", f"{algorithm!r}; the sink's are {', '.join(kinds)}")
        return {}
    return {"compression": str(algorithm)}


def _login(one: GivenOptions) -> Options:
    auth = one.members("auth")
    if auth.get("strategy") not in (None, "basic", "bearer"):
        one.leave("auth.strategy", f"{auth['strategy']!r}; users and tokens log in")
    return auth.texts({"user": "user", "password": "password", "token": "token"})


def _elasticsearch(one: GivenOptions) -> Options:
    urls = [
        str(url) for url in as_list(one.get("endpoints") or one.get("endpoint") or one.get("host") or ["http://localhost:9200"])
    ]
    sink: Options = {"type": "elasticsearch", "urls": urls, **_login(one), **_tls(one), **_compression(one, "gzip")}
    if one.get("pipeline"):
        sink["pipeline"] = str(one["pipeline"])
    if one.get("mode") == "data_stream":
        stream = one.members("data_stream")
        parts = [str(stream.get(name, default)) for name, default in _STREAM]
        sink |= {"index": _template("-".join(parts)), "data_stream": True}
        return {**sink, "time_field": "@timestamp"} if re.search(DATE, sink["index"]) else sink
    bulk = one.members("bulk")
    sink["index"] = _template(bulk.get("index", "vector-%Y.%m.%d"))
    if one.get("id_key"):
        sink |= {"id": [clean_name(str(one["id_key"]).lstrip("."))], "action": "index"}
    if bulk.get("action") in ("create", "index", "update"):
        sink["action"] = str(bulk["action"])
    return _timed(sink, "index")


_STREAM = (("type", "logs"), ("dataset", "generic"), ("namespace", "default"))


def _console(one: GivenOptions) -> Options:
    if _encoded_as(one):
        one.leave("encoding.codec", "'text'; events are written as JSON")
    return {"type": "console"}


def _file_sink(one: GivenOptions) -> Options:
    if _encoded_as(one):
        one.leave("encoding.codec", "'text'; events are written as JSON")
    sink = {"type": "file", "path": _template(one.get("path", "out.jsonl")), **_compression(one, "gzip", "zstd")}
    return _timed(sink, "path")


def _object_sink(one: GivenOptions) -> Options:
    if not one.get("bucket"):
        raise NoCounterpartError("the option 'bucket' is missing. Its events are discarded")
    if _encoded_as(one):
        one.leave("encoding.codec", "'text'; events are written as JSON")
    prefix = _template(one.get("key_prefix", "date=%F/").replace("%F", "%Y-%m-%d"))
    if prefix and not prefix.endswith("/"):
        one.leave("key_prefix", "the beginning of names of objects; they are part-<time>-<number> here, in the folder before it")
    path = object_folder(str(one["bucket"]), prefix)
    leave_connection(one)
    leave_login(one, ("auth", "assume_role"))
    for name in ("acl", "storage_class", "server_side_encryption", "ssekms_key_id", "tags", "grant_read", "grant_full_control"):
        if name in one:
            one.leave(name, "a setting of the bucket here")
    batch = one.members("batch")
    age = {"max_age": f"{batch.get('timeout_secs', 300)}s", "max_bytes": int(batch.get("max_bytes", 10_000_000))}
    gzip = _compression(one, "gzip", "zstd") if "compression" in one else {"compression": "gzip"}
    return _timed({"type": "file", "path": path, "roll": age, **gzip}, "path")


def _kafka_sink(one: GivenOptions) -> Options:
    sink = {**_kafka_client(one), "topic": _template(one.get("topic", "vector"))}
    if one.get("key_field"):
        sink["key"] = clean_name(str(one["key_field"]).lstrip("."))
    sink |= {"compression": "none", **_compression(one, "gzip", "snappy", "lz4", "zstd")}
    value = _encoded_as(one)
    return {**sink, "value_field": value} if value else sink


def _http(one: GivenOptions) -> Options:
    if _encoded_as(one):
        one.leave("encoding.codec", "'text'; events are written as JSON")
    form = "ndjson" if one.members("framing").get("method") == "newline_delimited" else "json"
    sink: Options = {"type": "http", "urls": [str(one.get("uri", ""))], "method": str(one.get("method", "post")).upper()}
    headers = {name: str(value) for name, value in one.members("request").members("headers").items()}
    sink |= {"format": form, **({"headers": headers} if headers else {})}
    return {**sink, **_login(one), **_compression(one, "gzip"), **_tls(one)}


def _loki(one: GivenOptions) -> Options:
    labels = {clean_name(name): _template(value) for name, value in one.members("labels").items() if "*" not in name}
    if not labels:
        labels = {"job": "vector"}
        one.leave("labels", "Loki's streams need a label, and none is given; `job: vector` stands in their place")
    sink: Options = {"type": "loki", "urls": [str(one.get("endpoint", "http://localhost:3100"))], "labels": labels}
    value = _encoded_as(one)
    more = {**one.texts({"tenant_id": "tenant"}), **({"value_field": value} if value else {})}
    return {**sink, **more, **_login(one), **_compression(one, "gzip"), **_tls(one)}


_SPLUNK = {"index": "index", "source": "source", "sourcetype": "sourcetype"}


def _splunk(one: GivenOptions) -> Options:
    token = one.get("default_token") or one.get("token")
    if not token:
        raise NoCounterpartError("the option 'default_token' is missing. Its events are discarded")
    sink: Options = {"type": "splunk_hec", "urls": [str(one.get("endpoint", "http://localhost:8088"))], "token": str(token)}
    value = _encoded_as(one)
    named = {ours: _template(text) for ours, text in one.texts(_SPLUNK).items()}
    return {**sink, **named, **({"value_field": value} if value else {}), **_compression(one, "gzip"), **_tls(one)}


def _clickhouse(one: GivenOptions) -> Options:
    if not one.get("table"):
        raise NoCounterpartError("the option 'table' is missing. Its events are discarded")
    table = _template(one["table"])
    if "{" in table:
        raise NoCounterpartError("a table whose name depends on the event; a sink for each. Its events are discarded")
    database = str(one.get("database") or "")
    sink: Options = {"type": "clickhouse", "urls": [str(one.get("endpoint", "http://localhost:8123"))]}
    sink["table"] = f"{database}.{table}" if database else table
    settings = {"input_format_skip_unknown_fields": "1"} if one.is_on("skip_unknown_fields") else {}
    settings |= {"date_time_input_format": "best_effort"} if one.is_on("date_time_best_effort") else {}
    one.members("encoding").get("timestamp_format")  # events go there as Arrow, which has types
    return {**sink, **({"settings": settings} if settings else {}), **_login(one), **_tls(one)}


SINKS: Mapping[str, Callable[[GivenOptions], Options]] = {
    "console": _console,
    "blackhole": lambda one: {"type": "discard"},
    "file": _file_sink,
    "aws_s3": _object_sink,
    "kafka": _kafka_sink,
    "http": _http,
    "elasticsearch": _elasticsearch,
    "loki": _loki,
    "clickhouse": _clickhouse,
    "splunk_hec": _splunk,
    "splunk_hec_logs": _splunk,
}

WITHOUT_EFFECT = re.compile(
    r"""
    filename_append_uuid | filename_extension | filename_time_format | content_encoding | content_type | force_path_style |
    framing |
    poll_secs | client_concurrency | max_number_of_messages |
    type | inputs | data_dir | buffer | batch | healthcheck | healthchecks | acknowledgements | request | distribution |
    targets? |
    print_interval_secs | rate | glob_minimum_cooldown_ms | fingerprint | oldest_first | max_read_bytes | max_line_bytes |
    rotate_wait_secs | remove_after_secs | line_delimiter | host_key | port_key | ignore_not_found | session_timeout_ms |
    socket_timeout_ms | message_timeout_ms | fetch_wait_max_ms | commit_interval_ms | drain_timeout_ms | metrics |
    api_version | doc_type | suppress_type_name | request_retry_partial | query | idle_timeout_secs | internal_metrics |
    max_length | keepalive | receive_buffer_bytes | connection_limit | shutdown_timeout_secs | out_of_order_action |
    batch_size | journalctl_path | data_dir |
    remove_timestamp | read_from | timeout_ms | log_namespace | enabled | strategy | alpn_protocols | server_name
    """,
    re.VERBOSE,
)
"""Options that tune Vector itself, or that another part of the import reads."""
