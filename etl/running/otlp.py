"""Exports metrics to OpenTelemetry: OTLP over HTTP, in its JSON form, which needs no package.

It is configured by the variables that every program with OpenTelemetry reads: ``OTEL_EXPORTER_OTLP_ENDPOINT`` turns it on.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from etl.api import EtlError
from etl.running.metrics import Sample

CUMULATIVE = 2
"""OTLP's number of sums since the start of the process."""

DEFAULT_INTERVAL_MILLIS = 60_000
TIMEOUT_SECONDS = 10.0

log = logging.getLogger("sluice.otlp")


@dataclass(frozen=True)
class OtlpSettings:
    """Where metrics go, and how often."""

    url: str
    headers: Mapping[str, str]
    interval_seconds: float
    resource: Mapping[str, str]

    @staticmethod
    def of(env: Mapping[str, str]) -> OtlpSettings | None:
        """The settings of an environment; None if it names no endpoint or turns the export off. Raises EtlError."""
        base, own = env.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""), env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "")
        off = env.get("OTEL_SDK_DISABLED", "").lower() == "true" or (env.get("OTEL_METRICS_EXPORTER") or "otlp") != "otlp"
        if off or not (base or own):
            return None
        url = own or f"{base.rstrip('/')}/v1/metrics"
        _check_endpoint(url)
        protocol = env.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/json"
        if protocol == "grpc":
            raise EtlError(
                "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and metrics are sent as http/json: name the endpoint of OTLP over HTTP, "
                "usually port 4318, and set the protocol http/json"
            )
        headers = _headers("OTEL_EXPORTER_OTLP_HEADERS", env) | _headers("OTEL_EXPORTER_OTLP_METRICS_HEADERS", env)
        resource = _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        resource["service.name"] = env.get("OTEL_SERVICE_NAME") or resource.get("service.name", "sluice")
        return OtlpSettings(url, headers, _millis(env) / 1000, resource)


def _check_endpoint(url: str) -> None:
    """Raise EtlError unless it is a URL without a login, which would be shown in messages."""
    try:
        parts = urlsplit(url)
        has_login, is_http = "@" in parts.netloc, parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_login, is_http = "@" in url, False
    if has_login:
        raise EtlError("OpenTelemetry's endpoint has a login in its URL: give it in OTEL_EXPORTER_OTLP_HEADERS=authorization=…")
    if not is_http:
        raise EtlError(f"OpenTelemetry's endpoint {url!r} is not a URL such as http://localhost:4318")


def _headers(variable: str, env: Mapping[str, str]) -> dict[str, str]:
    """The headers of a variable. Raises EtlError, without the value, for one that cannot be sent."""
    found = _pairs(env.get(variable, ""))
    for name, value in found.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise EtlError(
                f"{variable}: the header {name!r} has a character that no header may have, such as a newline (%0A) at its end"
            )
    return found


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def _millis(env: Mapping[str, str]) -> int:
    text = env.get("OTEL_METRIC_EXPORT_INTERVAL", "") or str(DEFAULT_INTERVAL_MILLIS)
    if not (text.isascii() and text.isdigit() and 100 <= int(text[:12]) <= 86_400_000):
        raise EtlError(f"OTEL_METRIC_EXPORT_INTERVAL is {text!r}, and not a number of milliseconds from 100 to 86400000")
    return int(text)


def _pairs(text: str) -> dict[str, str]:
    """``a=1,b=2`` with percent-encoded values."""
    found = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): unquote(value.strip()) for name, _, value in found}


def encode_metrics(samples: Iterable[Sample], resource: Mapping[str, str], began: float, now: float) -> dict[str, Any]:
    """The document of OTLP: counters as sums since ``began`` or since they were 0 later, all others as gauges."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        point = {"attributes": _attributes(sample.labels), "asDouble": float(sample.value), "timeUnixNano": _nanos(now)}
        if sample.name.endswith("_total"):
            point["startTimeUnixNano"] = _nanos(min(now, max(began, sample.since)))  # the clock may have been set back
        by_name.setdefault(sample.name, []).append(point)
    metrics: list[dict[str, Any]] = []
    for name, points in by_name.items():
        if name.endswith("_total"):
            total = {"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": True}
            metrics.append({"name": name, "sum": total})
        else:
            metrics.append({"name": name, "gauge": {"dataPoints": points}})
    scope = {"scope": {"name": "sluice"}, "metrics": metrics}
    return {"resourceMetrics": [{"resource": {"attributes": _attributes(resource)}, "scopeMetrics": [scope]}]}


def _attributes(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in labels.items()]


def _nanos(seconds: float) -> str:
    """JSON has 64-bit numbers as texts."""
    return str(round(seconds * 1e6) * 1000)


@contextmanager
def exporting(settings: OtlpSettings | None, collect: Callable[[], Iterable[Sample]]) -> Iterator[None]:
    """Export while the body runs, and once at its end. A collector that is down costs no more than a warning."""
    if settings is None:
        yield
        return
    exporter = _Exporter(settings, collect)
    exporter.thread.start()
    try:
        yield
    finally:
        exporter.ends.set()
        exporter.thread.join(2 * TIMEOUT_SECONDS)


class _Exporter:
    def __init__(self, settings: OtlpSettings, collect: Callable[[], Iterable[Sample]]) -> None:
        self.settings, self.collect, self.began = settings, collect, time.time()
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._fails = False

    def _work(self) -> None:
        while not self.ends.wait(self.settings.interval_seconds):
            self._export()
        self._export()

    def _export(self) -> None:
        """Send all metrics once; the first failure of several is logged."""
        try:
            document = encode_metrics(self.collect(), self.settings.resource, self.began, time.time())
            headers = {**self.settings.headers, "Content-Type": "application/json", "Content-Encoding": "gzip"}
            request = urllib.request.Request(self.settings.url, gzip.compress(json.dumps(document).encode(), 1), headers)
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read(1 << 16)
        except Exception as error:
            if not self._fails:
                url = self.settings.url.partition("?")[0]  # what follows may be a key
                log.warning("metrics cannot be exported to %s: %s; it is tried again", url, error)
            self._fails = True
        else:
            if self._fails:
                log.warning("metrics are exported again")
            self._fails = False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Headers hold secrets, which no other host gets."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse: the answer is an error."""
