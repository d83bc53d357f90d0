"""Inputs and outputs of Logstash → sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NotCarriedError
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.configuration import Plugin
from etl.migration.logstash.references import TIME_FIELD, environment, sink_text

Options = dict[str, Any]


def _file(given: Mapping[str, Any]) -> Options:
    paths = as_list(given.get("path") or [])
    if not paths:
        raise NotCarriedError("the option 'path' is missing")
    if len(paths) > 1:
        raise NotCarriedError(f"several paths; a source for each: {', '.join(map(str, paths))}")
    start = {"start": "end"} if given.get("start_position", "end") == "end" and given.get("mode", "tail") == "tail" else {}
    excluded = [str(one) for one in as_list(given.get("exclude") or [])]
    return {"type": "file", "path": environment(str(paths[0])), **start, **({"exclude": excluded} if excluded else {})}


def multiline(codec: Any) -> Options:
    """The option ``multiline`` of a source, for the codec of that name."""
    if not isinstance(codec, Plugin) or codec.name != "multiline":
        return {}
    pattern, negate = str(codec.options.get("pattern", "")), codec.options.get("negate") in (True, "true")
    if codec.options.get("what") == "next":
        if negate:
            return {"multiline": {"end": pattern}}
        raise NotCarriedError("multiline with what => next and no negate; say which line begins an event")
    return {"multiline": {"start" if negate else "continue": pattern}}


def _kafka(given: Mapping[str, Any]) -> Options:
    servers = str(given.get("bootstrap_servers", "localhost:9092")).split(",")
    source: Options = {"type": "kafka", "servers": [environment(one.strip()) for one in servers]}
    if "topics_pattern" in given:
        return {**source, "pattern": str(given["topics_pattern"])}
    return {**source, "topics": [environment(str(one)) for one in as_list(given.get("topics") or ["logstash"])]}


def _listener(kinds: tuple[str, ...], port: int) -> Callable[[Mapping[str, Any]], Options]:
    def make(given: Mapping[str, Any]) -> Options:
        host = str(given.get("host", "0.0.0.0"))
        at = f"{environment(host)}:{environment(str(given.get('port', port)))}"
        return {"type": "syslog", "listen": [f"{kind}://{at}" for kind in kinds]}

    return make


def _beats(given: Mapping[str, Any]) -> Options:
    at = f"{environment(str(given.get('host', '0.0.0.0')))}:{environment(str(given.get('port', 5044)))}"
    return {"type": "beats", "listen": [f"tcp://{at}"]}


def _requests(given: Mapping[str, Any]) -> Options:
    at = f"{environment(str(given.get('host', '0.0.0.0')))}:{environment(str(given.get('port', 8080)))}"
    return {"type": "http", "listen": [f"http://{at}"], "format": "json"}


def _elasticsearch_source(given: Mapping[str, Any]) -> Options:
    return {"type": "elasticsearch", "urls": _urls(given), "index": str(given.get("index", "logstash-*"))}


def _urls(given: Mapping[str, Any]) -> list[str]:
    hosts = [str(environment(one)) for one in as_list(given.get("hosts") or ["localhost:9200"])]
    scheme = "https" if given.get("ssl") in (True, "true") or given.get("ssl_enabled") in (True, "true") else "http"
    urls = [one if "://" in one else f"{scheme}://{one}" for one in hosts]
    return [one if one.count(":") > 1 or "$" in one else f"{one}:9200" for one in urls]


INPUTS: Mapping[str, Callable[[Mapping[str, Any]], Options]] = {
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
}

NO_INPUT: Mapping[str, str] = {
    "exec": "programs are not started; their output goes to the source `stdin`",
    "generator": "the source `generate` makes events",
    "jdbc": "the source `database` with the table and the column that grows",
    "redis": "the source of lists is not there",
    "s3": "files of object stores are read after a copy",
}
"""Inputs without a counterpart, and what to do instead."""


def _elasticsearch(given: Mapping[str, Any]) -> Options:
    sink: Options = {"type": "elasticsearch", "urls": _urls(given)}
    if given.get("data_stream") in (True, "true"):
        parts = [str(given.get(f"data_stream_{one}", default)) for one, default in _STREAM]
        return {**sink, "index": "-".join(parts), "data_stream": True, **_login(given)}
    sink["index"] = sink_text(given.get("index", "logstash-%{+yyyy.MM.dd}"))
    if {"{yyyy", "{MM", "{dd"} & {sink["index"][at : at + 5].rstrip(".-}") for at in range(len(sink["index"]))}:
        sink["time_field"] = TIME_FIELD
    found = str(given.get("document_id", ""))
    if found.startswith("%{") and found.endswith("}"):
        sink |= {"id": [sink_text(found)[1:-1]], "action": "index"}
    if given.get("pipeline"):
        sink["ingest_pipeline"] = str(given["pipeline"])
    return {**sink, **_login(given)}


_STREAM = (("type", "logs"), ("dataset", "generic"), ("namespace", "default"))


def _login(given: Mapping[str, Any]) -> Options:
    return {name: environment(str(given[name])) for name in ("user", "password") if name in given}


def _kafka_sink(given: Mapping[str, Any]) -> Options:
    servers = str(given.get("bootstrap_servers", "localhost:9092")).split(",")
    return {
        "type": "kafka",
        "servers": [environment(one.strip()) for one in servers],
        "topic": sink_text(given.get("topic_id", "logstash")),
    }


def _http(given: Mapping[str, Any]) -> Options:
    method = str(given.get("http_method", "post")).upper()
    form = "json" if given.get("format") == "json_batch" else "object"
    pairs = given.get("headers")
    headers = {name: environment(str(value)) for name, value in pairs.items()} if isinstance(pairs, dict) else {}
    sink = {"type": "http", "urls": [environment(str(given.get("url", "")))], "method": method, "format": form}
    more = {"batch": {"max_events": 1}} if form == "object" else {}
    return {**sink, **more, **({"headers": headers} if headers else {}), **_login(given)}


OUTPUTS: Mapping[str, Callable[[Mapping[str, Any]], Options]] = {
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "file": lambda given: {"type": "file", "path": sink_text(given.get("path", "out.jsonl")), **_file_time(given)},
    "kafka": _kafka_sink,
    "stdout": lambda given: {"type": "console"},
    "http": _http,
    "null": lambda given: {"type": "discard"},
    "sink": lambda given: {"type": "discard"},
}


def _file_time(given: Mapping[str, Any]) -> Options:
    return {"time_field": TIME_FIELD} if "%{+" in str(given.get("path", "")) else {}


NO_OUTPUT: Mapping[str, str] = {
    "email": "mails are not sent; the sink `http` calls a service that does",
    "exec": "programs are not started",
    "pipeline": "streams of one file take events from each other by `from`",
    "redis": "the sink `kafka` or `http` takes its place",
    "s3": "the sink `file` writes to object stores: s3://bucket/path/",
    "statsd": "`etl run` has metrics of its own",
}
"""Outputs without a counterpart, and what to do instead."""
