"""Inputs and outputs of Logstash → sources and sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.given_options import GivenOptions, kafka_security
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.configuration import Plugin
from etl.migration.logstash.references import TIME_FIELD, environment, field_name, sink_text
from etl.migration.object_store import leave_connection, leave_login, object_folder, object_glob, with_connection

Options = dict[str, Any]


def _file(given: GivenOptions) -> Options:
    paths = as_list(given.get("path") or [])
    if not paths:
        raise NoCounterpartError("the option 'path' is missing")
    if len(paths) > 1:
        raise NoCounterpartError(f"several paths; a source for each: {', '.join(map(str, paths))}")
    start = {"start": "end"} if given.get("start_position", "end") == "end" and given.get("mode", "tail") == "tail" else {}
    excluded = [str(one) for one in as_list(given.get("exclude") or [])]
    if given.get("delimiter", "\n") != "\n":
        given.leave("delimiter", "lines end at a newline")
    return {"type": "file", "path": environment(str(paths[0])), **start, **({"exclude": excluded} if excluded else {})}


def multiline(codec: Any) -> Options:
    """The option ``multiline`` of a source, for the codec of that name."""
    if not isinstance(codec, Plugin) or codec.name != "multiline":
        return {}
    pattern, negate = str(codec.options.get("pattern", "")), codec.options.get("negate") in (True, "true")
    if codec.options.get("what") == "next":
        if negate:
            return {"multiline": {"end": pattern}}
        raise NoCounterpartError("multiline with what => next and no negate; say which line begins an event")
    return {"multiline": {"start" if negate else "continue": pattern}}


_JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def _kafka_client(given: GivenOptions) -> Options:
    """What the source and the sink ``kafka`` need to connect."""
    servers = str(given.get("bootstrap_servers", "localhost:9092")).split(",")
    login = dict(_JAAS.findall(str(given.get("sasl_jaas_config", ""))))
    protocol, mechanism = str(given.get("security_protocol", "PLAINTEXT")), str(given.get("sasl_mechanism", "PLAIN"))
    made: Options = {"servers": [environment(one.strip()) for one in servers]}
    if protocol.upper().startswith("SASL") and not login:
        given.leave("sasl_mechanism", f"{mechanism} without a user and a password; other ways to log in are `properties`")
        protocol = protocol.upper().removeprefix("SASL_")
    user, password = (str(environment(login.get(name, ""))) for name in ("username", "password"))
    made |= kafka_security(protocol, mechanism, user, password)
    if "tls" in made:
        made["tls"] = _client_tls(given)
        if given.get("ssl_endpoint_identification_algorithm") == "":
            made["tls"]["verify"] = "authority"
    return made


def _kafka(given: GivenOptions) -> Options:
    source: Options = {"type": "kafka", **_kafka_client(given)}
    if group := given.get("group_id"):
        source |= {"start": "group", "start_group": environment(str(group)), "commit_group": environment(str(group))}
        if given.get("auto_offset_reset") == "latest":
            given.leave("auto_offset_reset", "a partition without an offset of the group is read from its first message")
    elif given.get("auto_offset_reset", "latest") == "latest":
        source["start"] = "latest"
    if given.get("isolation_level"):
        source["isolation"] = str(given["isolation_level"])
    if "topics_pattern" in given:
        return {**source, "pattern": str(given["topics_pattern"])}
    return {**source, "topics": [environment(str(one)) for one in as_list(given.get("topics") or ["logstash"])]}


def _server_tls(given: GivenOptions) -> Options:
    """The option ``tls`` of a receiver; empty if the input has no certificate."""
    enabled = any(given.is_on(name) for name in ("ssl", "ssl_enable", "ssl_enabled"))
    files = given.texts({"ssl_cert": "certificate", "ssl_certificate": "certificate", "ssl_key": "key"})
    authorities = [str(one) for one in as_list(given.get("ssl_certificate_authorities") or [])]
    verified = str(given.get("ssl_client_authentication") or given.get("ssl_verify_mode") or "none")
    if not enabled or "certificate" not in files:
        return {}
    if len(authorities) > 1:
        given.leave("ssl_certificate_authorities", "one file has all authorities: put them together")
    elif authorities and verified != "none":
        files["client_authority"] = authorities[0]
        if verified in ("optional", "peer"):
            files["client_certificates"] = "optional"
    return {"tls": {name: environment(value) for name, value in files.items()}}


def _client_tls(given: GivenOptions) -> Options:
    """The members of the option ``tls`` of a sink or source that connects."""
    names = {"cacert": "authority", "ssl_truststore_location": "authority", "ssl_certificate": "certificate", "ssl_key": "key"}
    made: Options = given.texts(names)
    authorities = [str(one) for one in as_list(given.get("ssl_certificate_authorities") or [])]
    made |= {"authority": authorities[0]} if authorities else {}
    if made.get("authority", "").lower().endswith((".jks", ".p12", ".pfx", ".keystore", ".truststore")):
        del made["authority"]
        given.leave("ssl_truststore_location", "authorities are a PEM file: `keytool -exportcert -rfc` writes one")
    if given.is_off("ssl_certificate_verification") or given.get("ssl_verification_mode") == "none":
        made["verify"] = "none"
    elif given.get("ssl_verification_mode") == "certificate":
        made["verify"] = "authority"
    return {name: environment(value) for name, value in made.items()}


def _address(given: GivenOptions, port: int) -> str:
    return f"{environment(str(given.get('host', '0.0.0.0')))}:{environment(str(given.get('port', port)))}"


def _listener(kinds: tuple[str, ...], port: int) -> Callable[[GivenOptions], Options]:
    def make(given: GivenOptions) -> Options:
        if given.get("mode", "server") != "server":
            raise NoCounterpartError("mode => client connects to a sender; here the source listens")
        tls = _server_tls(given) if "tcp" in kinds else {}
        at = _address(given, port)
        shown = [f"{'tls' if kind == 'tcp' and tls else kind}://{at}" for kind in kinds]
        return {"type": "syslog", "listen": shown, **tls}

    return make


def _beats(given: GivenOptions) -> Options:
    tls = _server_tls(given)
    return {"type": "beats", "listen": [f"{'tls' if tls else 'tcp'}://{_address(given, 5044)}"], **tls}


def _requests(given: GivenOptions) -> Options:
    tls = _server_tls(given)
    given.get("additional_codecs")
    return {"type": "http", "listen": [f"{'https' if tls else 'http'}://{_address(given, 8080)}"], "format": "json", **tls}


def _objects(given: GivenOptions) -> Options:
    if not given.get("bucket"):
        raise NoCounterpartError("the option 'bucket' is missing")
    path = object_glob(environment(str(given["bucket"])), environment(str(given.get("prefix", ""))))
    if given.get("exclude_pattern"):
        given.leave("exclude_pattern", "a regular expression; `exclude` of the source has globs")
    for name in ("delete", "backup_to_bucket", "backup_to_dir", "backup_add_prefix"):
        if given.get(name) and not given.is_off(name):
            given.leave(name, "objects stay where they are; a lifecycle rule of the bucket deletes or moves them")
    if given.is_off("watch_for_new_files"):
        given.leave("watch_for_new_files", "`etl run --once` reads what there is and ends")
    if given.get("gzip_pattern"):
        given.leave("gzip_pattern", "objects whose names end in .gz are decompressed")
    if given.is_on("include_object_properties"):
        given.leave("include_object_properties", "`path_field` gives bucket and key")
    leave_login(given, ("access_key_id", "secret_access_key", "session_token", "role_arn", "aws_credentials_file"))
    connection = environment(given.get("region")), environment(given.get("endpoint"))
    return {"type": "file", "path": with_connection(path, *connection), "rescan": f"{given.get('interval', 60)}s"}


def _elasticsearch_source(given: GivenOptions) -> Options:
    return {"type": "elasticsearch", **_elasticsearch_client(given), "index": str(given.get("index", "logstash-*"))}


def _elasticsearch_client(given: GivenOptions) -> Options:
    """What the source and the sink ``elasticsearch`` need to connect."""
    if given.get("cloud_id"):
        given.leave("cloud_id", "the addresses of the deployment are `urls`")
    urls = _urls(given)
    login = {name: environment(str(given[name])) for name in ("user", "password", "api_key") if given.get(name)}
    tls = _client_tls(given)
    return {"urls": urls, **login, **({"tls": tls} if tls and any(url.startswith("https") for url in urls) else {})}


def _urls(given: GivenOptions) -> list[str]:
    hosts = [str(environment(one)) for one in as_list(given.get("hosts") or ["localhost:9200"])]
    scheme = "https" if given.is_on("ssl") or given.is_on("ssl_enabled") else "http"
    urls = [one if "://" in one else f"{scheme}://{one}" for one in hosts]
    return [one if one.count(":") > 1 or "$" in one else f"{one}:9200" for one in urls]


INPUTS: Mapping[str, Callable[[GivenOptions], Options]] = {
    "file": _file,
    "stdin": lambda given: {"type": "stdin"},
    "kafka": _kafka,
    "syslog": _listener(("tcp", "udp"), 514),
    "tcp": _listener(("tcp",), 5000),
    "udp": _listener(("udp",), 5000),
    "elasticsearch": _elasticsearch_source,
    "beats": _beats,
    "elastic_agent": _beats,
    "http": _requests,
    "s3": _objects,
}

_QUEUE = "the source `file` with `notifications: {queue: URL}` reads the objects that they announce"

NO_INPUT: Mapping[str, str] = {
    "exec": "programs are not started; their output goes to the source `stdin`",
    "generator": "the source `generate` makes events",
    "jdbc": "the source `database` with the table and its increasing column",
    "redis": "the source `redis` reads streams, but not lists and channels",
    "s3snssqs": _QUEUE,
    "sqs": f"messages of a queue do not become events; where S3 sends them, {_QUEUE}",
}
"""Inputs without a counterpart, and what to do instead."""


def _elasticsearch(given: GivenOptions) -> Options:
    sink: Options = {"type": "elasticsearch", **_elasticsearch_client(given)}
    if given.is_on("http_compression") or str(given.get("compression_level", "0")) not in ("0", ""):
        sink["compression"] = "gzip"
    if given.get("pipeline"):
        if "%{" in str(given["pipeline"]):
            given.leave("pipeline", "a name that depends on the event")
        else:
            sink["pipeline"] = environment(str(given["pipeline"]))
    if given.is_on("data_stream"):
        parts = [str(given.get(f"data_stream_{one}", default)) for one, default in _STREAM]
        return {**sink, "index": "-".join(parts), "data_stream": True}
    sink["index"] = sink_text(given.get("index", "logstash-%{+yyyy.MM.dd}"))
    if {"{yyyy", "{MM", "{dd"} & {sink["index"][at : at + 5].rstrip(".-}") for at in range(len(sink["index"]))}:
        sink["time_field"] = TIME_FIELD
    if name := _one_field(given, "document_id"):
        sink |= {"id": [name], "action": "index"}
    if name := _one_field(given, "routing"):
        sink["routing"] = name
    if given.get("action") in ("create", "index", "update"):
        sink["action"] = str(given["action"])
    elif "action" in given:
        given.leave("action", f"{given['action']!r}; the sink's are create, index and update")
    return sink


_STREAM = (("type", "logs"), ("dataset", "generic"), ("namespace", "default"))
_ONE_FIELD = re.compile(r"%\{([^{}+]+)\}")


def _one_field(given: GivenOptions, option: str) -> str | None:
    """The field that an option names as ``%{field}``."""
    if not given.get(option):
        return None
    if found := _ONE_FIELD.fullmatch(str(given[option])):
        return field_name(found[1])
    given.leave(option, "the option takes one field, such as %{[host][name]}: compute that in a filter before")
    return None


def _kafka_sink(given: GivenOptions) -> Options:
    sink: Options = {"type": "kafka", **_kafka_client(given), "topic": sink_text(given.get("topic_id", "logstash"))}
    if name := _one_field(given, "message_key"):
        sink["key"] = name
    compression = str(given.get("compression_type", "none"))
    value = _text_format(given)
    return {**sink, "compression": compression, **({"value_field": value} if value else {})}


def _text_format(given: GivenOptions) -> str | None:
    """The field that a codec writes alone, of plain or line with ``format => "%{message}"``. Others are left to the report."""
    codec = given.get("codec", "plain")
    name, options = (codec.name, codec.options) if isinstance(codec, Plugin) else (str(codec), {})
    if name in ("json", "json_lines", "rubydebug"):
        return None
    form = str(options.get("format", ""))
    if name in ("plain", "line") and (found := _ONE_FIELD.fullmatch(form)):
        return field_name(found[1])
    if "codec" in given:
        given.leave("codec", f"the codec {name}{f' with the format {form!r}' if form else ''}; events are written as JSON")
    return None


def _file_sink(given: GivenOptions) -> Options:
    if "codec" in given and (name := _text_format(given)):
        given.leave("codec", f"{name} alone; events are written as JSON")
    sink = {"type": "file", "path": sink_text(given.get("path", "out.jsonl"))}
    if given.is_on("gzip"):
        sink["compression"] = "gzip"
    return {**sink, **({"time_field": TIME_FIELD} if "%{+" in str(given.get("path", "")) else {})}


def _object_sink(given: GivenOptions) -> Options:
    if not given.get("bucket"):
        raise NoCounterpartError("the option 'bucket' is missing")
    if "codec" in given and (name := _text_format(given)):
        given.leave("codec", f"{name} alone; events are written as JSON")
    prefix = sink_text(given.get("prefix", ""))
    if prefix and not prefix.endswith("/"):
        given.leave("prefix", "the beginning of names of objects; they are part-<time>-<number> here, in the folder before it")
    sink: Options = {"type": "file", "path": object_folder(sink_text(given["bucket"]), prefix)}
    leave_connection(given)
    if given.get("encoding") == "gzip":
        sink["compression"] = "gzip"
    strategy = str(given.get("rotation_strategy", "size_and_time"))
    roll: Options = {"max_bytes": int(given.get("size_file", 5 << 20))} if "size" in strategy else {}
    roll |= {"max_age": f"{given.get('time_file', 15)}m"} if "time" in strategy else {}
    leave_login(given, ("access_key_id", "secret_access_key", "session_token", "role_arn", "aws_credentials_file"))
    for name in ("canned_acl", "storage_class", "server_side_encryption", "server_side_encryption_algorithm", "ssekms_key_id"):
        if given.get(name) and not given.is_off(name):
            given.leave(name, "a setting of the bucket here")
    return {**sink, "roll": roll, **({"time_field": TIME_FIELD} if "%{+" in str(given.get("prefix", "")) else {})}


def _http(given: GivenOptions) -> Options:
    method = str(given.get("http_method", "post")).upper()
    form = "json" if given.get("format") == "json_batch" else "object"
    headers = {name: environment(str(value)) for name, value in given.members("headers").items()}
    sink: Options = {"type": "http", "urls": [environment(str(given.get("url", "")))], "method": method, "format": form}
    if given.get("format") not in (None, "json", "json_batch"):
        given.leave("format", f"{given['format']!r}; events are written as JSON")
    if given.is_on("http_compression"):
        sink["compression"] = "gzip"
    tls = _client_tls(given)
    more = {"batch": {"max_events": 1}} if form == "object" else {}
    login = {name: environment(str(given[name])) for name in ("user", "password") if given.get(name)}
    return {**sink, **more, **({"headers": headers} if headers else {}), **login, **({"tls": tls} if tls else {})}


def _syslog_sink(given: GivenOptions) -> Options:
    protocol = str(given.get("protocol", "udp"))
    scheme = {"tcp": "tcp", "udp": "udp", "ssl-tcp": "tls"}.get(protocol)
    if scheme is None:
        raise NoCounterpartError(f"the protocol {protocol!r}")
    at = f"{environment(str(given.get('host', 'localhost')))}:{environment(str(given.get('port', 514)))}"
    sink: Options = {"type": "syslog", "address": f"{scheme}://{at}", "format": str(given.get("rfc", "rfc3164"))}
    for theirs, ours in (("facility", "facility"), ("severity", "severity"), ("sourcehost", "host"), ("appname", "app_name")):
        if given.get(theirs):
            sink[ours] = sink_text(given[theirs])
    message = _one_field(given, "message") if "message" in given else "message"
    return {**sink, **({"value_field": message} if message else {}), **({"framing": "newline"} if scheme != "udp" else {})}


def _email_sink(given: GivenOptions) -> Options:
    sender = str(environment(given.get("from", "logstash.alert@example.com")))
    recipients = {
        name: [one.strip() for one in str(environment(given.get(name, ""))).split(",") if one.strip()] for name in ("to", "cc")
    }
    if not recipients["to"]:
        raise NoCounterpartError("the option 'to' is missing")
    if any("%{" in one for one in (sender, *recipients["to"], *recipients["cc"])):
        raise NoCounterpartError("addresses from fields; a sink `email` for each, with a `filter` before it")
    if any("%{+" in str(given.get(name, "")) for name in ("subject", "body")):
        raise NoCounterpartError("a date in subject or body; a step `set` with date_format makes a field of it")
    if "htmlbody" in given:
        given.leave("htmlbody", "mails are plain text")
    host, port = environment(str(given.get("address", "localhost"))), environment(str(given.get("port", 25)))
    login = {
        ours: environment(str(given[name])) for name, ours in (("username", "user"), ("password", "password")) if given.get(name)
    }
    is_encrypted = given.is_on("use_tls")
    if login and not is_encrypted:
        given.leave("use_tls", "not set, but a password is sent only over STARTTLS")
    return {
        "type": "email",
        "server": f"smtp://{host}:{port}",
        **({} if is_encrypted or login else {"encryption": "none"}),
        **login,
        "sender": sender,
        **{name: addresses for name, addresses in recipients.items() if addresses},
        "subject": sink_text(given.get("subject") or "alert"),
        "text": sink_text(given.get("body") or "{message}"),
        "digest": False,
    }


def _line_sink(scheme: str) -> Callable[[GivenOptions], Options]:
    def make(given: GivenOptions) -> Options:
        raise NoCounterpartError(
            f"there is no sink for lines over {scheme}; the sink `syslog` sends syslog messages, `http` requests"
        )

    return make


OUTPUTS: Mapping[str, Callable[[GivenOptions], Options]] = {
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "file": _file_sink,
    "kafka": _kafka_sink,
    "stdout": lambda given: {"type": "console"},
    "http": _http,
    "s3": _object_sink,
    "syslog": _syslog_sink,
    "email": _email_sink,
    "tcp": _line_sink("TCP"),
    "udp": _line_sink("UDP"),
    "null": lambda given: {"type": "discard"},
    "sink": lambda given: {"type": "discard"},
}


NO_OUTPUT: Mapping[str, str] = {
    "exec": "programs are not started",
    "pipeline": "one file has all streams, which name their input in `from`",
    "redis": "the sink `redis` writes lists, streams and channels: configure it with the server and the key",
    "statsd": "`etl run` has metrics of its own",
}
"""Outputs without a counterpart, and what to do instead."""

WITHOUT_EFFECT = re.compile(
    r"""
    temporary_directory | use_aws_bundled_ca | restore | upload_workers_count | upload_queue_size | upload_multipart_threshold |
    validate_credentials_on_root_bucket | retry_count | retry_delay | additional_settings |
    id | enable_metric | workers | codec | type | tags | add_field | threads | client_id | client_rack | pool_max |
    pool_max_per_route | timeout | sincedb_path | sincedb_write_interval | sincedb_clean_after | stat_interval |
    discover_interval | close_older | max_open_files | file_chunk_size | file_chunk_count | file_sort_by |
    file_sort_direction | ecs_compatibility | consumer_threads | fetch_max_bytes | fetch_max_wait_ms | fetch_min_bytes |
    max_partition_fetch_bytes | max_poll_interval_ms | max_poll_records | session_timeout_ms | heartbeat_interval_ms |
    request_timeout_ms | poll_timeout_ms | connections_max_idle_ms | enable_auto_commit | auto_commit_interval_ms |
    receive_buffer_bytes | send_buffer_bytes | metadata_max_age_ms | client_dns_lookup | reconnect_backoff_ms |
    retry_backoff_ms | check_crcs | partition_assignment_strategy | group_instance_id | auto_create_topics | acks |
    batch_size | linger_ms | retries | buffer_memory | max_request_size | metadata_fetch_timeout_ms | partitioner |
    key_serializer | value_serializer | key_deserializer_class | value_deserializer_class | security_protocol |
    manage_template | template_overwrite | template_api |
    retry_initial_interval | retry_max_interval | resurrect_delay | sniffing | sniffing_delay |
    sniffing_path | healthcheck_path | validate_after_inactivity | document_type | retry_on_conflict |
    data_stream_auto_routing | data_stream_sync_fields | flush_interval | create_if_deleted | stale_cleanup_interval |
    dir_mode | file_mode | filename_failure | write_behavior | automatic_retries | retry_failed | retry_non_idempotent |
    connect_timeout | socket_timeout | request_timeout | keepalive | cookies | follow_redirects | queue_size |
    response_headers | client_inactivity_timeout | executor_threads | tcp_keep_alive | dns_reverse_lookup_enabled |
    buffer_size | max_pending_requests | max_content_length | tls_min_version | tls_max_version |
    ssl_supported_protocols | ssl_cipher_suites | cipher_suites
    """,
    re.VERBOSE,
)
"""Options that tune Logstash itself and are left out without a note: Sluice manages offsets, connections and memory itself."""
