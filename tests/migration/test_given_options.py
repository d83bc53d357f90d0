"""Options of inputs and outputs of other tools: carried over, or in the report."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Etl

from etl.migration.given_options import GivenOptions

LOGSTASH = """
input {
  kafka {
    bootstrap_servers => "a:9092" topics => ["x"] group_id => "old" codec => json consumer_threads => 4 decorate_events => true
    security_protocol => "SASL_SSL" sasl_mechanism => "PLAIN" ssl_truststore_location => "/ca.pem"
    sasl_jaas_config => 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="${PW}";'
  }
  beats { port => 5044 ssl_enabled => true ssl_certificate => "/c.pem" ssl_key => "/k.pem" }
}
output {
  elasticsearch { hosts => ["https://es:9200"] api_key => "${KEY}" ssl_certificate_verification => false pipeline => "p"
    index => "x" routing => "%{site}" script => "y" }
  kafka { topic_id => "t" codec => plain { format => "%{message}" } message_key => "%{[host][name]}" compression_type => "gzip" }
  syslog { host => "h" port => 514 protocol => "tcp" message => "%{message}" }
}
"""
FLUENT_BIT = """
[INPUT]
  Name tail
  Path /x.log
  Path_Key file.path
  Offset_Key at
  Read_from_Head On
  DB /x.db
[INPUT]
  Name http
  Port 9880
[OUTPUT]
  Name es
  Match *
  Logstash_Format On
  Logstash_Prefix app
  tls On
  tls.verify Off
  Aws_Auth On
[OUTPUT]
  Name kafka
  Match *
  Brokers a:9092
  Topics t
  Message_Key_Field log
  rdkafka.security.protocol SASL_SSL
  rdkafka.sasl.mechanism PLAIN
  rdkafka.sasl.username u
  rdkafka.sasl.password ${PW}
  rdkafka.ssl.ca.location /ca.pem
  rdkafka.linger.ms 5
"""
VECTOR = """
sources:
  k: {type: kafka, bootstrap_servers: "a:9092", topics: [t], group_id: old, decoding: {codec: json}, key_field: key,
    sasl: {enabled: true, mechanism: PLAIN, username: u, password: "${PW}"}, tls: {enabled: true, ca_file: /ca.pem}}
  h: {type: splunk_hec, address: "0.0.0.0:8088", valid_tokens: ["${TOKEN}"]}
sinks:
  es: {type: elasticsearch, inputs: [k], endpoints: ["https://es:9200"], bulk: {index: "app-%Y.%m.%d"}, compression: gzip,
    auth: {strategy: basic, user: u, password: "${PW}"}, tls: {verify_certificate: false}}
  l: {type: loki, inputs: [h], endpoint: "http://loki:3100", labels: {app: x, host: "{{ host }}", text: "{{ message }}"},
    encoding: {codec: text},
    out_of_order_action: accept, structured_metadata: {a: b}}
"""
TELEGRAF = """
[[inputs.tail]]
  files = ["/x.log"]
  data_format = "grok"
  path_tag = "path"
  character_encoding = "utf-16"
  grok_patterns = ["%{WORD:verb}"]
[[outputs.elasticsearch]]
  urls = ["https://es:9200"]
  index_name = "app-%Y.%m.%d"
  username = "u"
  password = "${PW}"
  insecure_skip_verify = true
[[outputs.kafka]]
  brokers = ["a:9092"]
  topic = "t"
  routing_key = "random"
  compression_codec = 4
"""
OF_KAFKA = {"user": "u", "password": "${PW}", "mechanism": "PLAIN", "tls": {"authority": "/ca.pem"}}
OF_GROUP = {"start": "group", "start_group": "old", "commit_group": "old"}
DAILY = {"index": "app-{yyyy.MM.dd}", "tls": {"verify": "none"}}
CASES: list[tuple[str, str, dict[str, dict[str, Any]], set[str]]] = [
    (
        "a.conf",
        LOGSTASH,
        {
            "sources.kafka": {**OF_KAFKA, **OF_GROUP},
            "sources.beats": {"listen": ["tls://0.0.0.0:5044"], "tls": {"certificate": "/c.pem", "key": "/k.pem"}},
            "sinks.elasticsearch": {"api_key": "${KEY}", "tls": {"verify": "none"}, "pipeline": "p", "routing": "site"},
            "sinks.kafka": {"compression": "gzip", "value_field": "message", "key": "host.name"},
            "sinks.syslog": {"address": "tcp://h:514", "format": "rfc3164", "value_field": "message", "framing": "newline"},
        },
        {"kafka.decorate_events", "elasticsearch.script"},
    ),
    (
        "a.conf",
        FLUENT_BIT,
        {
            "sources.tail": {"type": "file", "path": "/x.log", "path_field": "file.path"},
            "sources.http": {"listen": ["http://0.0.0.0:9880"], "format": "json"},
            "sinks.es": {**DAILY, "time_field": "@timestamp"},
            "sinks.kafka": {**OF_KAFKA, "key": "log", "properties": {"linger.ms": "5"}},
        },
        {"tail.offset_key", "es.aws_auth"},
    ),
    (
        "a.yaml",
        VECTOR,
        {
            "sources.k": {**OF_KAFKA, **OF_GROUP, "key_field": "key"},
            "sources.h": {"format": "splunk_hec", "listen": ["http://0.0.0.0:8088"], "tokens": ["${TOKEN}"]},
            "sinks.es": {"index": "app", "user": "u", "password": "${PW}", "compression": "gzip", "tls": {"verify": "none"}},
            "sinks.l": {"labels": {"app": "x", "text": "{message}"}, "value_field": "message"},
        },
        {"kafka.decoding", "elasticsearch.index", "loki.structured_metadata", "loki.labels.host"},
    ),
    (
        "a.conf",
        TELEGRAF,
        {
            "sources.tail": {"path_field": "path", "start": "end"},
            "sinks.elasticsearch": {**DAILY, "time_field": "timestamp", "user": "u", "password": "${PW}"},
            "sinks.kafka": {"compression": "zstd"},
        },
        {"tail.character_encoding", "kafka.routing_key"},
    ),
]


@pytest.mark.parametrize(("name", "text", "expected", "left"), CASES, ids=["logstash", "fluent_bit", "vector", "telegraf"])
def test_options_are_carried_over_or_in_the_report(
    name: str,
    text: str,
    expected: dict[str, dict[str, Any]],
    left: set[str],
    etl: Etl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / name).write_text(text)
    for variable in ("PW", "KEY", "TOKEN"):
        monkeypatch.setenv(variable, "x")
    made = etl.here("import", name, "-o", "job.yaml")
    job = yaml.safe_load((tmp_path / "job.yaml").read_text())
    linted = etl.here("lint", "job.yaml")

    for path, options in expected.items():
        kind, _, component = path.partition(".")
        assert {key: job[kind][component].get(key) for key in options} == options, path
    reported = set(re.findall(r": (?:input|output|source|sink) (\w+\.[\w.]+): ", made.err))
    assert reported == left
    assert linted.status == 0, linted.out + linted.err


def test_members_that_nothing_names_stay_as_json(etl: Etl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.cli.test.forbid", lambda *names: None)  # this process goes on
    (tmp_path / "a.conf").write_text(
        "input { stdin { codec => json } } filter { mutate { uppercase => a } } output { stdout { } }"
    )
    made = etl.here("import", "a.conf")
    lines = ['{"a": "x", "b": {"c": [1]}}', '{"a": "y"}']
    events = [{"a": "X", "json_rest": '{"b": {"c": [1]}}'}, {"a": "Y"}]
    case = {"tests": {"lines": {"input": lines, "expect": {"stdout": events}}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(case))
    tested = etl.here("test", "job.yaml")

    assert tested.status == 0, tested.out + tested.err


def test_options_that_nothing_reads_are_left() -> None:
    given = GivenOptions({"a": 1, "b": {"c": "off", "d": 2}, "e": 3, "tune": 4})
    assert (given["a"], given.members("b").is_off("c"), given.members("a")) == (1, True, {})
    given.leave("e", "why")
    assert given.left(re.compile("tune")) == {"b.d": "an option without a counterpart", "e": "why"}


@pytest.mark.slow
@pytest.mark.parametrize("line", ["sources:\n", "pipeline:\n", "[[\n \t", "\n"])
def test_the_tool_of_a_long_text_is_found_in_time(line: str, etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(line * (65536 // len(line)))
    start = time.process_time()
    made = etl.here("import", "a.yaml")

    assert made.status != 0
    assert time.process_time() - start < 1.5
