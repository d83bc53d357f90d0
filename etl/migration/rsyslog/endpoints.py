"""Inputs and actions of rsyslog → sources and sinks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.given_options import GivenOptions, kafka_security
from etl.migration.ingest.processor import as_list
from etl.migration.journal import FOLDER

Options = dict[str, Any]


def _server_tls(one: GivenOptions, globals_: GivenOptions) -> Options:
    """The option ``tls`` of a listener, whose certificates are those of the whole configuration unless it has its own."""
    driver = str(one.get("streamdriver.name") or globals_.get("defaultnetstreamdriver") or "ptcp")
    if str(one.get("streamdriver.mode", "0")) != "1" or driver == "ptcp":
        return {}
    files = {"certfile": "certificate", "keyfile": "key"}
    made: Options = {}
    for theirs, ours in files.items():
        if value := one.get(f"streamdriver.{theirs}") or globals_.get(f"defaultnetstreamdriver{theirs}"):
            made[ours] = str(value)
    authority = one.get("streamdriver.cafile") or globals_.get("defaultnetstreamdrivercafile")
    if authority and str(one.get("streamdriver.authmode", "anon")) != "anon":
        made["client_authority"] = str(authority)
    if "certificate" not in made:
        raise NoCounterpartError("TLS without a certificate; give `tls: {certificate: …}` to a source `syslog`")
    return {"tls": made}


def listener(one: GivenOptions, globals_: GivenOptions) -> tuple[str, Options]:
    """The address of a listener, and further options of the source ``syslog``."""
    kind = str(one["type"])
    if kind == "imuxsock":
        return f"unixgram://{one.get('socket') or '/dev/log'}", {}
    at = str(one.get("address") or "0.0.0.0")
    at = f"[{at}]" if ":" in at else at
    tls = _server_tls(one, globals_) if kind == "imtcp" else {}
    scheme = "udp" if kind == "imudp" else "tls" if tls else "tcp"
    return f"{scheme}://{at}:{one.get('port') or '514'}", tls


LISTENERS = ("imudp", "imtcp", "imptcp", "imuxsock")


def _file(one: GivenOptions) -> Options:
    source: Options = {"type": "file", "path": str(one.get("file", ""))}
    if one.is_on("freshstarttail"):
        source["start"] = "end"
    if pattern := one.get("startmsg.regex"):
        source["multiline"] = {"start": str(pattern)}
    elif str(one.get("readmode", "0")) == "2":
        source["multiline"] = {"continue": r"^\s"}
    elif str(one.get("readmode", "0")) == "1":
        source["multiline"] = {"end": "^$"}
    if one.is_on("addmetadata"):
        source["path_field"] = "metadata.filename"
    return source


def _kafka_properties(one: GivenOptions) -> Options:
    """Brokers, security and further properties of librdkafka."""
    brokers = [str(part).strip() for text in as_list(one.get("broker") or "localhost:9092") for part in str(text).split(",")]
    pairs = (str(text).partition("=") for text in as_list(one.get("confparam") or []))
    given = {name.strip(): value.strip() for name, _, value in pairs}
    mechanism = given.pop("sasl.mechanism", "") or given.pop("sasl.mechanisms", "")
    security = kafka_security(
        given.pop("security.protocol", ""), mechanism, given.pop("sasl.username", ""), given.pop("sasl.password", "")
    )
    if "tls" in security and (authority := given.pop("ssl.ca.location", "")):
        security["tls"] = {"authority": authority}
    properties = {name: value for name, value in given.items() if name not in _KAFKA_OWN}
    return {"servers": brokers, **security, **({"properties": properties} if properties else {})}


_KAFKA_OWN = ("group.id", "enable.auto.commit", "auto.offset.reset", "transactional.id", "enable.idempotence", "acks")


def _kafka_source(one: GivenOptions) -> Options:
    made: Options = {"type": "kafka", **_kafka_properties(one), "topics": [str(one.get("topic", ""))]}
    group = one.get("consumergroup")
    return {**made, "start": "group", "start_group": str(group), "commit_group": str(group)} if group else made


INPUTS: Mapping[str, Callable[[GivenOptions], Options]] = {
    "imfile": _file,
    "imjournal": lambda one: {
        "type": "journald",
        "path": FOLDER,
        **({"start": "end"} if one.is_on("ignorepreviousmessages") else {}),
    },
    "imkafka": _kafka_source,
}

NO_INPUT = {
    "imklog": "messages of the kernel are in the journal: a source `journald` with `match: {_TRANSPORT: [kernel]}`",
    "imrelp": "RELP; let the senders use TCP or TLS, or write to Kafka",
    "imgssapi": "GSSAPI; use TLS",
    "imdtls": "DTLS; use TLS over TCP",
    "imhttp": "a source `http`",
}
NO_EFFECT = ("immark", "impstats", "imdocker-stats")
"""Inputs about rsyslog itself."""


def _forward(one: GivenOptions) -> Options:
    tls = str(one.get("streamdrivermode") or one.get("streamdriver.mode") or "0") == "1"
    protocol = str(one.get("protocol") or "udp").lower()
    scheme = "tls" if tls else protocol
    host = str(one.get("target", ""))
    host = f"[{host}]" if ":" in host else host
    framing = str(one.get("tcp_framing") or "traditional")
    sink: Options = {"type": "syslog", "address": f"{scheme}://{host}:{one.get('port') or '514'}", "format": "rfc3164"}
    if scheme == "tcp" and framing != "octet-counted":
        sink["framing"] = "newline"
    if tls:
        names = {"streamdriver.cafile": "authority", "streamdriver.certfile": "certificate", "streamdriver.keyfile": "key"}
        verify = {"anon": "none", "x509/certvalid": "authority"}.get(str(one.get("streamdriverauthmode", "")))
        sink["tls"] = {**one.texts(names), **({"verify": verify} if verify else {})}
    return sink


def _elasticsearch(one: GivenOptions) -> Options:
    scheme = "https" if one.is_on("usehttps") else "http"
    urls = []
    for server in as_list(one.get("server") or "localhost"):
        name = str(server)
        host, _, rest = name.rpartition("://")[2].partition(":")
        urls.append(f"{name.partition('://')[0] if '://' in name else scheme}://{host}:{rest or one.get('serverport') or '9200'}")
    sink: Options = {"type": "elasticsearch", "urls": urls, "index": str(one.get("searchindex") or "system")}
    sink |= one.texts({"uid": "user", "pwd": "password", "pipelinename": "pipeline"})
    tls = one.texts({"tls.cacert": "authority", "tls.mycert": "certificate", "tls.myprivkey": "key"})
    if one.is_on("allowunsignedcerts") or one.is_on("skipverifyhost"):
        tls["verify"] = "none" if one.is_on("allowunsignedcerts") else "authority"
    return {**sink, "tls": tls} if tls else sink


def _kafka(one: GivenOptions) -> Options:
    sink: Options = {"type": "kafka", **_kafka_properties(one), "topic": str(one.get("topic", ""))}
    if one.get("key") or one.get("dynakey"):
        one.leave("key" if one.get("key") else "dynakey", "the sink's `key` is a list of fields")
    return sink


def _http(one: GivenOptions) -> Options:
    scheme = "http" if one.is_off("usehttps") else "https"
    path = str(one.get("restpath") or "").lstrip("/")
    urls = [
        f"{scheme}://{server}:{one.get('serverport') or '443'}/{path}" for server in as_list(one.get("server") or "localhost")
    ]
    sink: Options = {"type": "http", "urls": urls, "format": "ndjson" if one.get("batch.format") == "newline" else "json"}
    if one.is_on("compress"):
        sink["compression"] = "gzip"
    return {**sink, **one.texts({"uid": "user", "pwd": "password"})}


ACTIONS: Mapping[str, Callable[[GivenOptions], Options]] = {
    "omfile": lambda one: {"type": "file", "path": str(one.get("file") or "")},
    "omfwd": _forward,
    "omelasticsearch": _elasticsearch,
    "omkafka": _kafka,
    "omhttp": _http,
    "omstdout": lambda one: {"type": "console"},
}

NO_ACTION = {
    "omusrmsg": "messages to terminals of users",
    "ompipe": "a named pipe; a sink `file`, or `etl tap`",
    "omprog": "a program; a sink `http`, or the step `python`",
    "ommysql": "a sink `database` with the columns of the table",
    "ompgsql": "a sink `database` with the columns of the table",
    "omlibdbi": "a sink `database` with the columns of the table",
    "ommail": "a sink `email`",
    "omrelp": "RELP; a sink `syslog` with tls://",
    "omclickhouse": "a sink `clickhouse` with the columns of the table",
    "omhiredis": "a sink `redis`",
    "omjournal": "the journal of systemd; a sink `file` or `syslog`",
    "mmnormalize": "liblognorm's rules; a parser `grok`: `etl grok` tries patterns",
    "mmdblookup": "a parser `geoip` with the file of MaxMind",
    "mmanon": "a step `set`, such as regexp_replace(source.ip, '[0-9]+$', '0')",
    "mmfields": "a parser `csv`",
    "mmpstrucdata": "parameters of structured data are options `fields` and `rest` of the parser `syslog`",
    "mmkubernetes": "a step `lookup` in a table",
}
WITHOUT_EFFECT_ACTIONS = ("mmutf8fix", "mmrm1stspace", "omdiscard")
"""Actions that are not needed here: the sources write U+FFFD for bytes that are not UTF-8, and messages begin without a blank."""

WITHOUT_EFFECT = re.compile(
    r"""
    type | name | template | ruleset | queue\..* | action\..* | ratelimit\..* | threads | timerequery | schedulingpolicy |
    schedulingpriority | batchsize | rcvbufsize | filecreatemode | dircreatemode | fileowner | filegroup | dirowner | dirgroup |
    fileownernum | filegroupnum | dirownernum | dirgroupnum | createdirs | sync | asyncwriting | flushontxend | flushinterval |
    iobuffersize |
    dynafilecachesize | closetimeout | failonchownfailure | veryrobustzip | keepalive.* | maxsessions | maxlisteners |
    backlog | notifyonconnectionclose | addtlframedelimiter | supportoctetcountedframing | statefile | persiststateinterval |
    tag | severity | facility | reopenontruncate | trimlineoverbytes | escapelf | escapelf\.replacement | discardtruncatedmsg |
    msgdiscardingerror | deletestateonfiledelete | maxlinesatonce | maxsubmitatonce | readtimeout | startmsg\.timeout |
    needparse | pollinginterval | device | rebindinterval | resendlastmsgonreconnect | compression\..* | ziplevel |
    tcp_framedelimiter |
    streamdriver | streamdriver\..* | streamdriverpermittedpeers? | permittedpeer | bulkmode | healthchecktimeout |
    timeout | maxbytes |
    errorfile | retryfailures | retryruleset | rebindinterval | writeoperation | searchtype | dynsearchtype | dynsearchindex |
    dynafile | dynatopic | dynbulkid | dynparent | batch\..* | compress\.level | checkpath | restpathtimeout | partitions\..* |
    failedmsgfile | keepfailedmessages | resubmitonfailure | closetimeout | syssock\..* | usesyscallt? | createpath | unlink |
    ignoretimestamp | ignoreownmessages | usepidfromsystem | usespecialparser | parsehostname | hostname | annotate | parsetrusted
    """,
    re.VERBOSE,
)
"""Parameters that tune rsyslog itself, or that another part of the import reads."""
