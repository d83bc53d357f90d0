"""Configurations of Fluent Bit → pipelines, and what these make of lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from running import Etl

from etl.migration.fluent_bit.configuration import FluentFiles
from etl.migration.fluent_bit.importer import FluentBitImport
from etl.migration.strptime import java_pattern

CLASSIC = """
[SERVICE]
    Flush        1
    Parsers_File parsers.conf

# the web servers
[INPUT]
    Name   tail
    Path   /var/log/web.log
    Tag    web.access
    Read_from_Head On

[FILTER]
    Name     parser
    Match    web.*
    Key_Name log
    Parser   web

[FILTER]
    Name    grep
    Match   *
    Exclude path ^/health

[FILTER]
    Name   modify
    Match  *
    Condition Key_Value_Equals verb GET
    Add    kind read
    Rename path url
    Set    verb get

[FILTER]
    Name   record_modifier
    Match  *
    Record cluster one two
    Remove_key unused

[FILTER]
    Name       nest
    Match      *
    Operation  nest
    Wildcard   c_*
    Nest_under client
    Remove_prefix c_

[FILTER]
    Name   lua
    Match  *
    script x.lua

[OUTPUT]
    Name  stdout
    Match *
"""

PARSERS = r"""
[PARSER]
    Name        web
    Format      regex
    Regex       ^(?<c_ip>[^ ]+) (?<verb>\w+) (?<path>[^ ]+) (?<code>\d+) \[(?<time>[^\]]+)\]$
    Time_Key    time
    Time_Format %d/%b/%Y:%H:%M:%S %z
    Types       code:integer
"""

YAML = """
service: {flush: 1}
parsers: [{name: app, format: json}]
pipeline:
  inputs:
    - {name: tail, path: /var/log/app.log, tag: app}
    - {name: http, port: 9880, tag: web}
    - {name: forward, tag: far}
    - {name: tcp, tag: net}
    - {name: udp, tag: kube.*}
  filters:
    - {name: parser, match: app, key_name: log, parser: app, reserve_data: true}
    - {name: modify, match: far, rename: a b}
    - {name: grep, match: app, regex: level (error|warn)}
  outputs:
    - {name: es, match: app, host: es, logstash_format: on, logstash_prefix: logs}
    - {name: file, match: kube.var.*, path: /tmp}
    - {name: "null", match: host.*}
    - {name: stdout, match: '*'}
    - {name: splunk, match: '*'}
"""


def test_events_are_those_that_the_manual_says(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "fluent.conf").write_text(CLASSIC)
    (tmp_path / "parsers.conf").write_text(PARSERS)
    made = etl.here("import", "fluent.conf")
    first = {"verb": "get", "url": "/a", "code": 200, "kind": "read", "client.ip": "10.0.0.1", "cluster": "one two"}
    other = {"verb": "PUT", "path": "/b", "code": 201, "client.ip": "10.0.0.2", "cluster": "one two"}
    expected = [
        {**first, "@timestamp": "2024-02-03T04:05:06Z"},
        {**other, "@timestamp": "2024-02-03T03:05:06Z"},
        {"log": "else", "cluster": "one two"},
    ]
    lines = [
        "10.0.0.1 GET /a 200 [03/Feb/2024:04:05:06 +0000]",
        "10.0.0.2 PUT /b 201 [03/Feb/2024:04:05:06 +0100]",
        "10.0.0.1 GET /health 200 [03/Feb/2024:04:05:06 +0000]",
        "else",
    ]
    case = {"tests": {"lines": {"input": lines, "expect": {"stdout": expected}}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(case))
    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("7 of 8 sections and rules carried over"), made.err
    assert "fluent.conf:46:1: filter lua: code in Lua" in made.err
    assert tested.status == 0, tested.out + tested.err


def test_a_configuration_in_yaml_lints(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "fluent.yaml").write_text(YAML)
    (tmp_path / "job.yaml").write_text("mine")
    refused = etl.here("import", "fluent.yaml", "-o", "job.yaml")
    assert (refused.status, "job.yaml exists already" in refused.err) == (2, True)
    made = etl.here("import", "fluent.yaml", "-o", "job.yaml", "--force")
    linted = etl.here("lint", "job.yaml")
    sinks = yaml.safe_load((tmp_path / "job.yaml").read_text())["sinks"]

    left = [line.split(": ")[2] for line in made.err.splitlines()[1:] if "fluent.yaml" in line]
    assert left == ["output es.logstash_format", "output null", "output splunk"]
    assert (sinks["es"]["index"], sinks["file"]["from"]) == ("logs", ["udp_events"])
    assert linted.status == 0, linted.out + linted.err
    assert (sinks["es"]["from"], sinks["stdout"]["from"]) == (["tail_events"], "events")


def test_a_parser_that_no_file_has(tmp_path: Path) -> None:
    (tmp_path / "fluent.conf").write_text(CLASSIC)
    files = FluentFiles()
    files.add(tmp_path / "fluent.conf")
    made = FluentBitImport(files)
    made.run()

    assert "the parser 'web' is in none of the files" in str(made.report.left[0])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%Y-%m-%dT%H:%M:%S.%L%z", "yyyy-MM-dd'T'HH:mm:ss.SSSZ"),
        ("%s", "epoch"),
        ("%b %e %T", "MMM d HH:mm:ss"),
        ("%d %r", "dd hh:mm:ss a"),
    ],
)
def test_patterns_of_times(pattern: str, expected: str) -> None:
    assert java_pattern(pattern) == expected


LABELLED = """
[SERVICE]
    Parsers_File parsers.conf
[INPUT]
    Name tail
    Path /var/log/dns.log
    Parser dns
[FILTER]
    Name modify
    Match *
    Add source dns
[OUTPUT]
    Name loki
    Match *
    Host l
    Labels job=fluent, $source
    Label_Keys $source
"""


def test_labels_from_keys_and_times_in_seconds(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "parsers.conf").write_text("[PARSER]\n    Name dns\n    Format json\n    Time_Key ts\n    Time_Format %s.%L\n")
    (tmp_path / "fluent-bit.conf").write_text(LABELLED)

    made = etl.here("import", "fluent-bit.conf", "-o", "job.yaml")

    root = yaml.safe_load((tmp_path / "job.yaml").read_text())
    assert root["sinks"]["loki"]["labels"] == {"job": "fluent", "source": "{source}"}
    assert "fluent-bit.conf:" not in made.err, made.err
    assert etl.here("lint", "job.yaml").status == 0, etl.here("lint", "job.yaml").out


SYSLOG = """
[INPUT]
    Name syslog
    Mode udp
    Port 5140
    Parser syslog-rfc3164
[OUTPUT]
    Name opensearch
    Match *
    Host h
    Index app-%Y.%m.%d
"""


def test_messages_of_syslog_and_dates_in_indexes(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "fluent-bit.conf").write_text(SYSLOG)
    made = etl.here("import", "fluent-bit.conf")
    line = "<34>Oct 11 22:14:15 web su[7]: failed"
    event = {"pri": "34", "host": "web", "ident": "su", "pid": "7", "message": "failed", "@timestamp": "2026-10-11T22:14:15Z"}
    case = {"input": [line], "expect": {"opensearch": [event]}, "now": "2026-11-20T12:00Z"}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump({"tests": {"lines": case}}))

    tested = etl.here("test", "job.yaml")

    assert yaml.safe_load(made.out)["sinks"]["opensearch"]["index"] == "app-{yyyy.MM.dd}"
    assert "fluent-bit.conf:" not in made.err, made.err
    assert tested.status == 0, made.out + tested.out + tested.err
