"""Outputs of Logstash → sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from etl.migration.draft import NoCounterpartError
from etl.migration.given_options import GivenOptions
from etl.migration.logstash.client_options import Options, client_tls, elasticsearch_client, kafka_client
from etl.migration.logstash.configuration import Plugin
from etl.migration.logstash.references import TIME_FIELD, environment, field_name, sink_text
from etl.migration.object_store import leave_connection, leave_login, object_folder


def _elasticsearch(given: GivenOptions) -> Options:
    sink: Options = {"type": "elasticsearch", **elasticsearch_client(given)}
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
    sink: Options = {"type": "kafka", **kafka_client(given), "topic": sink_text(given.get("topic_id", "logstash"))}
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
    tls = client_tls(given)
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
