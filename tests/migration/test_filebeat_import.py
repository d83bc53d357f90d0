"""Configurations of Filebeat → pipelines, and what these make of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Etl

from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.filebeat.conditions import condition
from etl.migration.filebeat.configuration import FilebeatFiles
from etl.migration.filebeat.importer import FilebeatImport
from etl.migration.values import FALSE

OBJECTS = """
filebeat.inputs:
- type: filestream
  paths: [app.log]
  parsers:
  - ndjson: {overwrite_keys: true, message_key: msg}
  tags: [json]
  fields: {env: prod}
  processors:
  - if: {equals: {status: 500}}
    then:
    - add_fields: {target: "", fields: {severity: high, owner.team: core}}
    else: [{add_tags: {tags: [fine, json]}}]
  - convert: {fields: [{from: status, type: integer}], fail_on_error: false}
  - convert: {fields: [{from: took, to: ms, type: float}], mode: rename, ignore_missing: true}
  - timestamp: {field: when, layouts: ['2006-01-02 15:04:05'], timezone: Europe/Berlin, ignore_failure: true}
  - rename: {fields: [{from: user.name, to: who}, {from: env2, to: fields.env}], ignore_missing: true, fail_on_error: false}
processors:
- drop_event.when.and:
  - contains.message: noise
  - not.has_fields: [who]
- drop_fields: {fields: ['/^took/', when], ignore_missing: true}
- truncate_fields: {fields: [message], max_characters: 12}
- add_tags: {tags: [lan], when.network.client: [private, loopback]}
output.console: {pretty: true}
"""
LINES = """
name: ${HOST:edge}
tags: [web]
filebeat.inputs:
- paths: [plain.log]
  include_lines: ['ERR', 'WARN']
  exclude_lines: ['DBG$']
  multiline: {pattern: '^\\[', negate: true, match: after}
  processors:
  - dissect:
      tokenizer: '[%{ts}] %{lvl} %{code|integer} %{rest}'
      target_prefix: app
  - timestamp: {field: app.ts, layouts: ['2006-01-02T15:04:05Z']}
  - replace: {fields: [{field: message, pattern: 'password=(\\S)\\S*', replacement: 'password=${1}'}], ignore_missing: true}
  - uppercase: {values: [app.lvl]}
  - copy_fields: {fields: [{from: app.lvl, to: log.level}], fail_on_error: false}
- type: log
  enabled: false
  paths: [/x]
setup.template.enabled: false
logging.level: info
output.file: {path: /tmp, filename: out}
"""


def events(etl: Etl, configuration: str, lines: list[str], expected: list[dict[str, Any]]) -> str:
    """Import, and compare what the pipeline makes of lines: what the import said."""
    (etl.folder / "filebeat.yml").write_text(configuration)
    made = etl.here("import", "filebeat.yml")
    sink = next(iter(yaml.safe_load(made.out)["sinks"]))
    cases = {"tests": {"lines": {"input": lines, "expect": {sink: expected}}}}
    (etl.folder / "job.yaml").write_text(made.out + yaml.safe_dump(cases))
    tested = etl.here("test", "job.yaml")
    assert tested.status == 0, made.out + tested.out + tested.err
    return made.err


def test_json_lines_and_conditions(etl: Etl) -> None:
    lines = [
        '{"msg":"hello wonderful world","status":500,"took":"1.5","when":"2024-07-01 12:00:00.25","user":{"name":"bob"},'
        '"client":"10.1.2.3"}',
        '{"msg":"noise 1","status":200,"client":"8.8.8.8"}',
        "noise that is not JSON",
        "something else",
        '{"msg":"ok","status":"x","env2":"z","user":{"name":"al"},"tags":["a"]}',
    ]
    expected = [
        {
            "message": "hello wonder",
            "msg": "hello wonderful world",
            "tags": ["json", "lan"],
            "fields.env": "prod",
            "status": 500,
            "severity": "high",
            "owner.team": "core",
            "ms": 1.5,
            "who": "bob",
            "client": "10.1.2.3",
            "@timestamp": "2024-07-01T10:00:00.250000Z",
        },
        {"message": "something el", "tags": ["json", "fine"], "fields.env": "prod"},
        {"message": "ok", "msg": "ok", "tags": ["a", "json", "fine"], "fields.env": "prod", "who": "al", "env2": "z"},
    ]

    said = events(etl, OBJECTS, lines, expected)

    assert said.startswith("12 of 12 inputs, processors and outputs carried over (100 %)"), said


def test_behind_a_processor_that_fails_the_others_do_not_run(etl: Etl) -> None:
    lines = ["[2024-01-01T00:00:00.5Z] err 7 ERR password=abc", "[x] e", "ERR", "[y] fine", "[z] ERR DBG"]
    app = {"ts": "2024-01-01T00:00:00.5Z", "lvl": "ERR", "code": 7, "rest": "ERR password=abc"}
    expected = [
        {
            "message": "[2024-01-01T00:00:00.5Z] err 7 ERR password=a",
            **{f"app.{name}": value for name, value in app.items()},
            "log.level": "ERR",
            "@timestamp": "2024-01-01T00:00:00.500000Z",
            "tags": ["web"],
        },
        {"message": "[x] e\nERR", "log.flags": ["dissect_parsing_error"], "tags": ["web"]},
    ]

    events(etl, LINES, lines, expected)


def sources(tmp_path: Path, inputs: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    (tmp_path / "inputs.yml").write_text(yaml.safe_dump(inputs))
    files = FilebeatFiles()
    files.add(tmp_path / "inputs.yml")
    made = FilebeatImport(files)
    topology = made.run()
    return {name: one.options for name, one in topology.origins.items()}, "\n".join(made.report.lines(""))


def test_objects_of_stores(tmp_path: Path) -> None:
    queue = "https://sqs.eu-west-1.amazonaws.com/1/q"
    found, said = sources(
        tmp_path,
        [
            {"type": "aws-s3", "queue_url": queue, "region": "eu-west-1", "expand_event_list_from_field": "Records"},
            {
                "type": "aws-s3",
                "non_aws_bucket_name": "logs",
                "bucket_list_prefix": "app[1]/",
                "endpoint": "https://s3.example.org:9000",
                "bucket_list_interval": "300s",
                "access_key_id": "k",
            },
            {"type": "gcs", "buckets": [{"name": "b"}], "project_id": "p"},
        ],
    )

    assert found["aws_s3"] == {
        "type": "file",
        "path": "s3://${S3_BUCKET:?the bucket that the notifications are about}/**?region=eu-west-1",
        "notifications": {"queue": queue, "visibility": "300s", "region": "eu-west-1"},
        "max_line_bytes": "256MiB",
    }
    options = "endpoint_override=s3.example.org:9000&scheme=https"
    assert found["aws_s3_2"] == {"type": "file", "path": f"s3://logs/app[[]1]/**?{options}", "rescan": "300s"}
    assert found["gcs"]["path"] == "gs://b/**"
    assert "input aws-s3.access_key_id: the login comes from the environment" in said
    assert "input gcs.project_id" in said


EVERY = """
filebeat:
  inputs:
  - {type: container, paths: [/var/log/containers/*.log], stream: stderr}
  - {type: docker, containers.ids: ["*"]}
  - {type: syslog, protocol.udp.host: "0.0.0.0:514", protocol.tcp: {host: "0.0.0.0:514"}}
  - {type: tcp, host: "0.0.0.0:9000", ssl: {certificate: c.pem, key: k.pem}}
  - {type: kafka, hosts: ["k:9092"], topics: [a], group_id: g, username: u, password: p}
  - {type: journald, id: journal, units: [ssh], include_matches.match: ["_TRANSPORT=stdout"], seek: tail}
  - {type: mqtt, hosts: ["tcp://m:1883"], topics: [t], qos: 1}
  - {type: http_endpoint, listen_port: 8080}
  - {type: lumberjack, listen_address: "localhost:5044"}
  - {type: stdin}
  - {type: netflow, host: "0.0.0.0:2055"}
  config: {inputs: {path: "inputs.d/*.yml"}, modules: {path: "modules.d/*.yml"}}
  modules: [{module: nginx}]
fields_under_root: true
fields: {site: a}
processors:
- decode_json_fields: {fields: [message], target: doc, max_depth: 2, process_array: true}
- decode_csv_fields: {fields: {message: parts}}
- extract_array: {field: parts, mappings: {first: 0}}
- script: {lang: javascript, source: x}
- add_host_metadata: ~
- drop_event: {when: {starts: {a: b}}}
- community_id: {}
output:
  elasticsearch:
    hosts: ["es"]
    protocol: https
    username: u
    password: ${PASSWORD:secret}
    index: "logs-%{[site]}-%{+yyyy.MM.dd}"
    indices: [{index: "bad-%{+yyyy.MM}", when.range.severity.lte: 3}]
  kafka: {hosts: ["k:9092"], topic: "t-%{[site]}", key: "%{[message]}", codec.format.string: "%{[message]}"}
  redis: {hosts: ["r:6379"], key: logs, db: 2}
  logstash: {hosts: ["l:5044"]}
"""


def test_every_input_and_output_lints(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "filebeat.yml").write_text(EVERY)
    (tmp_path / "inputs.d").mkdir()
    more = [{"type": "log", "id": "more", "paths": ["/var/log/a.log", "/var/log/b.log"]}]
    (tmp_path / "inputs.d" / "more.yml").write_text(yaml.safe_dump(more))
    made = etl.here("import", "filebeat.yml", "-o", "job.yaml")
    linted = etl.here("lint", "job.yaml")
    found = yaml.safe_load((tmp_path / "job.yaml").read_text())
    left = [line.split(": ")[1] for line in made.err.splitlines()[1:] if line.startswith("  filebeat.yml")]

    assert linted.status == 0, linted.out + linted.err
    assert {name: one["type"] for name, one in found["sources"].items()} == {
        "container": "file",
        "docker": "file",
        "syslog": "syslog",
        "tcp": "syslog",
        "kafka": "kafka",
        "journal": "journald",
        "mqtt": "mqtt",
        "http_endpoint": "http",
        "lumberjack": "beats",
        "stdin": "stdin",
        "netflow": "inline",
        "more": "file",
        "more_2": "file",
    }
    assert found["sources"]["syslog"]["listen"] == ["udp://0.0.0.0:514", "tcp://0.0.0.0:514"]
    assert found["sources"]["journal"]["match"] == {"_TRANSPORT": ["stdout"]}
    assert found["sinks"]["elasticsearch"]["index"] == "bad-{yyyy.MM}"
    assert found["sinks"]["elasticsearch_2"]["urls"] == ["https://es:9200"]
    assert found["sinks"]["kafka"]["value_field"] == "message"
    assert left == [
        "input netflow",
        "filebeat.modules",
        "processor decode_json_fields.process_array",
        "processor decode_json_fields.max_depth",
        "processor script",
        "processor add_host_metadata",
        "processor drop_event",
        "output logstash",
    ]


@pytest.mark.parametrize(
    ("given", "sql"),
    [
        ({"equals": {"status": 200}}, "status = cast(200 as string)"),
        ({"equals": {"none": 1}}, FALSE.sql),
        ({"range": {"n": {"gte": 1, "lt": 5}}}, "n >= 1 and n < 5"),
        ({"contains": {"tags": "x"}}, "array_contains(tags, 'x')"),
        ({"or": [{"regexp": {"status": "^5"}}, {"has_fields": ["n"]}]}, "regexp_like(status, '^5') or n is not null"),
        ({"not": {"equals": {"n": 1}}}, "not coalesce(n = 1, false)"),
    ],
)
def test_conditions(given: dict[str, Any], sql: str) -> None:
    assert condition(Draft({"status": "string", "n": "bigint", "tags": "array<string>"}), given).sql == sql


@pytest.mark.parametrize("given", [None, {}, "x", {"equal": {}}, {"range": {"n": {"about": 1}}}, {"network": {"status": "home"}}])
def test_conditions_without_a_counterpart(given: Any) -> None:
    with pytest.raises(NoCounterpartError):
        condition(Draft({"status": "string", "n": "bigint"}), given)


@pytest.mark.parametrize("text", ["filebeat.inputs: [", "- type: log\n- \xff", "filebeat:\n\t- x"])
def test_files_that_cannot_be_read(etl: Etl, tmp_path: Path, text: str) -> None:
    (tmp_path / "filebeat.yml").write_bytes(text.encode("latin-1"))
    made = etl.here("import", "filebeat.yml")

    assert made.status == 1
    assert made.err.startswith("filebeat.yml:"), made.err


def test_strange_values_end_in_words(tmp_path: Path) -> None:
    kinds: list[Any] = [1, {"type": "log"}, {"type": "aws-s3"}, {"type": "gcs"}, {"type": "syslog"}, {"paths": 3, "parsers": "x"}]
    processors = [
        {"dissect": 1},
        {"rename": {"fields": [1]}},
        {"replace": {"fields": [{"field": "message"}, 1]}},
        {"truncate_fields": {"fields": ["message"], "max_characters": "x"}},
        {"decode_json_fields": {"fields": ["message"], "max_depth": []}},
    ]
    found, said = sources(tmp_path, [*kinds, {"type": "log", "paths": ["a"], "processors": processors}])

    assert len(found) == 6
    assert "the option 'paths' is missing" in said
    assert "`fields` is a list of {from: …, to: …}" in said
    assert "`fields` is a list of {field: …, pattern: …, replacement: …}" in said
    assert "`max_characters` is a whole number, and not 'x'" in said
    assert "`max_depth` is a whole number, and not []" in said


def test_characters_of_a_configuration_do_not_end_a_text(etl: Etl) -> None:
    configuration = """
filebeat.inputs:
- paths: [a.log]
  processors:
  - dissect: {tokenizer: '%{a} %{b}', target_prefix: x, trim_values: left, trim_chars: "'"}
output.console: {pretty: true}
"""
    events(etl, configuration, ["'one' 'two"], [{"message": "'one' 'two", "x.a": "one'", "x.b": "two"}])
