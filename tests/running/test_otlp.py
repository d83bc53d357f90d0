"""Metrics for OpenTelemetry, as a collector gets them."""

from __future__ import annotations

import gzip
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from running import wait_for

from etl.api import EtlError
from etl.running.metrics import Sample
from etl.running.otlp import OtlpSettings, encode_metrics, exporting

LABELS = {"pipeline": "p", "sink": 'a "b"'}
SAMPLES = [Sample("sluice_bytes_total", LABELS, 7), Sample("sluice_up", {"pipeline": "p"}, 1.5)]


@dataclass
class Collector:
    """A collector of OpenTelemetry, which answers with ``status``."""

    status: int = 200
    received: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.received.append((self.path, dict(self.headers), json.loads(gzip.decompress(body))))
            self.send_response(found.status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield found
        server.shutdown()


def settings(url: str, **more: str) -> OtlpSettings:
    found = OtlpSettings.of({"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRIC_EXPORT_INTERVAL": "100", **more})
    assert found is not None
    return found


def test_counters_are_sums_and_the_rest_gauges() -> None:
    document = encode_metrics(SAMPLES, {"service.name": "s"}, 1.5, 2.25)

    (resource,) = document["resourceMetrics"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "s"}}]
    counter, gauge = resource["scopeMetrics"][0]["metrics"]
    assert counter == {
        "name": "sluice_bytes_total",
        "sum": {
            "dataPoints": [
                {
                    "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in LABELS.items()],
                    "asDouble": 7.0,
                    "timeUnixNano": "2250000000",
                    "startTimeUnixNano": "1500000000",
                }
            ],
            "aggregationTemporality": 2,
            "isMonotonic": True,
        },
    }
    assert [point["asDouble"] for point in gauge["gauge"]["dataPoints"]] == [1.5]


def test_a_counter_that_began_later_says_so() -> None:
    later = [Sample("sluice_bytes_total", {"pipeline": name}, 7, since) for name, since in (("a", 2.0), ("b", 9.0), ("c", 1.0))]

    document = encode_metrics(later, {}, 1.5, 2.25)

    points = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["dataPoints"]
    starts = [point["startTimeUnixNano"] for point in points]
    assert starts == ["2000000000", "2250000000", "1500000000"], "not later than now, should the clock be set back"


def test_a_collector_gets_metrics_while_the_run_lasts_and_at_its_end(collector: Collector) -> None:
    more = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b", "OTEL_RESOURCE_ATTRIBUTES": "env=test,service.name=x"}
    with exporting(settings(collector.url, OTEL_SERVICE_NAME="shop", **more), lambda: SAMPLES):
        wait_for(lambda: len(collector.received) > 1)
    before = len(collector.received)
    with exporting(settings(collector.url, OTEL_METRIC_EXPORT_INTERVAL="60000"), lambda: SAMPLES):
        pass

    path, headers, document = collector.received[0]
    assert (path, headers["X-Key"], headers["Content-Type"]) == ("/v1/metrics", "a b", "application/json")
    attributes = {one["key"]: one["value"]["stringValue"] for one in document["resourceMetrics"][0]["resource"]["attributes"]}
    assert attributes == {"env": "test", "service.name": "shop"}
    assert len(collector.received) == before + 1


def test_a_collector_that_fails_costs_one_warning_and_gets_no_secret_elsewhere(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 307
    with caplog.at_level(logging.WARNING, "sluice.otlp"), exporting(settings(collector.url), lambda: SAMPLES):
        wait_for(lambda: len(collector.received) > 2)
        collector.status = 200
        wait_for(lambda: "again" in caplog.messages[-1])

    assert [text.partition(": ")[0] for text in caplog.messages] == [
        f"metrics cannot be exported to {collector.url}/v1/metrics",
        "metrics are exported again",
    ]
    assert {path for path, _, _ in collector.received} == {"/v1/metrics"}


def test_an_empty_variable_is_as_none() -> None:
    assert settings("http://h:4318", OTEL_METRICS_EXPORTER="").url == "http://h:4318/v1/metrics"


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_METRICS_EXPORTER": "none"},
    ],
)
def test_without_an_endpoint_nothing_is_exported(env: dict[str, str]) -> None:
    assert OtlpSettings.of(env) is None


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "h:4318", "is not a URL such as http://localhost:4318"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://[1", "is not a URL such as"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://h:port", "is not a URL such as"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://user:s3cret@h", "has a login in its URL"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "ftp://user:s3cret@h", "has a login in its URL"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret%0A", "the header 'authorization' has a character"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "set the protocol http/json"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1s", "is '1s', and not a number of milliseconds"),
    ],
)
def test_wrong_settings_are_errors(name: str, value: str, error: str) -> None:
    with pytest.raises(EtlError, match=error) as raised:
        settings("http://h:4318", **{name: value})
    assert "s3cret" not in str(raised.value)
