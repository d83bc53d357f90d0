"""Configurations of Logstash → pipelines, and what these make of lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from running import Etl

from etl.config.cases.case_file import inspect_tests
from etl.migration.draft import NoCounterpartError
from etl.migration.logstash.configuration import Branch, Configuration, ConfigurationReader, Plugin
from etl.migration.logstash.importer import LogstashImport, read_configurations
from etl.running.shared_session import SharedSession
from etl.testing.on_spark import run_on
from etl.testing.results import result

WEB = """
# the web servers
input {
  file { path => "/var/log/web.log" start_position => "beginning" type => "web" }
}
filter {
  if [type] == "web" {
    grok {
      match => { "message" => "^%{IP:[client][ip]} %{WORD:verb} %{NOTSPACE:path} %{INT:status:int} %{DATA:ts}( |$)%{DATA:rest}$" }
      add_tag => [ "parsed" ]
      add_field => { "kind" => "%{verb}-%{[client][ip]}" }
    }
    date { match => ["ts", "ISO8601", "dd/MMM/YYYY:HH:mm:ss"] timezone => "Europe/Berlin" remove_field => ["ts"] }
    mutate {
      remove_field => ["verb"]
      uppercase => ["[url][path]"]
      rename => { "path" => "[url][path]" }
      gsub => [ "kind", "-", "/", "kind", "G(.)T", "<\\1>" ]
      add_field => { "again" => "|%{missing}" }
    }
    kv { source => "rest" field_split => "&" target => "args" exclude_keys => ["secret"] }
    if [status] >= 500 and "parsed" in [tags] {
      mutate { add_tag => ["alert", "bad"] }
    } else if [args][user] =~ /^ad.*n$/ or [args][user] in ["root", "eve"] {
      translate { field => "[args][user]" destination => "group" dictionary => { "eve" => "guests" } fallback => "staff" }
    } else if [status] == 404 {
      drop {}
    } else {
      mutate { replace => { "group" => "none" } copy => { "status" => "code" } convert => { "code" => "string" } }
    }
  }
  mutate { remove_field => ["rest", "message"] remove_tag => ["bad"] }
}
output {
  if "alert" in [tags] { file { path => "/tmp/alerts.jsonl" } }
  stdout { }
}
"""

EVENTS = [
    (
        "10.0.0.1 GET /a 200 2024-02-03T04:05:06Z user=admin&secret=x",
        {
            "type": "web",
            "client.ip": "10.0.0.1",
            "status": 200,
            "tags": ["parsed"],
            "kind": "<E>/10.0.0.1",
            "@timestamp": "2024-02-03T04:05:06Z",
            "url.path": "/A",
            "args.user": "admin",
            "group": "staff",
        },
    ),
    (
        "10.0.0.2 PUT /b 503 03/Feb/2024:10:00:00 x=1",
        {
            "type": "web",
            "client.ip": "10.0.0.2",
            "status": 503,
            "tags": ["parsed", "alert"],
            "kind": "PUT/10.0.0.2",
            "@timestamp": "2024-02-03T09:00:00Z",
            "url.path": "/B",
        },
    ),
    (
        "10.0.0.3 GET /c 302 when user=eve",
        {
            "type": "web",
            "client.ip": "10.0.0.3",
            "status": 302,
            "tags": ["parsed", "_dateparsefailure"],
            "kind": "<E>/10.0.0.3",
            "ts": "when",
            "url.path": "/C",
            "args.user": "eve",
            "group": "guests",
        },
    ),
    (
        "10.0.0.4 GET /d 301 2024-02-03T04:05:06Z",
        {
            "type": "web",
            "client.ip": "10.0.0.4",
            "status": 301,
            "tags": ["parsed"],
            "kind": "<E>/10.0.0.4",
            "@timestamp": "2024-02-03T04:05:06Z",
            "url.path": "/D",
            "group": "none",
            "code": 301,
        },
    ),
    ("no such line", {"type": "web", "tags": ["_grokparsefailure"], "group": "none"}),
]
"""Lines, and the events that Logstash's documentation says they are: mutate removes before it adds and after it changes."""


def imported(text: str, tmp_path: Path) -> LogstashImport:
    file = tmp_path / "web.conf"
    file.write_text(text)
    return LogstashImport(*read_configurations([file]), "web")


@pytest.mark.slow
def test_events_are_those_that_the_documentation_says(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "web.conf").write_text(WEB)
    made = etl.here("import", "web.conf")
    expected = [{**event, "again": "|%{missing}"} for _, event in EVENTS]
    lines = [*(line for line, _ in EVENTS), "10.0.0.5 GET /e 404 2024-02-03T04:05:06Z user=bob"]
    expect = {"stdout": expected, "file": [expected[1]]}
    case = {"tests": {"lines": {"input": lines, "expect": expect}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(case))
    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("12 of 12 plugins and options carried over (100 %)"), made.err
    assert tested.status == 0, tested.out + tested.err


CONVERTED = """
filter {
  csv { columns => ["i", "f", "e", "b", "words"] separator => ";" }
  mutate {
    convert => { "i" => "integer" "f" => "float" "e" => "float_eu" "b" => "boolean" "words" => "string" }
    gsub => ["words", "a|b", "*"]
    split => { "words" => ". " }
  }
  mutate { gsub => ["words", "[*]c", "C"] uppercase => ["words"] remove_field => ["message"] }
}
output { stdout { } }
"""

CONVERSIONS = [
    ("9007199254740993;1,000.5;1.000,5;1.0;ac. b", (9007199254740993, 1000.5, 1000.5, True, ["C", "*"])),
    (" -1,234.9;12e1x;-3,25;YES;x", (-1234, 120.0, -3.25, True, ["X"])),
    ("none;.5;1.2.3,4;f;.", (0, 0.5, 123.4, False, ["."])),
]
"""What Ruby's ``to_i`` and ``to_f``, which Logstash calls, make of a text without its thousands' separators."""


@pytest.mark.spark
@pytest.mark.slow
def test_values_are_converted_as_logstash_does(etl: Etl, shared_session: SharedSession, tmp_path: Path) -> None:
    (tmp_path / "job.conf").write_text(CONVERTED)
    made = etl.here("import", "job.conf")
    events = [dict(zip(("i", "f", "e", "b", "words"), values, strict=True)) for _, values in CONVERSIONS]
    case = {"tests": {"lines": {"input": [line for line, _ in CONVERSIONS], "expect": {"stdout": events}}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(case))
    suite = inspect_tests(tmp_path / "job.yaml").suite
    assert suite is not None
    tested = [result(suite, case, partial(run_on, shared_session)) for case in suite.cases]  # Spark computes a part of it

    assert [(one.name, *one.lines()) for one in tested] == [("lines",)]
    assert all(one.passed for one in tested)


OTHERS = """
input {
  kafka { bootstrap_servers => "a:9092,b:9092" topics => ["x"] codec => json }
  tcp { port => 5514 tags => ["net"] }
  beats { port => 5044 }
  http { port => 8080 }
  redis { host => "r" }
}
filter {
  if [never] { mutate { add_tag => "x" } }
  dissect { mapping => { "message" => "%{a} %{b}" } convert_datatype => { "b" => "int" } }
  csv { source => "a" columns => ["c", "d"] separator => ";" convert => { "d" => "float" } }
  json { source => "b" target => "doc" }
  fingerprint { source => ["c"] method => "SHA256" target => "[@metadata][id]" }
  urldecode { field => "c" }
  useragent { source => "c" target => "agent" }
  cidr { address => ["%{c}"] network => ["10.0.0.0/8"] add_tag => ["inside"] }
  mutate { split => { "c" => "," } join => { "c" => "-" } merge => { "list" => "c" } strip => ["a"] coerce => { "a" => "none" }
    tag_on_failure => "x" }
  ruby { code => "event.set('x', 1)" }
  if [a] =~ /^[\\/]x/ xor [b] > 3 { unknown_filter { } }
}
output {
  elasticsearch { hosts => ["https://es:9200"] index => "logs-%{+YYYY.MM.dd}" document_id => "%{[@metadata][id]}"
    password => "${PW:none}" user => "u" }
  http { url => "http://127.0.0.1:1/x" http_method => "post" }
  statsd { host => "127.0.0.1" }
}
"""


def test_what_has_no_counterpart_is_said_at_its_place(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "others.conf").write_text(OTHERS)
    made = etl.here("import", "others.conf", "-o", "job.yaml")
    left = [line.split(": ", 1)[1] for line in made.err.splitlines() if line.startswith("  ") and "others.conf:" in line]
    text = (tmp_path / "job.yaml").read_text()
    linted = etl.here("lint", "job.yaml")

    assert [one.split(":")[0] for one in left] == [
        *("input redis", "filter mutate.tag_on_failure", "filter ruby", "filter unknown_filter", "output statsd")
    ]
    assert linted.status == 0, linted.out + linted.err
    assert "# NOT CARRIED OVER: filter ruby: code in Ruby" in text
    assert yaml.safe_load(text)["sinks"]["elasticsearch"] == {
        "from": "events",
        "type": "elasticsearch",
        "urls": ["https://es:9200"],
        "index": "logs-{yyyy.MM.dd}",
        "time_field": "@timestamp",
        "id": ["@metadata.id"],
        "action": "index",
        "user": "u",
        "password": "${PW:-none}",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("filter {", "1:9: a plugin or '}' is missing before 'the end'"),
        ("filter { grok { match } }", "1:23: '=>' is missing before '}'"),
        ("filter { if [a] { drop {} ", "1:27: a plugin or '}' is missing"),
        ("other { }", "1:1: 'other' is not a section"),
        ("filter { if " + "(" * 200, "more than 50 blocks or paren"),
        ("filter { " + "if [a] { " * 200, "more than 50 blocks or paren"),
        ("filter { mutate { add_tag => " + "[" * 200, "more than 50 blocks or paren"),
        ("filter { mutate { add_field => " + "{ a => " * 200, "more than 50 blocks or paren"),
        ("filter { sleep { time => " + "9" * 5000, "a number of more than 300 digits"),
        ('filter { grok { match => "', "a value is missing"),
    ],
)
def test_a_text_that_is_no_configuration(text: str, message: str) -> None:
    with pytest.raises(NoCounterpartError, match=message.replace("(", r"\(").replace("{", r"\{").replace("}", r"\}")):
        ConfigurationReader(text).read(Configuration())


def test_values_of_every_form() -> None:
    text = """input { a-b { s => 'it"s' n => -1.5 w => plain h => { "k" => [1, "x"] j => 2 } c => json { t => true }
      m => [1] m => 2 } }
    # comment
    filter { if !([a][b] in ["x"]) and [c] != "y" { } else { } }"""

    found = ConfigurationReader(text).read(Configuration())

    plugin, branch = found.sections["input"][0], found.sections["filter"][0]
    assert isinstance(plugin, Plugin)
    assert isinstance(branch, Branch)
    codec: Any = plugin.options.pop("c")
    assert plugin.options == {"s": 'it"s', "n": -1.5, "w": "plain", "h": {"k": [1, "x"], "j": 2}, "m": [1, 2]}
    assert (codec.name, codec.options) == ("json", {"t": True})
    assert [test is None for test, _ in branch.cases] == [False, True]


@pytest.mark.parametrize("condition", ["[message] == " + " or [message] == ".join(["1"] * 5000), "[message] =~ [message]"])
def test_behind_a_condition_that_is_not_carried_over_no_block_is(condition: str, tmp_path: Path) -> None:
    blocks = f"if {condition} {{ %s }} else if [message] == 'x' {{ %s }} else {{ %s }}"
    filters, outputs = blocks % (("mutate { add_tag => 'x' }",) * 3), blocks % (("null {}",) * 3)
    one = imported(f"filter {{ {filters} }} output {{ {outputs} }}", tmp_path)
    made = one.run()

    reasons = [left.reason for left in one.report.left]
    assert (made.draft.steps, made.destinations) == ([], {})
    assert [reason.partition(":")[0] for reason in reasons] == [
        "its condition",
        *["a condition before it is not carried over"] * 2,
    ] * 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("date { match => 5 }", "match without the name of a field"),
        ("date { match => [] }", "match without the name of a field"),
        ("date { match => ['message', 'ISO8601'] timezone => json {} }", "'timezone' is a plugin"),
        ("grok { match => { 'message' => '(' } pattern_definitions => 5 patterns_dir => 7 }", ""),
    ],
)
def test_options_of_a_wrong_type(text: str, reason: str, tmp_path: Path) -> None:
    one = imported(f"filter {{ {text} }} output {{ http {{ url => 5 headers => 5 }} }}", tmp_path)
    made = one.run()

    (left,) = one.report.left
    assert reason in left.reason
    assert made.destinations["http"].options["urls"] == ["5"]


def test_fields_of_the_old_pattern_set_are_told_by_their_names(tmp_path: Path) -> None:
    filters = 'grok { match => { "message" => "%{COMBINEDAPACHELOG}" } }'
    for name, set_ in (("[clientip]", "legacy"), ("[source][address]", None)):
        made = imported(f'filter {{ {filters} mutate {{ copy => {{ "{name}" => "x" }} }} }}', tmp_path).run()
        (grok,) = (step.options for step in made.draft.steps if step.options["type"] == "grok")
        assert grok.get("pattern_set") == set_


def test_objects_of_s3_are_read_by_their_prefix(tmp_path: Path) -> None:
    given = """bucket => "b" prefix => "a[1" region => "eu-west-1" endpoint => "http://minio:9000" interval => 30
      codec => multiline { pattern => "^x" negate => true what => "previous" } delete => true
      access_key_id => "k" secret_access_key => "s" """
    one = imported(f"input {{ s3 {{ {given} }} sqs {{ queue => 'q' }} }}", tmp_path)
    made = one.run()

    assert made.origins["s3"].options == {
        "type": "file",
        "path": "s3://b/a[[]1*/**?region=eu-west-1&endpoint_override=minio:9000&scheme=http",
        "rescan": "30s",
        "multiline": {"start": "^x"},
    }
    assert [left.construct for left in one.report.left] == [
        *("input s3.delete", "input s3.access_key_id", "input s3.secret_access_key", "input sqs")
    ]


def test_members_of_json_are_read_from_every_input_that_has_them(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "two.conf").write_text(
        'input { file { path => "/a" codec => json } file { path => "/b" codec => json } snmp { } twitter { } }\n'
        'filter { if [status] == "500" { mutate { add_tag => ["bad"] } } }\noutput { stdout { } }'
    )
    made = yaml.safe_load(etl.here("import", "two.conf", "-o", "job.yaml").out or (tmp_path / "job.yaml").read_text())
    linted = etl.here("lint", "job.yaml")

    read = [
        next(step["fields"] for step in made["streams"][f"{name}_events"]["steps"] if step["type"] == "json")
        for name in ("file", "file_2")
    ]
    assert [one["status"] for one in read] == ["string", "string"]
    assert [one["type"] for one in made["sources"].values()] == ["file", "file", "stdin", "inline"]
    assert linted.status == 0, linted.out + linted.err


def test_an_output_to_s3_is_a_folder_of_parts(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "out.conf").write_text(
        'input { file { path => "/a" } }\noutput {\n'
        's3 { bucket => "logs" prefix => "app/%{+YYYY}/" region => "eu-west-1" encoding => "gzip" size_file => 1000'
        ' time_file => 5 access_key_id => "k" canned_acl => "private" codec => json_lines }\n'
        's3 { bucket => "b" prefix => "raw/day" rotation_strategy => "time" }\ns3 { }\n}'
    )
    made = etl.here("import", "out.conf", "-o", "job.yaml")
    linted = etl.here("lint", "job.yaml")
    sinks = yaml.safe_load((tmp_path / "job.yaml").read_text())["sinks"]

    assert sinks["s3"] == {
        "from": "events",
        "type": "file",
        "path": "s3://logs/app/{yyyy}/",
        "compression": "gzip",
        "roll": {"max_bytes": 1000, "max_age": "5m"},
        "time_field": "@timestamp",
    }
    assert (sinks["s3_2"]["path"], sinks["s3_2"]["roll"]) == ("s3://b/raw/", {"max_age": "15m"})
    assert "output s3.region: AWS_REGION=eu-west-1 in the environment" in made.err
    assert "output s3.prefix: the beginning of names" in made.err
    assert "output s3: the option 'bucket' is missing" in made.err
    assert linted.status == 0, linted.out + linted.err


def test_variables_in_the_values_of_fields_and_metadata(etl: Etl, tmp_path: Path) -> None:
    text = """
    input { http { port => 8080 codec => json } }
    filter {
      mutate { add_field => { "site" => "${SITE:main}-%{host_name}" "[@metadata][id]" => "%{key}" "price" => "${ 7" } }
    }
    output { elasticsearch { hosts => ["http://es:9200"] document_id => "%{[@metadata][id]}" index => "i" } }
    """
    (tmp_path / "web.conf").write_text(text)

    made = etl.here("import", "web.conf")
    (tmp_path / "web.yaml").write_text(made.out)

    assert "${SITE:-main}-" in made.out
    assert "$${ 7" in made.out
    assert etl.here("lint", "web.yaml").status == 0, etl.here("lint", "web.yaml").out


PRIORITIES = """
filter {
  grok { match => { "message" => "^<%{NONNEGINT:syslog_pri}>%{WORD:host} %{NOTSPACE:size} %{GREEDYDATA:text}$" } }
  syslog_pri { }
  bytes { source => "size" target => "octets" }
  truncate { fields => ["text"] length_bytes => 4 }
  kv { source => "text" trim => "<>" trimkey => " " }
  prune { whitelist_names => ["^syslog_", "^octets$", "^text\\z", "^tags"] blacklist_names => ["_code$"] }
}
output { stdout { } }
"""


def test_priorities_sizes_and_chosen_names(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "pri.conf").write_text(PRIORITIES)
    made = etl.here("import", "pri.conf", "-o", "job.yaml")
    lines = ["<34>web 2KB abcdef", "<191>web 10 xy"]
    expected = [
        {
            "syslog_facility": "security/authorization",
            "syslog_severity": "critical",
            "syslog_pri": "34",
            "octets": 2048,
            "text": "abcd",
        },
        {"syslog_facility": "local7", "syslog_severity": "debug", "syslog_pri": "191", "octets": 10, "text": "xy"},
    ]
    path = tmp_path / "job.yaml"
    path.write_text(path.read_text() + yaml.safe_dump({"tests": {"priorities": {"input": lines, "expect": expected}}}))

    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("7 of 7 plugins and options carried over (100 %)"), made.err
    assert tested.status == 0, path.read_text() + tested.out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('prune { whitelist_values => { "a" => "x" } }', "filter prune: whitelist_values or blacklist_values"),
        ('prune { interpolate => true whitelist_names => ["%{a}"] }', "'%{a}' depends on the event"),
        ('prune { blacklist_names => ["("] }', "blacklist_names: missing )"),
        ('truncate { fields => ["message"] length_bytes => "x" }', "length_bytes is 'x', and has to be a whole number"),
        ('bytes { target => "n" conversion_method => "metric" }', "a conversion_method or decimal_separator"),
    ],
)
def test_what_these_filters_cannot_do_is_said(text: str, reason: str, tmp_path: Path) -> None:
    one = imported(f"filter {{ {text} }} output {{ stdout {{ }} }}", tmp_path)
    one.run()

    assert reason in str(one.report.left[0])


FIREWALL = """
input { udp { port => 5514 } }
filter {
  kv { source => "log" target => "inner" }
  mutate { remove_field => ["log"] }
  if [date] { date { match => ["date", "ISO8601"] } }
}
output {
  elasticsearch { hosts => ["http://es:9200"] index => "%{[@metadata][beat]}-%{[@metadata][version]}-%{+YYYY.MM.dd}" }
  email { to => "a@b.example" subject => "on %{host} of %{[a][b]}" }
}
"""


def test_what_a_source_gives_or_no_step_gives_does_not_break_the_pipeline(etl: Etl, tmp_path: Path) -> None:
    text = FIREWALL.replace("filter {", 'filter { json { source => "message" } ')
    (tmp_path / "fw.conf").write_text(text)

    made = etl.here("import", "fw.conf", "-o", "job.yaml")

    root = yaml.safe_load((tmp_path / "job.yaml").read_text())
    (first, *_) = root["streams"]["events"]["steps"]
    assert first == {"type": "drop", "fields": ["log.source.address", "log.source.port"]}
    assert root["sinks"]["elasticsearch"]["index"] == "beat-version-{yyyy.MM.dd}"
    assert "index: no step gives the field @metadata." in made.err
    assert etl.here("lint", "job.yaml").status == 0, etl.here("lint", "job.yaml").out


def test_keys_of_pairs_are_neither_the_time_nor_the_tags(tmp_path: Path) -> None:
    filters = 'kv { } mutate { add_tag => ["x"] copy => { "user" => "who" } }'
    made = imported(f"filter {{ {filters} }} output {{ file {{ path => '/x/%{{+YYYY}}' }} }}", tmp_path).run()

    steps = [step.options for step in made.draft.steps]
    assert [{*step["fields"]} for step in steps if step["type"] == "key_value"] == [{"user", "who"}]
    assert any(step.get("fields", {}).get("@timestamp") == "current_timestamp()" for step in steps)
