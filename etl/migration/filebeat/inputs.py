"""Inputs of Filebeat → sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.given_options import GivenOptions, kafka_security
from etl.migration.ingest.processor import as_list
from etl.migration.journal import FOLDER
from etl.migration.object_store import leave_login, object_glob, with_connection

Options = dict[str, Any]


def _files(one: GivenOptions) -> list[Options]:
    paths = [str(path) for path in as_list(one.get("paths") or [])]
    if not paths:
        raise NoCounterpartError("the option 'paths' is missing")
    common = {**_beginning(one), **multiline(one), **_charset(one)}
    for name in ("exclude_files", "include_files"):
        scanner = one.members("prospector").members("scanner")
        if one.get(name) or scanner.get(name):
            one.leave(name, "regular expressions; `exclude` of the source has globs of paths")
    if one.get("ignore_older") not in (None, 0, "0"):
        one.leave("ignore_older", "old files are read, too; `exclude` names those that are not wanted")
    return [{"type": "file", "path": path, **common} for path in paths]


def _beginning(one: GivenOptions) -> Options:
    return {"start": "end"} if one.is_on("tail_files") else {}


def _charset(one: GivenOptions) -> Options:
    name = str(one.get("encoding", "plain")).lower()
    known = {"plain": "", "utf-8": "", "latin1": "latin-1", "utf-16-bom": "utf-16", "utf-16be-bom": "utf-16-be"}
    name = known.get(name, known.get(name, name.removesuffix("-bom")))
    return {"charset": name} if name else {}


def multiline(one: GivenOptions) -> Options:
    """The option ``multiline`` of a source: of the input, or of its list of parsers."""
    given = one.members("multiline")
    for parser in as_list(one.get("parsers") or []):
        if isinstance(parser, Mapping) and isinstance(parser.get("multiline"), Mapping):
            given = GivenOptions(parser["multiline"])
    pattern, kind = given.get("pattern"), given.get("type", "pattern")
    if kind != "pattern" or given.get("flush_pattern"):
        one.leave("multiline", f"of the type {kind!r} or with flush_pattern; the source has `start`, `continue` and `end`")
        return {}
    if pattern is None:
        return {}
    negate, before = given.is_on("negate"), given.get("match", "after") in ("before", "next")
    if before and not negate:
        one.leave("multiline", "match: before without negate; say which line begins an event, as `start`")
        return {}
    found: Options = {"end" if before else "start" if negate else "continue": str(pattern)}
    if given.get("max_lines"):
        found["max_lines"] = given.number("max_lines")
    if given.get("timeout"):
        found["timeout"] = str(given["timeout"])
    return {"multiline": found}


def _containers(one: GivenOptions) -> list[Options]:
    paths = [str(path) for path in as_list(one.get("paths") or [])]
    if not paths:
        folder = str(one.get("containers.path", one.members("containers").get("path", "/var/lib/docker/containers")))
        ids = [str(name) for name in as_list(one.members("containers").get("ids") or ["*"])]
        paths = [f"{folder.rstrip('/')}/{name}/*.log" for name in ids]
    preset = container_format(one, paths)
    return [{"type": "file", "path": path, "multiline": {"preset": preset}, **_beginning(one)} for path in paths]


def container_format(one: GivenOptions, paths: list[str]) -> str:
    """``docker`` or ``cri``; where it is not given, the paths tell."""
    given = str(one.get("format", "auto"))
    if given in ("docker", "cri"):
        return given
    return "docker" if any("docker" in path for path in paths) else "cri"


def _objects(one: GivenOptions) -> list[Options]:
    leave_login(one, ("access_key_id", "secret_access_key", "session_token", "role_arn", "credential_profile_name"))
    leave_login(one, ("shared_credential_file",))
    region, endpoint = one.get("region") or one.get("default_region"), one.get("endpoint")
    for name, reason in _OBJECT_OPTIONS.items():
        if one.get(name):
            one.leave(name, reason)
    common = {**multiline(one), **_charset(one)}
    if one.get("expand_event_list_from_field"):
        common["max_line_bytes"] = "256MiB"  # a document with all records is one line
    if queue := one.get("queue_url"):
        notifications = {"queue": str(queue), "visibility": _seconds(one.get("visibility_timeout", "300s"))}
        notifications |= {"region": str(region)} if region else {}
        one.leave("bucket", "the messages name the bucket there; here it is in `path`, as ${S3_BUCKET}")
        path = with_connection(object_glob("${S3_BUCKET:?the bucket that the notifications are about}"), region, endpoint)
        return [{"type": "file", "path": path, "notifications": notifications, **common}]
    bucket = str(one.get("bucket_arn") or one.get("access_point_arn") or one.get("non_aws_bucket_name") or "").split(":")[-1]
    if not bucket:
        raise NoCounterpartError("one of the options queue_url, bucket_arn and non_aws_bucket_name is missing")
    path = with_connection(object_glob(bucket, str(one.get("bucket_list_prefix") or "")), region, endpoint)
    return [{"type": "file", "path": path, "rescan": _seconds(one.get("bucket_list_interval", "120s")), **common}]


_OBJECT_OPTIONS = {
    "file_selectors": "`path` is a glob of the objects; several kinds of objects are several sources",
    "include_s3_metadata": "`path_field` gives bucket and key",
    "content_type": "the format is that of the steps after the source",
    "decoding": "the format is that of the steps after the source",
    "external_id": "the login comes from the environment",
    "backup_to_bucket_arn": "objects stay where they are",
    "delete_after_backup": "objects stay where they are",
    "ignore_older": "`path` may name years and months",
    "start_timestamp": "`path` may name years and months",
}


def _seconds(text: Any) -> str:
    return f"{text}s" if str(text).isdigit() else str(text)


def _store(scheme: str, names: tuple[str, ...]) -> Callable[[GivenOptions], list[Options]]:
    """Objects of Google's or Microsoft's store."""

    def make(one: GivenOptions) -> list[Options]:
        found = [GivenOptions(bucket) for name in names for bucket in as_list(one.get(name) or []) if isinstance(bucket, Mapping)]
        if not found:
            raise NoCounterpartError(f"the option {names[0]!r} is missing")
        for name in ("auth", "account_name", "project_id"):
            if name in one:
                one.leave(name, "the login comes from the environment, as for the store's own tools")
        account = one.get("account_name")
        at = f"@{account}.dfs.core.windows.net" if scheme == "abfss" else ""
        return [
            {"type": "file", "path": object_glob(f"{bucket['name']}{at}").replace("s3://", f"{scheme}://"), **multiline(one)}
            for bucket in found
            if "name" in bucket
        ]

    return make


def _listeners(one: GivenOptions) -> list[Options]:
    protocols = one.members("protocol")
    given = {kind: protocols.members(kind) for kind in ("udp", "tcp", "unix") if kind in protocols}
    if not given:
        raise NoCounterpartError("the option 'protocol' is missing")
    listen = [_address(kind, options) for kind, options in given.items()]
    return [{"type": "syslog", "listen": listen, **server_tls(given.get("tcp", one))}]


def _listener(kind: str) -> Callable[[GivenOptions], list[Options]]:
    def make(one: GivenOptions) -> list[Options]:
        tls = server_tls(one) if kind == "tcp" else {}
        return [{"type": "syslog", "listen": [_address(kind, one)], **tls}]

    return make


def _address(kind: str, one: GivenOptions) -> str:
    if kind == "unix":
        scheme = "unixgram" if one.get("socket_type") == "datagram" else "unix"
        return f"{scheme}://{one.get('path', '/run/sluice.sock')}"
    scheme = "tls" if kind == "tcp" and server_tls(one) else kind
    return f"{scheme}://{one.get('host', 'localhost:9000')}"


def server_tls(one: GivenOptions) -> Options:
    """The option ``tls`` of a receiver; none where it has no certificate."""
    ssl = one.members("ssl")
    if ssl.is_off("enabled") or not ssl.get("certificate"):
        return {}
    made: Options = {"certificate": str(ssl["certificate"])}
    if ssl.get("key"):
        made["key"] = str(ssl["key"])
    if authorities := as_list(ssl.get("certificate_authorities") or []):
        made["client_authority"] = str(authorities[0])
        if ssl.get("client_authentication") in ("optional", "none"):
            made["client_certificates"] = "optional"
    return {"tls": made}


def client_tls(one: GivenOptions) -> Options:
    """The option ``tls`` of what connects."""
    ssl = one.members("ssl")
    if ssl.is_off("enabled"):
        return {}
    made: Options = ssl.texts({"certificate": "certificate", "key": "key", "key_passphrase": "key_password"})
    if authorities := as_list(ssl.get("certificate_authorities") or []):
        made["authority"] = str(authorities[0])
    mode = str(ssl.get("verification_mode", "full"))
    if mode in ("none", "certificate"):
        made["verify"] = "none" if mode == "none" else "authority"
    return {"tls": made} if made or ssl.is_on("enabled") else {}


def kafka_client(one: GivenOptions) -> Options:
    """What the source and the sink ``kafka`` need to connect."""
    user, mechanism = str(one.get("username") or ""), str(one.members("sasl").get("mechanism") or "")
    tls = client_tls(one)
    login = kafka_security("", mechanism, user, str(one.get("password") or ""))
    return {"type": "kafka", "servers": [str(host) for host in as_list(one.get("hosts") or ["localhost:9092"])], **login, **tls}


def _kafka(one: GivenOptions) -> list[Options]:
    source = {**kafka_client(one), "topics": [str(topic) for topic in as_list(one.get("topics") or [])]}
    if group := one.get("group_id"):
        source |= {"start": "group", "start_group": str(group), "commit_group": str(group)}
    if one.get("initial_offset") == "newest":
        one.leave("initial_offset", "a partition without an offset of the group is read from its first message")
    if one.get("isolation_level"):
        source["isolation"] = str(one["isolation_level"])
    return [source]


def _journal(one: GivenOptions) -> list[Options]:
    paths = [str(path) for path in as_list(one.get("paths") or []) if str(path).upper() != "LOCAL_SYSTEM_JOURNAL"] or [FOLDER]
    source: Options = {}
    if units := [str(name) for name in as_list(one.get("units") or [])]:
        source["units"] = units
    if names := [str(name) for name in as_list(one.get("syslog_identifiers") or [])]:
        source["identifiers"] = names
    if one.get("seek") == "tail":
        source["start"] = "end"
    if str(one.get("since", "")).startswith("-"):
        one.leave("since", "a time before now; `since` of the source is a date")
    return [{"type": "journald", "path": path, **source} for path in paths]


def _mqtt(one: GivenOptions) -> list[Options]:
    hosts = [re.sub(r"^\w+://", "", str(host)) for host in as_list(one.get("hosts") or [])]
    source: Options = {"type": "mqtt", "servers": [host if ":" in host else f"{host}:1883" for host in hosts]}
    source |= {"topics": [str(topic) for topic in as_list(one.get("topics") or [])], "qos": one.number("qos")}
    login = one.texts({"username": "user", "password": "password", "client_id": "client_id"})
    clean = {"clean_start": True} if one.is_on("clean_session") else {}
    return [{**source, **login, **clean, **client_tls(one)}]


def _requests(one: GivenOptions) -> list[Options]:
    tls = server_tls(one)
    at = f"{one.get('listen_address', '127.0.0.1')}:{one.get('listen_port', 8000)}"
    if one.get("secret.header") or one.members("secret") or one.get("basic_auth") or one.members("hmac"):
        one.leave("secret", "a request needs one of `tokens`, as `Authorization: Bearer …`")
    path = str(one.get("url") or "/")
    return [{"type": "http", "listen": [f"{'https' if tls else 'http'}://{at}"], "format": "json", "path": path, **tls}]


def _lumberjack(one: GivenOptions) -> list[Options]:
    tls = server_tls(one)
    return [{"type": "beats", "listen": [f"{'tls' if tls else 'tcp'}://{one.get('listen_address', 'localhost:5044')}"], **tls}]


INPUTS: Mapping[str, Callable[[GivenOptions], list[Options]]] = {
    "aws-s3": _objects,
    "azure-blob-storage": _store("abfss", ("containers",)),
    "container": _containers,
    "docker": _containers,
    "filestream": _files,
    "gcs": _store("gs", ("buckets",)),
    "http_endpoint": _requests,
    "journald": _journal,
    "kafka": _kafka,
    "log": _files,
    "lumberjack": _lumberjack,
    "mqtt": _mqtt,
    "stdin": lambda one: [{"type": "stdin"}],
    "syslog": _listeners,
    "tcp": _listener("tcp"),
    "udp": _listener("udp"),
    "unix": _listener("unix"),
}

NO_INPUT: Mapping[str, str] = {
    "aws-cloudwatch": "a subscription of the log group writes into a bucket, which the source `file` reads",
    "azure-eventhub": "an Event Hub speaks Kafka's protocol: the source `kafka` with port 9093",
    "gcp-pubsub": "no source speaks its protocol",
    "netflow": "no source speaks its protocol",
    "redis": "the slow log of Redis is not read",
    "winlog": "the event log of Windows is read by an agent, whose output the source `beats` or `http` receives",
}
"""Inputs without a counterpart, and what to do instead."""

WITHOUT_EFFECT = re.compile(
    r"""
    expand_event_list_from_field |
    type | id | enabled | fields | fields_under_root | tags | processors | parsers | json | multiline | include_lines |
    exclude_lines | paths | prospector | scanner | harvester_\w+ | close(_\w+)? | clean_\w+ | scan_\w+ | backoff(_factor)? |
    max_backoff | harvester_buffer_size | buffer_size | max_bytes | message_max_bytes | max_message_size | read_buffer |
    timeout | symlinks | recursive_glob | file_identity | rotation | take_over | ignore_inactive | legacy_clean_inactive |
    publisher_pipeline | keep_null | index_pattern | stream | combine_partial | containers | cri | format | timezone |
    framing | line_delimiter | max_connections | number_of_workers | max_number_of_messages | sqs | api_timeout |
    connect_backoff | consume_backoff | wait_close | fetch | rebalance | version | client_id | protocol | host |
    network | include_matches | transports | facilities | seek | cursor_seek_fallback | merge | default_region |
    poll | poll_interval | max_workers | content_length_limit | response_code | response_body | prefix | ssl | sasl |
    kerberos | allow_deprecated_use | save_remote_hostname | delete_after_read | provider | storage_url
    """,
    re.VERBOSE,
)
"""Options that tune Filebeat itself, or that another part of the import reads."""


def name_of(kind: str, one: Mapping[str, Any]) -> str:
    """A name for a source: that of the input."""
    given = str(one.get("id") or "")
    return re.sub(r"\W+", "_", PurePath(given).name if "/" in given else given).strip("_") or re.sub(r"\W", "_", kind)
