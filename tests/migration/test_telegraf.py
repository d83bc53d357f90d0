"""Configurations of Telegraf that read logs by grok → pipelines, and what these make of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from running import Etl

from etl.migration.go_layout import java_layout

CONFIGURATION = """
[agent]
  interval = "10s"
[[inputs.cpu]]
  percpu = true
[[inputs.tail]]
  files = ["/var/log/web.log"]
  from_beginning = true
  data_format = "grok"
  grok_patterns = ['^%{CLIENT:client} %{VERB:verb:tag} %{NUMBER:took:float} %{INT:size:int} %{WORD:no:drop} %{STAMP}$',
    "%{COMMON_LOG_FORMAT}"]
  grok_custom_patterns = '''
VERB [A-Z]+
STAMP %{DAY_TIME:t:ts-"2006-01-02 15:04:05"}
DAY_TIME [0-9-]+ [0-9:]+
'''
[[outputs.file]]
  files = ["stdout"]
[[outputs.influxdb]]
  urls = ["http://127.0.0.1:8086"]
"""


def test_events_are_those_that_the_manual_says(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "telegraf.conf").write_text(CONFIGURATION)
    made = etl.here("import", "telegraf.conf")
    line = '127.0.0.1 user-identifier frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326'
    first = {"client": "10.0.0.1", "verb": "GET", "took": 1.5, "size": 7, "timestamp": "2024-02-03T04:05:06Z"}
    other = {
        "client_ip": "127.0.0.1",
        "ident": "user-identifier",
        "auth": "frank",
        "verb": "GET",
        "request": "/a.gif",
        "http_version": 1.0,
        "resp_code": "200",
        "resp_bytes": 2326,
        "timestamp": "2000-10-10T20:55:36Z",
    }
    lines = ["10.0.0.1 GET 1.5 7 x 2024-02-03 04:05:06", line]
    expected = [{"message": text, **event} for text, event in zip(lines, (first, other), strict=True)]
    cases = {"tests": {"lines": {"input": lines, "expect": {"file": expected}}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(cases))
    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("2 of 4 plugins carried over (50 %)"), made.err
    assert tested.status == 0, tested.out + tested.err


FURTHER = """
[[inputs.tail]]
  files = ["/var/log/a.log", "/var/log/b.log"]
  data_format = "grok"
  grok_patterns = ["%{WORD:kind} %{TIMESTAMP_ISO8601:timestamp}"]
  grok_custom_pattern_files = []
[[inputs.tail]]
  files = ["/var/log/c.log"]
  data_format = "grok"
[[inputs.kafka_consumer]]
  brokers = ["k:9092"]
  topics = ["logs"]
  data_format = "grok"
  grok_patterns = ["%{NUMBER:n:int}"]
[[inputs.mqtt_consumer]]
  servers = ["tcp://m:1883"]
  topics = ["a/#"]
  qos = 1
  data_format = "json"
[[inputs.syslog]]
  server = "udp://:6514"
[[inputs.socket_listener]]
  service_address = "tcp://127.0.0.1:8094"
  data_format = "influx"
[[outputs.file]]
  files = ["stdout"]
"""


def test_inputs_of_files_brokers_and_syslog(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "telegraf.conf").write_text(FURTHER)

    made = etl.here("import", "telegraf.conf", "-o", "job.yaml")

    sources = yaml.safe_load((tmp_path / "job.yaml").read_text())["sources"]
    assert [one.get("path") for one in sources.values()][:2] == ["/var/log/a.log", "/var/log/b.log"]
    assert sources["kafka_consumer"]["start_group"] == "telegraf_metrics_consumers"
    assert (sources["mqtt_consumer"]["servers"], sources["mqtt_consumer"]["version"]) == (["m:1883"], "3.1.1")
    assert sources["syslog"] == {"type": "syslog", "listen": ["udp://0.0.0.0:6514"]}
    assert [line.split(": ", 3)[3] for line in made.err.splitlines() if "telegraf.conf:" in line] == [
        "no pattern is given: `grok_patterns` has none",
        "the format 'influx'; grok and json are carried over",
    ]
    assert etl.here("lint", "job.yaml").status == 0, etl.here("lint", "job.yaml").out


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("2006-01-02T15:04:05.000Z07:00", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"), ("Jan _2 15:04:05", "MMM d HH:mm:ss")],
)
def test_layouts_of_times(layout: str, expected: str) -> None:
    assert java_layout(layout) == expected
