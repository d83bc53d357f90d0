"""Outputs of Filebeat → sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.filebeat.inputs import Options, client_tls, kafka_client
from etl.migration.given_options import GivenOptions
from etl.migration.ingest.processor import as_list

TIME_FIELD = "@timestamp"

_SLOT = re.compile(r"%\{\+([^{}]+)\}|%\{\[([^{}]+)\](?::([^{}]*))?\}")


def sink_text(text: Any) -> str:
    """``%{[a.b]}`` and ``%{+yyyy.MM.dd}`` as sinks write them. Raises NoCounterpartError for a default in a field's place."""

    def replace(found: re.Match[str]) -> str:
        if found[1]:
            return "{" + found[1].replace("x", "Y" if "w" in found[1] else "y") + "}"
        if found[2] in ("agent.version", "beat.version"):
            return "8"
        if found[3] is not None:
            raise NoCounterpartError(f"{found[0]}: a field with a default; a step `set` with coalesce gives it before")
        return "{" + clean_name(found[2].replace("][", ".")) + "}"

    return _SLOT.sub(replace, str(text))


def has_time(text: str) -> bool:
    """Whether a text of a sink has parts of a time."""
    return re.search(r"\{[yYMdHhmswe'.:/_ -]+\}", text) is not None


def _timed(options: Options, option: str) -> Options:
    return {**options, "time_field": TIME_FIELD} if has_time(str(options[option])) else options


def _elasticsearch(one: GivenOptions) -> Options:
    scheme = str(one.get("protocol") or ("https" if one.members("ssl").is_on("enabled") or one.members("ssl") else "http"))
    path = str(one.get("path") or "").rstrip("/")
    urls = [_url(str(host), scheme, path) for host in as_list(one.get("hosts") or ["localhost:9200"])]
    sink: Options = {"type": "elasticsearch", "urls": urls, **one.texts({"username": "user", "password": "password"})}
    if one.get("api_key"):
        sink["api_key"] = _api_key(str(one["api_key"]))
    if any(url.startswith("https") for url in urls):
        sink |= client_tls(one)
    if one.get("compression_level", 1) not in (0, "0"):
        sink["compression"] = "gzip"
    if one.get("pipeline"):
        sink["pipeline"] = str(one["pipeline"])
        if "%{" in sink["pipeline"]:
            one.leave("pipeline", "a name that depends on the event")
            del sink["pipeline"]
    if "index" in one:
        return _timed({**sink, "index": sink_text(one["index"])}, "index")
    return {**sink, "index": "filebeat", "data_stream": True}


def _url(host: str, scheme: str, path: str) -> str:
    url = host if "://" in host else f"{scheme}://{host}"
    after = url.partition("://")[2]
    if "$" not in url and not re.search(r":\d+(/|$)", after):
        name, slash, rest = after.partition("/")
        url = f"{url.partition('://')[0]}://{name}:9200{slash}{rest}"
    return url if "/" in after else f"{url}{path}"


def _api_key(text: str) -> str:
    """``id:key`` is encoded, as the server returns it; a variable of the environment has to be."""
    import base64

    return base64.b64encode(text.encode()).decode() if ":" in text and "$" not in text else text


def _kafka(one: GivenOptions) -> Options:
    sink: Options = {**kafka_client(one), "topic": sink_text(one.get("topic") or "filebeat")}
    if one.get("key"):
        if found := re.fullmatch(r"%\{\[([^{}]+)\]\}", str(one["key"])):
            sink["key"] = clean_name(found[1].replace("][", "."))
        else:
            one.leave("key", "the option takes one field: compute that in a step before")
    compression = str(one.get("compression", "gzip"))
    sink["compression"] = compression
    if value := text_format(one):
        sink["value_field"] = value
    return sink


def text_format(one: GivenOptions) -> str | None:
    """The field that a codec writes alone; None for events as JSON."""
    codec = one.members("codec").members("format")
    if "string" not in codec:
        return None
    if found := re.fullmatch(r"%\{\[([^{}]+)\]\}", str(codec["string"])):
        return clean_name(found[1].replace("][", "."))
    one.leave("codec.format", f"{codec['string']!r}; events are written as JSON")
    return None


def _redis(one: GivenOptions) -> Options:
    hosts = [str(host) for host in as_list(one.get("hosts") or ["localhost:6379"])]
    if len(hosts) > 1:
        one.leave("hosts", "events are spread over servers there; the first is used")
    scheme = "rediss" if one.members("ssl").is_on("enabled") else "redis"
    url = hosts[0] if "://" in hosts[0] else f"{scheme}://{hosts[0]}"
    sink: Options = {"type": "redis", "url": f"{url}/{one.get('db', 0)}", "key": sink_text(one.get("key") or "filebeat")}
    sink |= one.texts({"username": "user", "password": "password"})
    sink["kind"] = "channel" if one.get("datatype") == "channel" else "list"
    return {**sink, **(client_tls(one) if scheme == "rediss" else {})}


def _file(one: GivenOptions) -> Options:
    if text_format(one):
        one.leave("codec.format", "events are written as JSON")
    name = sink_text(one.get("filename") or "filebeat")
    path = f"{sink_text(one.get('path') or '.').rstrip('/')}/{name if '.' in name else name + '.ndjson'}"
    return _timed({"type": "file", "path": path}, "path")


def _console(one: GivenOptions) -> Options:
    if text_format(one):
        one.leave("codec.format", "events are written as JSON")
    return {"type": "console"}


OUTPUTS: Mapping[str, Callable[[GivenOptions], Options]] = {
    "console": _console,
    "discard": lambda one: {"type": "discard"},
    "elasticsearch": _elasticsearch,
    "file": _file,
    "kafka": _kafka,
    "redis": _redis,
}

NO_OUTPUT: Mapping[str, str] = {
    "logstash": "no sink speaks Lumberjack: import Logstash's configuration, too, or send by the sink `http` to its input http",
}
"""Outputs without a counterpart, and what to do instead."""

WITHOUT_EFFECT = re.compile(
    r"""
    enabled | worker | workers | loadbalance | bulk_max_size | bulk_max_body_size | max_retries | backoff | timeout |
    ttl | pipelining | escape_html | headers | parameters | proxy_url | proxy_disable | preset | ilm |
    allow_older_versions | ssl | protocol | non_indexable_policy | indices | pipelines | topics | keys | partition |
    version | codec | compression_level | required_acks | metadata | max_message_bytes | keep_alive | client_id |
    channel_buffer_size | bulk_flush_frequency | broker_timeout | rotate_every_kb | number_of_files | permissions |
    rotate_on_startup | pretty | batch_size | sasl | kerberos | idle_connection_timeout | path | reconnect_backoff |
    queue
    """,
    re.VERBOSE,
)
"""Options that tune Filebeat itself, or that another part of the import reads."""
