"""Ingest pipelines → steps, and what the steps make of events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from ingest_steps import grok, imported, steps
from running import Etl

from etl.catalogue import installed
from etl.migration.draft import Draft
from etl.migration.ingest.painless.python_times import TimeFormatter, time_text
from etl.migration.ingest.painless.runtime import call as as_java
from etl.migration.ingest.painless.runtime import rounds
from etl.migration.ingest.pipeline import IngestImport


def test_a_pattern_that_must_match_is_one_step() -> None:
    assert steps(grok("%{IP:source.ip} %{NUMBER:http.response.status_code:long}")) == [
        {
            "type": "grok",
            "field": "message",
            "patterns": ["%{IP:source.ip} %{NUMBER:http.response.status_code:int}"],
            "dot_matches_newline": False,
            "pattern_set": "legacy",
            "keep_field": True,
        }
    ]


def test_a_condition_is_a_choice() -> None:
    found = steps(
        grok("%{WORD:log.level}"), {"set": {"field": "event.kind", "value": "alert", "if": "ctx.log?.level == 'ERROR'"}}
    )

    assert found[1] == {"type": "set", "fields": {"event.kind": "case when log.level = 'ERROR' then 'alert' end"}}


def test_a_field_that_nothing_gives_is_null() -> None:
    found = steps(
        {"set": {"field": "a", "value": "x", "if": "ctx.b == null"}}, {"set": {"field": "c", "value": "y", "if": "ctx.b != null"}}
    )

    assert found == [{"type": "set", "fields": {"a": "'x'"}}]


def test_templates_are_concatenations() -> None:
    found = steps(grok("%{WORD:a} %{WORD:b}"), {"set": {"field": "c", "value": "{{{a}}}-{{b}}"}})

    assert found[1]["fields"] == {"c": "concat(coalesce(a, ''), '-', coalesce(b, ''))"}


def test_the_zone_of_the_shipper_is_an_option() -> None:
    zoned = {"field": "t", "formats": ["MMM d HH:mm:ss"], "timezone": "{{ event.timezone }}", "if": "ctx.event.timezone != null"}
    plain = {"field": "t", "formats": ["MMM d HH:mm:ss"], "if": "ctx.event.timezone == null"}

    found = steps(grok("%{SYSLOGTIMESTAMP:t}"), {"date": plain}, {"date": zoned})

    assert [step["type"] for step in found] == ["grok", "timestamp"]
    assert found[1]["timezone"] == "${TIMEZONE:-UTC}"


def test_a_pipeline_that_is_called_runs_where_the_call_does() -> None:
    found = steps(
        grok("^(?<first>.)"),
        {"pipeline": {"name": "other", "if": "ctx.first == '{'"}},
        other=[{"set": {"field": "first", "value": "x"}}, {"set": {"field": "a", "value": "y"}}],
    )

    assert found[1:3] == [
        {"type": "set", "fields": {"_when_1": "coalesce(first = '{', false)"}},
        {"type": "set", "fields": {"first": "case when _when_1 then 'x' else first end", "a": "case when _when_1 then 'y' end"}},
    ]


def test_pipelines_that_call_each_other_end() -> None:
    ingest = imported({"pipeline": {"name": "main"}})

    assert "more than 10 deep" in ingest.report.left[0].reason


SCRIPT = """
if (ctx.took != null) {
  def scaled = ctx.took * params.scale;
  ctx.event.duration = Math.round(scaled);
  if (params.slow.contains(ctx.kind)) { ctx.event.type = ['slow', ctx.kind]; } else { ctx.event.type = 'info'; }
}
for (name in ['a', 'b']) { ctx.remove(name); }
"""


def test_a_script_is_one_step() -> None:
    found = steps(
        grok("%{NUMBER:took:float} %{WORD:kind} %{WORD:a} %{WORD:b}"),
        {"script": {"source": SCRIPT, "params": {"scale": 1000, "slow": ["query", "fetch"]}}},
    )

    fields = found[1]["fields"]
    kind, duration = fields.pop("event.type"), fields.pop("event.duration")
    assert kind.startswith(
        "case when took is not null and not coalesce(kind in ('query', 'fetch'), false) then array('info') else"
    )
    assert duration.startswith(
        "case when took is not null then cast(floor(case when took is not null then took * 1000 end + 0.5D)"
    )
    assert fields == {"a": "cast(null as string)", "b": "cast(null as string)"}


@pytest.mark.parametrize(
    ("processor", "reason"),
    [
        ({"script": {"source": "for (int i = 0; i < 3; i++) { i.spin(); }"}}, ".spin(…) in Painless"),
        ({"script": {"source": "while (true) { ctx.lines.forEach(exec); }"}}, "exec in Painless, which no statement declares"),
        ({"script": {"source": "while (ctx.n instanceof Exotic) {}"}}, "instanceof Exotic in Painless"),
        ({"script": {"source": "for (def x : ctx.l) {" * 21 + "ctx.a = x;" + "}" * 21}}, "Python is refused: too many"),
        ({"script": {"source": f"ctx.a = 1{'0' * 400}D"}}, "is more than a number can be"),
        ({"script": {"source": f"ctx.a = {1 << 63}"}}, "9223372036854775808 is more than a number can be"),
        ({"script": {"source": "ctx.a = ZonedDateTime.now()"}}, "ZonedDateTime.now(…) in Painless"),
        ({"script": {"id": "stored"}}, "a stored script"),
        ({"set": {"if": "['x'].contains()", "field": "a", "value": 1}}, ".contains(…) in Painless with 0 arguments"),
        ({"set": {"if": "ctx.message.replaceAll(/x/)", "field": "a", "value": 1}}, ".replaceAll(…) in Painless with 1 arguments"),
        ({"script": {"source": "ctx.a = ("}}, "Painless that cannot be read"),
        ({"script": {"source": "ctx.a = " + "(" * 5000}}, "too many parentheses"),
        ({"set": {"field": "{{a}}", "value": 1}}, "a field whose name is a template"),
        ({"date": {"field": "message", "formats": ["QQ"]}}, "QQ"),
        ({"grok": {"field": "message", "patterns": ["(?<a"]}}, ""),
        ({"nothing_of_this": {}}, "unknown here"),
        ({"enrich": {}}, "a lookup with a table does the same"),
        ("text", "a processor is a mapping"),
        ({"grok": {"field": "message", "patterns": 7}}, "the option 'patterns' is '7', and has to be a text or a list of texts"),
        ({"foreach": {"field": "message", "processor": 7}}, "has to be a processor"),
        ({"gsub": {"field": "message", "pattern": "(", "replacement": ""}}, "is not a regular expression"),
        ({"sort": {"field": "message"}}, "takes an array"),
        ({"script": {"source": "ctx.a = new Random()"}}, "new Random(…) in Painless"),
        ({"script": {"source": "ctx.a = ctx.b >>> 3"}}, ">>> in Painless"),
    ],
)
def test_what_has_no_counterpart_is_said_at_its_place(processor: Any, reason: str) -> None:
    ingest = imported(processor, {"set": {"field": "b", "value": "x"}})

    assert ingest.report.summary("processors") == "1 of 2 processors carried over (50 %)"
    assert reason in ingest.report.left[0].reason
    assert any("NOT CARRIED OVER" in text for text in ingest.draft.steps[0].comments)


def test_options_that_are_missing_are_in_the_report_where_they_are_needed() -> None:
    split = {"split": {"field": "message", "separator": ","}}
    loop = {"foreach": {"field": "message", "processor": {"append": {"value": "{{_ingest._value}}"}}}}

    (left,) = imported(split, loop, {"dot_expander": {"path": "a"}}).report.left

    assert (left.construct, left.reason) == ("processors[1].foreach", "the option 'field' is missing")


def test_members_of_a_sample_have_types_and_odd_names() -> None:
    ingest = imported(
        {"json": {"field": "message", "target_field": "app"}},
        {"rename": {"field": "app.t.$date", "target_field": "time"}},
        lines=('{"pid": 7, "a.b": true, "t": {"$date": "x"}, "tags": ["y"]}', "no JSON", '{"pid": 1.5}'),
    )

    (options, *_) = [step.options for step in ingest.draft.steps]
    assert options["fields"] == {"app.pid": "double", "app.a.b": "boolean", "app.t._date": "string", "app.tags": "array<string>"}
    assert options["paths"] == {"app.pid": "pid", "app.a.b": '["a.b"]', "app.t._date": 't["$date"]', "app.tags": "tags"}


JAVA = """
boolean isPrivate(def dot, def ip) {
  try {
    StringTokenizer tok = new StringTokenizer(ip, dot);
    int first = Integer.parseInt(tok.nextToken());
    return first == 10 || first == 127;
  } catch (Exception e) { return false; }
}
def found = false;
float sum = 0;
for (def one : ctx.hops) {
  if (one == '-') { continue; }
  sum += one.length();
  if (!isPrivate(params.dot, one)) { ctx.client = one; found = true; break; }
}
if (!found) { ctx.client = ctx.hops[0]; }
int i = 0;
while (i < ctx.hops.size()) { i += 2; }
int pass = 0;
do { pass++; continue; } while (pass < 3);
ctx.rounds = i / 2 + pass - 3;
ctx.sum = sum;
StringBuilder hex = new StringBuilder();
for (int at = 0; at < 2; at++) { hex.append((char)(65 + at)); }
ctx.made = hex.toString();
Iterator entries = ctx.user.entrySet().iterator();
while (entries.hasNext()) { def e = entries.next(); if (e.getValue() == '?') { entries.remove(); } }
"""


@pytest.mark.parametrize("change", ["", "ctx.x = 1;", "ctx.put('x', 1);", "ctx.x = ctx.x + 1;", "ctx.n += 1;"])
def test_a_script_that_removes_nulls_is_left_out_if_it_does_nothing_else(change: str) -> None:
    source = f"void clean(Map map) {{ map.values().removeIf(v -> v == null); }} {change} clean(ctx);"
    one = imported({"script": {"source": source}})

    assert bool(one.draft.steps or one.report.left) is bool(change)


def test_an_event_that_fails_is_a_dead_letter_or_goes_to_the_handlers() -> None:
    condition = {"if": "ctx.message == 'bad'"}
    (failing,) = steps({"fail": {"message": "no {{message}}", **condition}})
    handled = steps(
        {
            "fail": {
                "message": "why",
                **condition,
                "on_failure": [{"set": {"field": "e", "value": "{{_ingest.on_failure_message}}"}}],
            }
        }
    )

    raised = "cast(raise_error(coalesce(concat('no ', coalesce(message, '')), 'fail')) as boolean)"
    assert failing == {"type": "filter", "where": f"case when message = 'bad' then {raised} else true end"}
    assert handled[-2]["fields"] == {"e": "case when _failed_1 then 'why' end"}
    assert steps({"fail": {"message": "x", "ignore_failure": True}}) == []


FAILING = [
    {"grok": {"field": "message", "patterns": ["^%{WORD:a} %{DATA:day} %{NOTSPACE:n}$"]}},
    {"date": {"field": "day", "formats": ["yyyy-MM-dd"], "tag": "the day"}},
    {"set": {"field": "event.kind", "value": "event"}},
    {"convert": {"field": "n", "type": "long"}},
    {"uppercase": {"field": "a"}},
    {"grok": {"field": "message", "patterns": ["^(?<first>.)"]}},
]
"""Processors of which the first, the second and the fourth fail for some events."""

HANDLERS = [
    {"set": {"field": "event.kind", "value": "pipeline_error"}},
    {"set": {"field": "error.message", "value": "{{_ingest.on_failure_message}}"}},
    {"set": {"field": "error.code", "value": "{{_ingest.on_failure_processor_type}}/{{_ingest.on_failure_processor_tag}}"}},
]


def test_after_a_failure_the_handlers_of_the_pipeline_run_and_no_other_processor(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "failing.yml").write_text(yaml.safe_dump({"processors": FAILING, "on_failure": HANDLERS}))
    made = etl.here("import", "failing.yml")
    good = "{message: x 2026-01-02 7, a: X, '@timestamp': '2026-01-02T00:00:00Z', day: 2026-01-02, n: 7, first: x, "
    good += "event.kind: event}"
    failed = "event.kind: pipeline_error, error.message: "
    expected = [
        good,
        f"{{message: x, {failed}'Provided Grok expressions do not match field value: [x]', error.code: grok/}}",
        f"{{message: x y 7, a: X, n: 7, day: y, {failed}'unable to parse date [y]', error.code: date/the day}}",
        f"{{message: x 2026-01-02 7x, a: X, '@timestamp': '2026-01-02T00:00:00Z', day: 2026-01-02, {failed}"
        "'unable to convert [7x] to long', error.code: convert/}",
    ]
    cases = f"input: [x 2026-01-02 7, x, x y 7, x 2026-01-02 7x], expect: [{', '.join(expected)}]"
    (tmp_path / "job.yaml").write_text(made.out + f"tests:\n  failures: {{{cases}}}\n")

    tested = etl.here("test", "job.yaml")

    assert tested.status == 0, tested.out


def test_a_called_pipeline_fails_in_its_caller_if_it_has_no_handlers() -> None:
    call = {"pipeline": {"name": "inner"}}
    handlers = [{"set": {"field": "error", "value": "{{_ingest.on_failure_pipeline}}"}}]
    inner = [grok("^%{WORD:a}$")]
    after = {"set": {"field": "b", "value": "x"}}
    ingest = IngestImport(
        {"main": {"processors": [call, after], "on_failure": handlers}, "inner": {"processors": inner}}, lambda name, path: name
    )
    ignoring = IngestImport(
        {
            "main": {"processors": [{"pipeline": {"name": "inner", "ignore_failure": True}}, after]},
            "inner": {"processors": inner},
        },
        lambda name, path: name,
    )

    ingest.run("main")
    ignoring.run("main")

    assert ingest.draft.steps[-2].options["fields"] == {
        "b": "case when not _failed_2 then 'x' end",
        "error": "case when _failed_2 then 'inner' end",
    }
    assert ignoring.draft.steps[-2].options["fields"] == {"b": "'x'"}


def test_a_script_with_functions_and_loops_is_a_function_in_python(etl: Etl, tmp_path: Path) -> None:
    processors = [
        grok("^%{NOTSPACE:hops} %{NOTSPACE:user.name} %{NOTSPACE:user.id}$"),
        {"split": {"field": "hops", "separator": ",\\s*"}},
        {"script": {"source": JAVA, "params": {"dot": "."}, "if": "ctx.user.name != 'skip'"}},
    ]
    (tmp_path / "hops.yml").write_text(yaml.safe_dump({"processors": processors}))
    made = etl.here("import", "hops.yml")
    first = "{message: '10.1.1.1,-,8.8.8.8,x eve ?', hops: [10.1.1.1, '-', 8.8.8.8, x], user.name: eve, client: 8.8.8.8, "
    other = "{message: '10.1.1.1 skip ?', hops: [10.1.1.1], user.name: skip, user.id: '?'}"
    cases = f"input: ['10.1.1.1,-,8.8.8.8,x eve ?', 10.1.1.1 skip ?], expect: [{first}rounds: 2, sum: 15.0, made: AB}}, {other}]"
    (tmp_path / "job.yaml").write_text(made.out + f"tests:\n  hops: {{{cases}}}\n")
    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("3 of 3")
    assert tested.status == 0, tested.out


TIMES = """
ZonedDateTime start = ZonedDateTime.parse(ctx.start);
ZonedDateTime end = start.withHour(5).plusMinutes(1).withZoneSameLocal(ZoneId.of('+02:00'));
ctx.event.duration = ChronoUnit.NANOS.between(start, end);
ctx['@timestamp'] = new Date(end.toInstant().toEpochMilli());
def form = DateTimeFormatter.ofPattern("yyyy/MM/dd HH:mm:ss.SSS");
ctx.local = form.format(LocalDateTime.parse(ctx.start, DateTimeFormatter.ISO_DATE_TIME));
ctx.hours = Duration.between(start, end).toHours();
"""

MAPS = """
def code = ctx.priority & 0x7;
def severity = new HashMap();
severity['code'] = code;
severity.put('name', params.names[code.toString()]);
ctx.log['severity'] = severity;
ctx.log.facility = ctx.priority >> 3;
new HashMap(params.kinds.get(ctx.user)).forEach((k, v) -> ctx.event[k] = v);
def seen = [];
ctx.rest.splitOnToken('-').stream().filter(x -> x != '').collect(Collectors.toList()).forEach(x -> {
  if (seen.contains(x)) { return; }
  seen.add(x);
});
seen.sort((a, b) -> b.compareTo(a));
ctx.letters = seen;
def m = /([A-Z]+)-(\\d+)/i.matcher(ctx.rest);
if (m.find()) { ctx.id = m.group(2); }
try { ctx.n = Integer.parseInt(ctx.rest); } catch (NumberFormatException e) { ctx.n = -1; } catch (Exception e) { ctx.n = -2; }
"""

CONDITION = "def x = ctx.user; for (def p : ['ev', 'bo']) { if (x.startsWith(p)) { return true; } } return false;"


def test_scripts_with_times_maps_and_lambdas_and_conditions_with_variables(etl: Etl, tmp_path: Path) -> None:
    params = {"names": {"6": "info"}, "kinds": {"eve": {"category": ["web"], "kind": "event"}}}
    processors = [
        grok("^%{NUMBER:priority:long} %{NOTSPACE:user} %{NOTSPACE:start} %{NOTSPACE:rest}$"),
        {"script": {"source": TIMES}},
        {"script": {"source": MAPS, "params": params, "if": CONDITION}},
    ]
    (tmp_path / "scripts.yml").write_text(yaml.safe_dump({"processors": processors}))
    made = etl.here("import", "scripts.yml")
    times = "start: '2026-01-02T03:04:05.678Z', event.duration: 60000000000, '@timestamp': '2026-01-02T03:05:05.678Z'"
    both = f"{times}, local: 2026/01/02 03:04:05.678, hours: 0"
    maps = "log.severity.code: 6, log.severity.name: info, log.facility: 16, event.category: [web], event.kind: event, "
    maps += "letters: [ab, '12'], id: '12', n: -1"
    expected = (
        f"{{message: '134 eve 2026-01-02T03:04:05.678Z ab-12', priority: 134, user: eve, rest: ab-12, {both}, {maps}}}",
        f"{{message: '7 sue 2026-01-02T03:04:05.678Z 7', priority: 7, user: sue, rest: '7', {both}}}",
    )
    lines = "'134 eve 2026-01-02T03:04:05.678Z ab-12', '7 sue 2026-01-02T03:04:05.678Z 7'"
    (tmp_path / "job.yaml").write_text(f"{made.out}tests:\n  scripts: {{input: [{lines}], expect: [{', '.join(expected)}]}}\n")

    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("3 of 3")
    assert tested.status == 0, tested.out


def test_the_zone_of_each_event(etl: Etl, tmp_path: Path) -> None:
    date = {"field": "t", "timezone": "{{{event.timezone}}}", "formats": ["yyyy-MM-dd HH:mm:ss", "MMM d yyyy HH:mm:ss"]}
    processors = [
        grok("^%{NOTSPACE:event.timezone} %{GREEDYDATA:t}$"),
        {"date": {**date, "target_field": "a"}},
        {"date": {"field": "t", "formats": ["strict_date_optional_time"], "target_field": "b", "ignore_failure": True}},
        {"set": {"field": "c", "copy_from": "nothing.of.this"}},
        {"set": {"field": "t", "copy_from": "b"}},
    ]
    (tmp_path / "zones.yml").write_text(yaml.safe_dump({"processors": processors}))
    made = etl.here("import", "zones.yml")
    expected = (
        "{message: Europe/Berlin 2026-07-02 03:04:05, event.timezone: Europe/Berlin, t: 2026-07-02 03:04:05, "
        "a: '2026-07-02T01:04:05Z', b: '2026-07-02T03:04:05Z'}",
        "{message: '-05:00 Jul 2 2026 03:04:05', event.timezone: '-05:00', a: '2026-07-02T08:04:05Z', t: Jul 2 2026 03:04:05}",
    )
    lines = "Europe/Berlin 2026-07-02 03:04:05, '-05:00 Jul 2 2026 03:04:05', Mars 2026-07-02 03:04:05"
    cases = f"{{input: [{lines}], expect: [{', '.join(expected)}], dead_letters: 1}}"
    (tmp_path / "job.yaml").write_text(f"{made.out}tests:\n  zones: {cases}\n")

    tested = etl.here("test", "job.yaml")

    assert tested.status == 0, tested.out


def test_a_line_that_is_moved_before_it_is_read_as_json_has_the_types_of_the_sample() -> None:
    moved = {"rename": {"field": "message", "target_field": "event.original"}}
    read = {"json": {"field": "event.original", "target_field": "app"}}
    kind = {"set": {"field": "kind", "value": "known", "if": "ctx.app instanceof Map"}}

    ingest = imported(moved, read, kind, lines=('{"pid": 7, "up": true}',))

    assert [step.options for step in ingest.draft.steps if step.options["type"] == "json"] == [
        {
            "type": "json",
            "field": "event.original",
            "fields": {"app.pid": "bigint", "app.up": "boolean"},
            "paths": {"app.pid": "pid", "app.up": "up"},
            "keep_field": True,
        }
    ]
    assert ingest.draft.steps[-1].options["fields"] == {
        "kind": "case when not coalesce(app.pid is null and app.up is null, false) then 'known' end"
    }


def test_a_loop_of_a_script_ends() -> None:
    with pytest.raises(RuntimeError, match="more than 1,000,000 rounds"):
        list(rounds())


def test_keys_of_pairs_are_those_that_processors_name() -> None:
    pairs = {"field_split": "\\s+", "value_split": "=", "target_field": "a.log", "exclude_keys": ["pw"], "strip_brackets": True}
    found = steps(
        grok("^%{DATA:first} %{GREEDYDATA:rest}$"),
        {"kv": {"field": "first", **pairs}},
        {"kv": {"field": "rest", **pairs}},
        {"lowercase": {"field": "a.log.op"}},
    )

    first, other = (step for step in found if step["type"] == "key_value")
    assert first["fields"] == {"a.log.op": "string"}
    assert (first["prefix"], first["exclude"], first["brackets"]) == ("a.log.", ["pw"], ["()", "<>", "[]"])
    assert other["fields"] == {"_pairs_2.op": "string"}
    assert any(step.get("fields", {}).get("a.log.op") == "coalesce(_pairs_2.op, a.log.op)" for step in found)


def test_the_direction_of_a_connection() -> None:
    (_, step) = steps(
        grok("%{IP:source.ip} %{IP:destination.ip}"), {"network_direction": {"internal_networks": ["private", "192.0.2.0/24"]}}
    )

    assert step["fields"]["network.direction"].startswith(
        "case when ip_in(source.ip, '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fd00::/8', '192.0.2.0/24') and ip_in(dest"
    )


def test_networks_that_each_event_has(etl: Etl, tmp_path: Path) -> None:
    processors = [
        grok("^%{NOTSPACE:source.ip} %{NOTSPACE:destination.ip} %{NOTSPACE:nets}$"),
        {"split": {"field": "nets", "separator": ","}},
        {"network_direction": {"internal_networks_field": "nets", "if": "ctx.source.ip != 'skip'"}},
    ]
    (tmp_path / "networks.yml").write_text(yaml.safe_dump({"processors": processors}))
    made = etl.here("import", "networks.yml")
    lines = {
        "10.0.0.1 8.8.8.8 private": "outbound",
        "8.8.8.8 9.9.9.9 private,8.8.8.0/24": "outbound",
        "::1 ff02::1 loopback": "outbound",
    }
    lines |= {"8.8.8.8 10.1.1.1 public": "outbound", "1.1.1.1 2.2.2.2 x": None, "skip 10.0.0.1 private": None}
    expected = []
    for line, direction in lines.items():
        source, destination, nets = line.split(" ")
        event = {"message": line, "source.ip": source, "destination.ip": destination, "nets": nets.split(",")}
        expected.append(event | ({"network.direction": direction} if direction else {}))
    cases = {"tests": {"networks": {"input": list(lines), "expect": expected}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(cases))

    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("3 of 3")
    assert tested.status == 0, made.out + tested.out


def test_networks_with_names_of_what_is_not_in_them() -> None:
    pair = grok("%{IP:source.ip} %{IP:destination.ip}")
    (_, step) = steps(pair, {"network_direction": {"internal_networks": ["public", "10.0.0.0/8"]}})
    left = imported(pair, {"network_direction": {"internal_networks": ["home"]}}).report.left

    assert "(ip_in(source.ip, '10.0.0.0/8') or not ip_in(source.ip, '10.0.0.0/8', " in step["fields"]["network.direction"]
    assert "the network 'home'; those with names are private, " in left[0].reason


def test_the_parts_of_a_domain() -> None:
    fqdn = {"field": "fqdn", "target_field": "dns"}
    (_, step) = steps(grok("%{NOTSPACE:fqdn}"), {"registered_domain": fqdn})
    texts = ["www.a.BBC.co.uk", "co.uk", "localhost", "192.0.2.1", "bbc.co.uk", None]

    batch = pa.record_batch({"fqdn": pa.array(texts, pa.string())})
    events, rejects = installed().families["step"]["set"].model_validate(step).open(batch.schema)(batch)

    assert not list(rejects)
    assert list(zip(*(events.column(f"dns.{part}").to_pylist() for part in DOMAIN_PARTS), strict=True)) == [
        ("www.a.BBC.co.uk", "bbc.co.uk", "www.a", "co.uk"),
        ("co.uk", None, None, "co.uk"),
        (None, None, None, None),
        (None, None, None, None),
        ("bbc.co.uk", "bbc.co.uk", None, "co.uk"),
        (None, None, None, None),
    ]


def test_what_is_no_domain_goes_to_the_handlers_where_the_processor_must_find_one() -> None:
    handler = [{"set": {"field": "e", "value": "bad"}}]
    must = {"field": "fqdn", "ignore_missing": False, "on_failure": handler}
    made = steps(grok("%{NOTSPACE:fqdn} %{WORD:domain}"), {"registered_domain": must})

    assert made[1]["fields"]["subdomain"] == "subdomain(fqdn)"
    assert made[1]["fields"]["domain"].endswith(", domain)")
    assert made[-2]["fields"]["e"].endswith("then 'bad' end")
    assert steps({"registered_domain": {"field": "fqdn"}}) == []
    assert steps({"registered_domain": must})[-1]["fields"] == {"e": "'bad'"}


DOMAIN_PARTS = ("domain", "registered_domain", "subdomain", "top_level_domain")


def test_an_empty_capture_is_an_empty_text() -> None:
    found, filled, *_ = steps(grok("^%{DATA:a} %{WORD:b} (x%{DATA:c})?$"))

    assert found["patterns"] == ["^%{DATA:a} %{WORD:b} (?<_matched_1>x%{DATA:c})?$"]
    assert filled["fields"] == {
        "a": "coalesce(a, '')",
        "c": "case when _matched_1 is not null and c is null then '' else c end",
    }


def test_an_empty_capture_of_some_of_several_patterns_is_an_empty_text_where_these_match(etl: Etl, tmp_path: Path) -> None:
    patterns = ["^a %{DATA:user}:%{WORD:kind}$", "^b %{WORD:kind} (?<note>.*)$", "^c (%{DATA:user};)?$"]
    patterns.append(r"^d( \[(?:%{DATA:user})\])?(x|y(?<note>z*)|)$")
    (tmp_path / "empty.yml").write_text(yaml.safe_dump({"processors": [{"grok": {"field": "message", "patterns": patterns}}]}))
    made = etl.here("import", "empty.yml")
    expected = (
        "{message: 'a :x', user: '', kind: x}, {message: 'a eve:y', user: eve, kind: y}, {message: 'b z ', kind: z, note: ''}"
    )
    expected += ", {message: 'c '}, {message: 'c ;', user: ''}, {message: 'd []', user: ''}, {message: dy}"
    cases = f"input: ['a :x', 'a eve:y', 'b z ', 'c ', 'c ;', 'd []', dy], expect: [{expected}]"
    (tmp_path / "job.yaml").write_text(f"{made.out}tests:\n  empty: {{{cases}}}\n")

    tested = etl.here("test", "job.yaml")

    assert tested.status == 0, made.out + tested.out


def test_a_name_that_is_a_value_and_an_object_is_refused() -> None:
    assert "cannot be an object" in imported({"set": {"field": "message.text", "value": "x"}}).report.left[0].reason
    assert isinstance(Draft().field("x").sql, str)


def test_the_command_prints_a_pipeline_that_runs(etl: Etl, tmp_path: Path) -> None:
    processors = [
        grok("^%{IP:source.ip} %{WORD:user.name} %{NUMBER:bytes:long}$"),
        {"append": {"field": "tags", "value": "login"}},
        {"append": {"field": "tags", "value": "{{user.name}}", "allow_duplicates": False}},
        {"script": {"source": "ctx.a = new Random()"}},
    ]
    (tmp_path / "login.json").write_text(yaml.safe_dump({"description": "Logins", "processors": processors}))
    made = etl.here("import", "login.json")
    expected = "{message: 10.0.0.1 eve 7, user.name: eve, source.ip: 10.0.0.1, tags: [login, eve], bytes: 7}"
    tests = f"tests:\n  a login: {{input: ['10.0.0.1 eve 7', x], expect: [{expected}], dead_letters: 1}}\n"
    (tmp_path / "login.yaml").write_text(made.out + tests)

    assert made.status == 0
    assert "3 of 4 processors carried over (75 %)" in made.err
    assert "login.json:" in made.err
    assert etl.here("test", "login.yaml").status == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "x.yml:1:5: expected the node content"),
        ("- a\n", "x.yml:1:1: an ingest pipeline"),
        ("anything: 1", "x.yml:1:1: an ingest pipeline of Elasticsearch or OpenSearch has the key 'processors'"),
        ("processors: 7", "x.yml:1:1: 'processors' is a list"),
    ],
)
def test_files_that_are_no_pipelines(etl: Etl, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.yml").write_text(text)

    found = etl.here("import", "x.yml")

    assert found.status == 1
    assert message in found.err
    assert "Traceback" not in found.err


def test_what_is_left_out_at_the_end_is_said_there(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(yaml.safe_dump({"processors": [grok("%{WORD:a}"), {"enrich": {}}]}))

    assert "# NOT CARRIED OVER: processors[1].enrich" in etl.here("import", "x.yml").out.partition("sinks:")[0]


def test_options_without_a_counterpart_are_in_the_report() -> None:
    ingest = imported(
        {"set": {"field": "a", "value": "x", "colour": "red"}},
        {"community_id": {"seed": 7}},
        {"uppercase": {"field": "message", "tag": "t", "ignore_missing": True, "description": "d"}},
    )

    assert [one.construct for one in ingest.report.left] == ["processors[0].set.colour", "processors[1].community_id.seed"]
    assert (ingest.report.total, ingest.report.carried) == (5, 3)


def test_an_address_is_checked() -> None:
    kept = steps(
        grok("%{NOTSPACE:host.name}"),
        {"convert": {"field": "host.name", "target_field": "host.ip", "type": "ip", "ignore_failure": True}},
    )

    assert kept[1]["fields"] == {"host.ip": "case when ip_version(host.name) is not null then host.name end"}


def test_a_rename_that_overrides() -> None:
    found = steps(
        {"set": {"field": "a", "value": "old"}}, {"rename": {"field": "message", "target_field": "a", "override": True}}
    )

    assert found[-2:] == [
        {"type": "set", "fields": {"a": "case when message is not null then message else a end"}},
        {"type": "drop", "fields": ["message"]},
    ]


def test_the_type_auto_keeps_what_there_is_and_says_so() -> None:
    copied = {"convert": {"field": "message", "target_field": "b", "type": "auto"}}
    ingest = imported({"set": {"field": "a", "value": 7}}, {"convert": {"field": "a", "type": "auto"}}, copied)

    assert [step.options["fields"] for step in ingest.draft.steps] == [{"a": "7", "b": "message"}]
    assert [one.construct for one in ingest.report.left] == ["processors[2].convert.type"]
    assert (ingest.report.total, ingest.report.carried) == (4, 3)


def test_a_pipeline_that_is_ended_does_nothing_further_but_its_caller_does() -> None:
    end = {"terminate": {"if": "ctx.message == 'x'"}}
    inner = [end, {"set": {"field": "a", "value": "after"}}, {"terminate": {}}, {"set": {"field": "b", "value": "never"}}]

    *_, last, _ = steps({"pipeline": {"name": "inner"}}, {"set": {"field": "c", "value": "caller"}}, inner=inner)

    assert last["fields"] == {"a": "case when not coalesce(_ended_1, false) then 'after' end", "c": "'caller'"}


def test_sizes_are_numbers_of_bytes() -> None:
    step = steps({"bytes": {"field": "message", "target_field": "n"}})[-1]
    batch = pa.record_batch({"message": pa.array(["2KB", "3 mb", "7b", "1gb", None])})

    events, rejects = installed().families["step"]["set"].model_validate(step).open(batch.schema)(batch)

    assert not list(rejects)
    assert events.column("n").to_pylist() == [2048, 3 << 20, 7, 1 << 30, None]


def test_a_field_is_appended_to_a_list() -> None:
    assert steps({"append": {"field": "a", "copy_from": "message"}})[-1]["fields"] == {
        "a": "case when message is not null then array(message) end"
    }


def test_options_of_csv_date_and_uri_parts() -> None:
    made = steps(
        {"csv": {"field": "message", "target_fields": ["when", "url_text"], "trim": True, "empty_value": "-"}},
        {"date": {"field": "when", "target_field": "day", "formats": ["yyyy-MM-dd"], "output_format": "yyyy/MM"}},
        {"uri_parts": {"field": "url_text", "keep_original": False}},
    )

    assert made[0]["trim"] is True
    assert {
        "when": "case when `when` is null then '-' else `when` end",
        "url_text": "case when url_text is null then '-' else url_text end",
    } in [step.get("fields") for step in made]
    assert {"day": "date_format(day, 'yyyy/MM')"} in [step.get("fields") for step in made]
    assert {"type": "drop", "fields": ["url.original"]} in made
    assert "the language 'de'" in str(
        imported({"date": {"field": "message", "formats": ["dd MMM yyyy"], "locale": "de"}}).report.left[0]
    )


def test_a_pipeline_that_may_be_missing() -> None:
    assert steps(
        {"pipeline": {"name": "other@custom", "ignore_missing_pipeline": True}}, {"set": {"field": "a", "value": "x"}}
    ) == [{"type": "set", "fields": {"a": "'x'"}}]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            time_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-5, minutes=-30)))),
            "2026-01-02T03:04:05-05:30",
        ),
        (time_text(datetime(2026, 1, 2, microsecond=600_000, tzinfo=UTC)), "2026-01-02T00:00:00.600Z"),
        (TimeFormatter("yyyyMMdd SSS").format(datetime(2026, 1, 2, microsecond=202_601)), "20260102 202"),
        ([as_java(timedelta(seconds=-90), f"to{name}") for name in ("Minutes", "Hours", "Days")], [-1, 0, 0]),
        ([as_java(timedelta(days=1, minutes=61), f"to{name}") for name in ("Minutes", "Hours", "Days")], [1501, 25, 1]),
    ],
)
def test_times_and_durations_are_those_of_java(found: Any, expected: Any) -> None:
    assert found == expected
