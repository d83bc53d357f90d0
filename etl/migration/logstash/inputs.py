"""Inputs of Logstash → sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.given_options import GivenOptions
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.client_options import Options, elasticsearch_client, kafka_client
from etl.migration.logstash.configuration import Plugin
from etl.migration.logstash.references import environment
from etl.migration.object_store import leave_login, object_glob, with_connection


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


def _kafka(given: GivenOptions) -> Options:
    source: Options = {"type": "kafka", **kafka_client(given)}
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
    return {"type": "elasticsearch", **elasticsearch_client(given), "index": str(given.get("index", "logstash-*"))}


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
