"""Inputs and outputs of Fluent Bit → sources and sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NotCarriedError
from etl.migration.fluent_bit.configuration import Section


def _tail(one: Section) -> dict[str, Any]:
    paths = [part.strip() for part in one.get("path").split(",") if part.strip()]
    if len(paths) != 1:
        raise NotCarriedError("a source `file` for each path. Standard input is in its place")
    start = {} if one.get("read_from_head").lower() in ("on", "true") else {"start": "end"}
    excluded = [part.strip() for part in one.get("exclude_path").split(",") if part.strip()]
    preset = one.get("multiline.parser").split(",")[0].strip().lower()
    multiline = {"multiline": {"preset": preset}} if preset in ("java", "python", "go", "ruby", "docker", "cri") else {}
    return {"type": "file", "path": paths[0], **start, **({"exclude": excluded} if excluded else {}), **multiline}


def _listen(default: int) -> Callable[[Section], dict[str, Any]]:
    def make(one: Section) -> dict[str, Any]:
        mode = one.get("mode", one.name if one.name in ("tcp", "udp") else "udp").lower()
        return {"type": "syslog", "listen": [f"{mode}://{one.get('listen', '0.0.0.0')}:{one.get('port', str(default))}"]}

    return make


INPUTS: Mapping[str, Callable[[Section], dict[str, Any]]] = {
    "tail": _tail,
    "stdin": lambda one: {"type": "stdin"},
    "tcp": _listen(5170),
    "udp": _listen(5170),
    "syslog": _listen(5140),
    "forward": lambda one: {
        "type": "forward",
        "listen": [f"tcp://{one.get('listen', '0.0.0.0')}:{one.get('port', '24224')}"],
    },
    "kafka": lambda one: {"type": "kafka", "servers": one.get("brokers").split(","), "topics": one.get("topics").split(",")},
}


def _elasticsearch(one: Section) -> dict[str, Any]:
    scheme = "https" if one.get("tls").lower() == "on" else "http"
    login = {ours: one.get(theirs) for theirs, ours in (("http_user", "user"), ("http_passwd", "password")) if one.get(theirs)}
    url = f"{scheme}://{one.get('host', '127.0.0.1')}:{one.get('port', '9200')}"
    index = one.get("logstash_prefix", "logstash") if has_daily_index(one) else one.get("index", "fluent-bit")
    return {"type": "elasticsearch", "urls": [url], "index": index, **login}


def has_daily_index(one: Section) -> bool:
    return one.get("logstash_format").lower() in ("on", "true", "yes")


def _http(one: Section) -> dict[str, Any]:
    scheme = "https" if one.get("tls").lower() == "on" else "http"
    url = f"{scheme}://{one.get('host', '127.0.0.1')}:{one.get('port', '80')}{one.get('uri', '/')}"
    form = "ndjson" if one.get("format").lower() in ("json_lines", "json_stream") else "json"
    return {"type": "http", "urls": [url], "format": form}


def _file(one: Section) -> dict[str, Any]:
    folder, name = one.get("path", ".").rstrip("/"), one.get("file", "fluent-bit.jsonl")
    return {"type": "file", "path": f"{folder}/{name}"}


OUTPUTS: Mapping[str, Callable[[Section], dict[str, Any]]] = {
    "stdout": lambda one: {"type": "console"},
    "null": lambda one: {"type": "discard"},
    "file": _file,
    "es": _elasticsearch,
    "opensearch": _elasticsearch,
    "http": _http,
    "kafka": lambda one: {
        "type": "kafka",
        "servers": one.get("brokers", "localhost:9092").split(","),
        "topic": one.get("topics", "fluent-bit").split(",")[0],
    },
}
