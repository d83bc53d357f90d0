"""The vectors of web logs that another project has: its names of fields, and ours."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parsers.weblog.parser import Weblog

EXCEPTIONS: dict[str, str] = {}
"""Source → why the vector is not to be met."""

FORMATS = {
    ("parse_apache_log", "common"): "common",
    ("parse_apache_log", "combined"): "combined",
    ("parse_apache_log", "error"): "apache_error",
    ("parse_common_log", None): "common",
    ("parse_nginx_log", "combined"): "nginx_combined",
    ("parse_nginx_log", "main"): "nginx_main",
    ("parse_nginx_log", "ingress_upstreaminfo"): "nginx_ingress",
    ("parse_nginx_log", "error"): "nginx_error",
}

OURS = {
    "apache": {
        "host": "source.address",
        "client": "source.address",
        "identity": "apache.access.user.identity",
        "message2": "message",
        "module": "apache.error.module",
        "path": "url.original",
        "referrer": "http.request.referrer",
        "thread": "process.thread.id",
    },
    "nginx": {
        "client": "source.address",
        "remote_addr": "source.address",
        "remote_user": "user.name",
        "body_bytes_size": "http.response.body.bytes",
        "cid": "nginx.error.connection_id",
        "compression": "nginx.access.gzip_ratio",
        "excess": "nginx.error.excess",
        "host": "http.request.headers.host",
        "http_referer": "http.request.referrer",
        "http_user_agent": "user_agent.original",
        "http_x_forwarded_for": "http.request.headers.x_forwarded_for",
        "proxy_alternative_upstream_name": "nginx.upstream.alternative_name",
        "proxy_upstream_name": "nginx.upstream.name",
        "referer": "http.request.referrer",
        "req_id": "http.request.id",
        "request_length": "http.request.bytes",
        "request_time": "event.duration",
        "server": "nginx.error.server",
        "tid": "process.thread.id",
        "upstream": "nginx.upstream.address",
        "upstream_addr": "nginx.upstream.address",
        "upstream_response_length": "nginx.upstream.response_bytes",
        "upstream_response_time": "nginx.upstream.response_seconds",
        "upstream_status": "nginx.upstream.status_code",
        "zone": "nginx.error.zone",
    },
    "both": {
        "agent": "user_agent.original",
        "method": "http.request.method",
        "pid": "process.pid",
        "port": "source.port",
        "severity": "log.level",
        "size": "http.response.body.bytes",
        "status": "http.response.status_code",
        "user": "user.name",
    },
}
"""Their names of fields and ours."""


def request_line(found: dict[str, Any]) -> str | None:
    """The request as the line had it."""
    if "http.request.method" not in found:
        return found.get("http.request.line")
    version = f" HTTP/{found['http.version']}" if "http.version" in found else ""
    return f"{found['http.request.method']} {found['url.original']}{version}"


def theirs(found: dict[str, Any], expected: dict[str, Any], server: str) -> dict[str, Any]:
    """What we found under the names that are expected: a request is one text there, in Apache's logs the message too."""
    names = OURS["both"] | OURS[server]
    known: dict[str, Any] = {
        name: found.get(ours, found.get(name)) for name, ours in ({name: name for name in expected} | names).items()
    }
    known["request"] = request_line(found)
    known["timestamp"] = found["timestamp"].strftime("%Y-%m-%dT%H:%M:%SZ") if "timestamp" in found else None
    known["protocol"] = f"HTTP/{found['http.version']}" if "http.version" in found else None
    if server == "apache":
        known["thread"] = str(found["process.thread.id"]) if "process.thread.id" in found else None
        known["message"] = found.get("message", request_line(found))
        if "message1" in expected:  # one text for us where no client stands between
            at = 0 if "error.message" in found else len(expected["message1"])
            known["message1"], known["message2"] = found["message"][:at], found["message"][at:]
        if "error.message" in found and expected["message1"].rstrip(": ") == found["error.message"]:
            known["message1"] = expected["message1"]
    if "request_time" in expected:
        known["request_time"] = found["event.duration"] / 1e9
    if "compression" in expected:
        known["compression"] = str(found["nginx.access.gzip_ratio"])
    return {name: known.get(name) for name in expected}


REQUEST = {"http.request.method", "url.original", "http.version", "http.request.line"}


def unasked(found: dict[str, Any], expected: dict[str, Any], server: str) -> set[str]:
    """Fields that we found and nobody expected."""
    names = OURS["both"] | OURS[server]
    asked = {names.get(name, name) for name in expected}
    if "source.address" in asked:
        asked.add("source.ip")
    if expected.keys() & {"request", "message"}:
        asked |= REQUEST
    return found.keys() - asked - ({"error.message"} if "message1" in expected else set())


@cache
def weblog(format_: str, times: tuple[str, ...], timezone: str) -> Any:
    return Weblog(formats=(format_,), time_formats=times, timezone=timezone).compile()


def parse(line: str, *step: Any) -> dict[str, Any] | None:
    """The fields of a line that are not null, or None when it failed."""
    parsed = weblog(*step)(pa.array([line]))
    if parsed.failed is not None and parsed.failed[0].as_py():
        return None
    return {name: column[0].as_py() for name, column in parsed.columns.items() if column[0].is_valid}


def vectors(acceptance: Path) -> list[dict[str, Any]]:
    files = sorted((acceptance / "weblog").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.slow
def test_vectors(acceptance: Path) -> None:
    wrong, passed = [], 0
    for vector in vectors(acceptance):
        options = dict(vector.get("options") or {})
        function = Path(vector["source"].partition("#")[0]).stem
        times = (options["timestamp_format"],) if "timestamp_format" in options else ()
        found = parse(vector["line"], FORMATS[function, options.get("format")], times, options.get("timezone", "UTC"))
        # a dash is null: the notice says so, and here and there they forget it
        expected = vector["expected"] and {k: v for k, v in vector["expected"].items() if v != "-"}
        server = "nginx" if "nginx" in function else "apache"
        good = vector["valid"] and found is not None and theirs(found, expected, server) == expected
        if (good and not unasked(found, expected, server)) or (not vector["valid"] and found is None):
            passed += 1
        elif vector["source"] not in EXCEPTIONS:
            wrong.append((vector["source"], expected, found))

    assert wrong == []
    assert passed >= 33


def test_ten_thousand_lines(acceptance: Path) -> None:
    """Independent totals of a real log; its one cut line fails, and the totals count it."""
    facts = json.loads((acceptance / "apache/facts.json").read_text())
    lines = gzip.decompress((acceptance / "apache/apache_logs.gz").read_bytes()).decode().splitlines()

    parsed = weblog("combined", (), "UTC")(pa.array(lines))

    def counts(field: str) -> dict[str, int]:
        return dict(Counter(map(str, parsed.columns[field].to_pylist())))

    nothing = {"None": 1}
    assert [row for row, failed in enumerate(parsed.failed.to_pylist(), 1) if failed] == [8899]
    assert counts("http.response.status_code") == facts["count_by_status"] | nothing | {
        "200": facts["count_by_status"]["200"] - 1
    }
    assert pc.sum(parsed.columns["http.response.body.bytes"]).as_py() == facts["total_bytes"] - 235
    assert len(set(parsed.columns["source.ip"].to_pylist()) - {None}) == facts["distinct_client_ips"]
    assert counts("http.request.method") == facts["count_by_method"] | nothing | {"GET": facts["count_by_method"]["GET"] - 1}
