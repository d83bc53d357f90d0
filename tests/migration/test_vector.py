"""Configurations of Vector → pipelines, and what these make of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from running import Etl

from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.report import ImportReport
from etl.migration.translated import TranslatedSteps
from etl.migration.vector.program import Program
from etl.migration.vector.vrl import VrlReader

CONFIGURATION = """
sources:
  logs: {type: file, include: [/var/log/web.log]}
  net: {type: socket, mode: udp, address: "0.0.0.0:9000"}
  agent: {type: datadog_agent, address: "0.0.0.0:8080"}
transforms:
  parsed:
    type: remap
    inputs: [logs]
    source: |
      # lines
      parsed, err = parse_regex(.message, r'^(?P<ip>\\S+) (?P<verb>\\w+) (?P<path>\\S+) (?P<status>\\d+) (?P<rest>.*)$')
      if err != null {
        .kind = "other"
        abort
      }
      . = merge(., parsed)
      .code = to_int(.status) ?? 0
      .doc = parse_json(.rest) ?? {}
      if .code >= 500 && contains(string!(.path), "api") {
        .level = "error"
      } else if match(.verb, r'^P') { .level = "write" } else { .level = downcase(.verb) }
      .user = del(.doc.user) ?? "none"
      .tags = ["web", .level]
      .path = replace(.path, r'\\d+', "N")
      .length = length(.path) * 2 + 1
      del(.message)
      del(.rest); del(.status)
  errors: {type: filter, inputs: [parsed], condition: '.level == "error" || includes(.tags, "write")'}
  split:
    type: route
    inputs: [parsed]
    route: {local: 'ip_cidr_contains("10.0.0.0/8", .ip) ?? false', far: '!exists(.ip)'}
  few: {type: sample, inputs: [net], rate: x}
  none: {type: route, inputs: [net]}
sinks:
  out: {type: console, inputs: [parsed], encoding: {codec: json}}
  bad: {type: file, inputs: [errors], path: /tmp/x.jsonl}
  es: {type: elasticsearch, inputs: [errors, split.local], endpoints: ["http://es:9200"], bulk: {index: "logs"}}
  loki: {type: loki, inputs: ["split.far", few]}
"""


@pytest.mark.slow
def test_events_are_those_that_the_reference_says(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "vector.yaml").write_text(CONFIGURATION)
    made = etl.here("import", "vector.yaml")
    pipeline = yaml.safe_load(made.out)
    first = {"ip": "10.0.0.1", "verb": "GET", "path": "/api/N", "code": 503, "level": "error", "user": "eve", "length": 13}
    other = {"ip": "8.8.8.8", "verb": "PUT", "path": "/b", "code": 200, "level": "write", "user": "none", "length": 5}
    last = {"ip": "8.8.8.8", "verb": "GET", "path": "/b", "code": 200, "level": "get", "user": "none", "length": 5}
    expected = [{**one, "tags": ["web", str(one["level"])]} for one in (first, other, last)]
    lines = ['10.0.0.1 GET /api/12 503 {"user": "eve"}', "8.8.8.8 PUT /b 200 x", "8.8.8.8 GET /b 200 {}", "else"]
    cases = {
        "lines": {"input": {"logs": lines}, "expect": {"out": expected, "bad": expected[:2], "es": [*expected[:2], expected[0]]}}
    }
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump({"tests": cases}))
    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("9 of 13 components carried over (69 %)"), made.err
    assert "vector.yaml: sources.agent: source datadog_agent: a source that has no counterpart" in made.err
    assert pipeline["sinks"]["es"]["from"] == ["errors", "split_local"]
    assert tested.status == 0, tested.out + tested.err


@pytest.mark.parametrize(
    "text",
    [
        ". = (",
        ".a = foo(",
        "if .a { .b = 1",
        ".a = " + "(" * 500,
        ".a = 'x",
        "x" * 70_000,
        ".a = " * 500 + "1",
        f".a = {'9' * 5000}",
        "for_each(.a) -> |k, v| { .b = k }",
    ],
)
def test_a_program_that_cannot_be_read(text: str) -> None:
    with pytest.raises(NoCounterpartError):
        VrlReader(text).program()


def run(text: str) -> Draft:
    steps = TranslatedSteps(Draft(), ImportReport())
    Program(steps).run(VrlReader(text).program(), None)
    return steps.draft


@pytest.mark.parametrize(
    "text",
    [
        ".a = sha2(.message)",
        '.a = contains(.message, "X", case_sensitive: false)',
        '.a = contains(substring: "x", value: .message)',
        ".a = parse_int(.message, base: 16)",
        '.a = split(.message, ",", limit: 2)',
        '.a = to_unix_timestamp(now(), unit: "nanoseconds")',
        ".a = replace(.message, r'x')",
        ".a = exists()",
        ". = merge()",
    ],
)
def test_arguments_that_have_no_counterpart_are_refused(text: str) -> None:
    with pytest.raises(NoCounterpartError):
        run(text)


def test_a_hash_has_the_bits_of_its_variant() -> None:
    draft = run('.a = sha2(.message, variant: "SHA-512")')

    assert [step.options["fields"] for step in draft.steps] == [{"a": "sha2(message, 512)"}]


def test_objects_that_a_queue_announces(etl: Etl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = "https://sqs.eu-west-1.amazonaws.com/1/q"
    source = {
        "type": "aws_s3",
        "region": "eu-west-1",
        "sqs": {"queue_url": queue, "poll_secs": 5},
        "auth": {"access_key_id": "k"},
    }
    sink = {"type": "console", "inputs": ["s3"], "encoding": {"codec": "json"}}
    (tmp_path / "vector.yaml").write_text(yaml.safe_dump({"sources": {"s3": source}, "sinks": {"out": sink}}))
    made = etl.here("import", "vector.yaml", "-o", "job.yaml")
    unset = etl.here("lint", "job.yaml")
    monkeypatch.setenv("S3_BUCKET", "logs")
    linted = etl.here("lint", "job.yaml")
    again = etl.here("import", "vector.yaml")

    assert "the environment has no 'S3_BUCKET': the bucket that the notifications are about" in unset.out
    assert yaml.safe_load((tmp_path / "job.yaml").read_text())["sources"]["s3"] == {
        "type": "file",
        "path": "s3://${S3_BUCKET:?the bucket that the notifications are about}/**?region=eu-west-1",
        "notifications": {"queue": queue, "visibility": "300s", "region": "eu-west-1"},
    }
    assert "source aws_s3.bucket: the messages name it there" in made.err
    assert "source aws_s3.auth: the login comes from the environment" in made.err
    to_set = "  set S3_BUCKET before `etl lint` and `etl run`: the bucket that the notifications are about\n"
    assert (to_set in made.err, "set S3_BUCKET" in again.err) == (True, False)
    assert linted.status == 0, linted.out + linted.err


def test_members_of_json_are_read_from_every_input_that_has_them(etl: Etl, tmp_path: Path) -> None:
    files = {name: {"type": "file", "include": [f"/{name}"]} for name in ("a", "b")}
    parsed = {f"{name}_json": {"type": "remap", "inputs": [name], "source": ". = parse_json!(.message)"} for name in files}
    both = {"type": "filter", "inputs": [*parsed], "condition": '.status == "500"'}
    sink = {"type": "console", "inputs": ["both"], "encoding": {"codec": "json"}}
    sources = {**files, "gone": {"type": "datadog_agent"}, "also_gone": {"type": "datadog_agent"}}
    root = {"sources": sources, "transforms": {**parsed, "both": both}, "sinks": {"out": sink}}
    (tmp_path / "vector.yaml").write_text(yaml.safe_dump(root))
    etl.here("import", "vector.yaml", "-o", "job.yaml")
    linted = etl.here("lint", "job.yaml")
    made = yaml.safe_load((tmp_path / "job.yaml").read_text())

    steps = [step for name in parsed for step in made["streams"][name]["steps"] if step["type"] == "json"]
    assert [step["fields"].get("status") for step in steps] == ["string", "string"]
    assert linted.status == 0, linted.out + linted.err


def test_a_sink_to_s3_is_a_folder_of_parts(etl: Etl, tmp_path: Path) -> None:
    sink = {"type": "aws_s3", "inputs": ["a"], "bucket": "logs", "key_prefix": "app/", "region": "eu-west-1"}
    more = {"encoding": {"codec": "json"}, "storage_class": "STANDARD", "batch": {"timeout_secs": 60}}
    (tmp_path / "vector.yaml").write_text(yaml.safe_dump({"sources": {"a": {"type": "stdin"}}, "sinks": {"s": {**sink, **more}}}))
    made = etl.here("import", "vector.yaml", "-o", "job.yaml")
    linted = etl.here("lint", "job.yaml")

    assert yaml.safe_load((tmp_path / "job.yaml").read_text())["sinks"]["s"] == {
        "from": "a",
        "type": "file",
        "path": "s3://logs/app/",
        "compression": "gzip",
        "roll": {"max_age": "60s", "max_bytes": 10_000_000},
    }
    assert "sink aws_s3.storage_class: a setting of the bucket here" in made.err
    assert linted.status == 0, linted.out + linted.err


def test_a_statement_without_a_counterpart_leaves_the_others_of_its_program(etl: Etl, tmp_path: Path) -> None:
    program = """
.a = upcase(.message)
for_each(array!(.items)) -> |_i, v| {
  .last = v
}
.b = uuid_v4()
.c = replace(.a, "X", "${y")
"""
    configuration = {
        "sources": {"logs": {"type": "file", "include": ["x.log"]}},
        "transforms": {"changed": {"type": "remap", "inputs": ["logs"], "source": program}},
        "sinks": {"out": {"type": "console", "inputs": ["changed"], "encoding": {"codec": "json"}}},
    }
    (tmp_path / "vector.yaml").write_text(yaml.safe_dump(configuration))

    made = etl.here("import", "vector.yaml")
    (tmp_path / "job.yaml").write_text(
        f"{made.out}tests:\n  all: {{input: [ax], expect: [{{message: ax, a: AX, c: 'A${{y'}}]}}\n"
    )

    assert "2 of 4 statements: line 3: '->' in VRL, which is not carried over; line 6: " in made.err
    assert "# NOT CARRIED OVER: line 3: " in made.out
    tested = etl.here("test", "job.yaml")
    assert tested.status == 0, tested.out


OLDER = """
sources:
  in: {type: socket, mode: udp, address: "0.0.0.0:9000", decoding: {codec: bytes}}
transforms:
  parsed: {type: json_parser, inputs: [in], drop_invalid: true}
  program:
    type: remap
    inputs: [in]
    source: |
      . = parse_json!(.message)
      .host = get_hostname() ?? "n/a"
      .environment = get_env_var("STAGE") ?? "development"
      .zone = get_env_var("ZONE")
      .millis = to_unix_timestamp(now(), unit: "milliseconds")
      . = compact(.)
  kinds: {type: route, inputs: [program], route: {bad: '.status == "bad"', slow: '.status == "slow"'}}
sinks:
  daily: {type: elasticsearch, inputs: [program], host: "http://es:9200", bulk: {index: "app-%Y.%m.%d"}}
  stream: {type: elasticsearch, inputs: [parsed], mode: data_stream, data_stream: {namespace: "%Y"}}
  labelled: {type: loki, inputs: [in], labels: {app: "{{ kubernetes.labels.app }}"}}
  rows: {type: clickhouse, inputs: [kinds.bad], endpoint: "http://ch:8123", database: logs, table: web, skip_unknown_fields: true}
  rest: {type: console, inputs: [kinds._unmatched], encoding: {codec: json}}
"""


def test_a_configuration_of_an_older_vector_lints(etl: Etl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "eu")
    (tmp_path / "vector.yaml").write_text(OLDER)

    made = etl.here("import", "vector.yaml", "-o", "job.yaml")

    text = (tmp_path / "job.yaml").read_text()
    root = yaml.safe_load(text)
    linted = etl.here("lint", "job.yaml")
    assert linted.status == 0, text + linted.out
    assert [line.split(": ", 2)[2] for line in made.err.splitlines() if "vector.yaml:" in line] == [
        "sink loki.labels.app: no step gives the field kubernetes.labels.app"
    ]
    assert "'${STAGE:-development}'" in text
    assert "'${HOSTNAME:-n/a}'" in text
    assert root["streams"]["to_daily"]["steps"] == [
        {"type": "set", "fields": {"timestamp": "try_cast(`timestamp` as timestamp)"}}
    ]
    (stream,) = root["streams"]["to_stream"]["steps"]
    assert stream == {"type": "set", "fields": {"@timestamp": "try_cast(`@timestamp` as timestamp)"}}
    assert root["streams"]["kinds__unmatched"]["steps"] == [
        {"type": "filter", "where": "not coalesce(status = 'bad' or status = 'slow', false)"}
    ]
    assert root["sinks"]["labelled"]["labels"] == {"job": "imported"}
    assert root["sinks"]["rows"]["table"] == "logs.web"


APACHE = """
sources: {logs: {type: file, include: [access.log]}}
transforms:
  parsed: {type: remap, inputs: [logs], source: '. = parse_apache_log!(string!(.message), "combined")'}
sinks:
  out: {type: console, inputs: [parsed], encoding: {codec: json}}
  lost: {type: console, inputs: [renamed]}
"""


def test_lines_of_web_servers_and_sinks_without_inputs(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "vector.yaml").write_text(APACHE)
    made = etl.here("import", "vector.yaml")
    line = '10.0.0.1 - eve [10/Oct/2026:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 - "-" "curl/8"'
    event = {
        "host": "10.0.0.1",
        "user": "eve",
        "timestamp": "2026-10-10T20:55:36Z",
        "message": "GET /a?b HTTP/1.1",
        "method": "GET",
    }
    event |= {"path": "/a?b", "protocol": "HTTP/1.1", "status": 200, "agent": "curl/8"}
    cases = {"tests": {"lines": {"input": [line], "expect": {"out": [event]}}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(cases))

    tested = etl.here("test", "job.yaml")

    assert tested.status == 0, made.out + tested.out
    assert "sinks.lost: sink console: none of its inputs exists" in made.err
