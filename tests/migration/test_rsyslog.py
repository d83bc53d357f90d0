"""Configurations of rsyslog → pipelines, and what these make of messages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from running import Etl

from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.rsyslog.configuration import ConfigurationReader, Element
from etl.migration.rsyslog.expressions import read_expression, selector_mask
from etl.migration.rsyslog.importer import SYSLOG_FIELDS, RsyslogImport, read_configurations
from etl.migration.rsyslog.properties import Properties
from etl.migration.rsyslog.templates import members_of, path_of, string_parts, text_of

CONFIGURATION = r"""
# a central host
module(load="imuxsock")
$ModLoad imklog
input(type="imudp" port="514")
input(type="imtcp" port="514" ruleset="remote")
input(type="imfile" File="/var/log/app/*.log" Tag="app:" Severity="info" Facility="local3" addMetadata="on")
global(workDirectory="/var/spool/rsyslog")
$FileOwner syslog
$ActionFileDefaultTemplate RSYSLOG_TraditionalFileFormat
$template PerHost,"/var/log/remote/%HOSTNAME%/%$YEAR%-%$MONTH%-%$DAY%.log"
template(name="as-json" type="list") {
  constant(value="{\"@timestamp\":\"") property(name="timereported" dateFormat="rfc3339")
  constant(value="\",\"host\":\"") property(name="hostname")
  constant(value="\",\"level\":\"") property(name="syslogseverity-text" caseConversion="upper")
  constant(value="\",\"kind\":\"") property(name="$!kind")
  constant(value="\",\"short\":\"<") property(name="$.short") constant(value=">\"}\n")
}
template(name="daily" type="string" string="logs-%$year%.%$month%.%$day%")
ruleset(name="remote") {
  if $fromhost-ip startswith "192.0.2." and not ($programname == ["cron", "CRON"]) then {
    action(type="omfile" dynaFile="PerHost" FileCreateMode="0640")
    stop
  } else if re_match($msg, "[Ee]rror") then {
    set $!kind = "error" & "!";
    set $.short = substring($msg, 0, 5);
    action(type="omelasticsearch" server="search.example" searchIndex="daily" dynSearchIndex="on" template="as-json")
  }
  action(type="omkafka" broker=["k1:9092","k2:9092"] topic="logs" confParam=["linger.ms=5"] template="RSYSLOG_FileFormat")
  /* the same file as below */
  authpriv.* /var/log/auth.log
}
auth,authpriv.*                 /var/log/auth.log
*.*;auth,authpriv.none          -/var/log/syslog
*.emerg                         :omusrmsg:*
:programname, isequal, "sshd"   /var/log/sshd.log
& stop
if $syslogfacility-text == 'local3' and $syslogseverity <= 4 then @@(o)central.example:6514;RSYSLOG_SyslogProtocol23Format
& ~
*.* @192.0.2.9
"""

LINES = [
    "<38>Nov 20 06:25:03 gate01 sshd[4111]: Accepted publickey for anna",
    "<78>Nov 20 06:25:04 gate01 CRON[7]: (root) CMD (true)",
    "<155>Nov 20 06:25:05 gate01 app: broken",
]
REMOTE = [
    "<86>1 2026-11-20T06:25:03.5Z web01 login 7 - - an Error happened",
    "<14>1 2026-11-20T06:25:04Z web01 other - - - fine",
]


@pytest.mark.slow
def test_messages_go_where_the_manual_says(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "rsyslog.conf").write_text(CONFIGURATION)

    made = etl.here("import", "rsyslog.conf")
    error = {
        "@timestamp": "2026-11-20T06:25:03.500Z",
        "host": "web01",
        "level": "INFO",
        "kind": "error!",
        "short": "<an Er>",
    }
    text = "2026-11-20T06:25:04.000000+00:00 web01 other: fine"
    cases = {
        "local": {
            "input": {"syslog": LINES},
            "expect": {
                "file": [LINES[0]],
                "file_2": {"count": 2},
                "file_3": {"count": 1, "contains": [{"message": "Accepted publickey for anna", "log.syslog.procid": "4111"}]},
                "fwd": {"count": 1, "contains": [{"message": "broken", "host.hostname": "gate01"}]},
                "fwd_2": {"count": 1, "contains": [{"log.syslog.appname": "CRON"}]},
            },
        },
        "remote": {
            "input": {"syslog_2": REMOTE},
            "expect": {"elasticsearch": [error], "kafka": {"count": 2, "contains": [{"line": text}]}, "file": {"count": 1}},
        },
    }
    del cases["local"]["expect"]["file"]  # type: ignore[index]
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump({"tests": cases}))
    tested = etl.here("test", "job.yaml")

    assert made.err.startswith("27 of 29 inputs, statements and actions"), made.err
    assert "messages of the kernel are in the journal" in made.err
    assert tested.status == 0, tested.out + tested.err
    assert etl.here("lint", "job.yaml").status == 0
    pipeline = yaml.safe_load(made.out)
    assert pipeline["sources"]["syslog"]["listen"] == ["udp://0.0.0.0:514", "unixgram:///dev/log"]
    assert pipeline["sinks"]["fwd"]["address"] == "tcp://central.example:6514"
    assert pipeline["sinks"]["fwd_2"]["format"] == "rfc3164"
    assert len(pipeline["sinks"]["file"]["from"]) == 2, "two rulesets write one file"


def properties() -> Properties:
    return Properties(Draft({**SYSLOG_FIELDS, "log.source.address": "string", "a.b": "string"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$msg contains 'x'", "contains(message, 'x')"),
        ('$msg contains_i "X"', "contains(lower(message), lower('X'))"),
        ("$syslogseverity <= 3 or $pri == 13", "log.syslog.severity.code <= 3 or log.syslog.priority = 13"),
        ("not ($programname != 'a')", "coalesce(log.syslog.appname = 'a', false)"),
        ("$!a!b startswith ['x', 'y']", "startswith(a.b, 'x') or startswith(a.b, 'y')"),
        ("re_match_i($hostname, '^w') and exists($!a!b)", "regexp_like(host.hostname, '(?i)^w') and a.b is not null"),
        ("prifilt('mail.*')", "log.syslog.facility.code in (2)"),
        ("tolower($msg) == 'a' & 'b'", "lower(coalesce(message, '')) = concat('a', 'b')"),
        ("strlen($msg) > 3 + 2 * 4", "length(coalesce(message, '')) > (3 + (2 * 4))"),
        ("field($msg, 44, 2) == 'x'", "split_part(coalesce(message, ''), ',', 2) = 'x'"),
        ("cnum($!a!b) == 5", "try_cast(a.b as bigint) = 5"),
    ],
)
def test_conditions(text: str, expected: str) -> None:
    node, end = read_expression(text, 0)

    assert properties().condition(node).sql.replace("`", "") == expected
    assert end == len(text)


@pytest.mark.parametrize(
    ("selector", "facility", "severities"),
    [
        ("*.*", 0, range(8)),
        ("*.info;mail.none;authpriv.none", 2, ()),
        ("*.info;mail.none;authpriv.none", 3, range(7)),
        ("mail.=err", 2, (3,)),
        ("mail.*;mail.!err", 2, range(4, 8)),
        ("mail.err;mail.!=crit", 2, (0, 1, 3)),
        ("kern,local7.warn", 23, range(5)),
        ("16.6", 16, range(7)),
    ],
)
def test_selectors(selector: str, facility: int, severities: range) -> None:
    assert selector_mask(selector)[facility] == frozenset(severities)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%msg%\n", "coalesce(message, '')"),
        (
            "<%PRI%>%HOSTNAME:::uppercase%",
            "concat('<', coalesce(cast(log.syslog.priority as string), ''), '>', upper(coalesce(host.hostname, '')))",
        ),
        ("%msg:2:5%", "substring(coalesce(message, ''), 2, 4)"),
        ("%timereported:::date-unixtimestamp%", "coalesce(cast(unix_seconds(timestamp) as string), '')"),
    ],
)
def test_templates_of_text(template: str, expected: str) -> None:
    assert text_of(string_parts(template), properties()).sql.replace("`", "") == expected


def test_templates_of_objects_and_paths() -> None:
    text = r'{"host":{"name":"%HOSTNAME%"},%msg:::jsonf%,"n":1,"s":"%syslogseverity%","none":null}'
    template = Element("template", {"type": "string", "string": text}, "")
    made = members_of(template, properties())

    assert made == {"host.name": "host.hostname", "msg": "message", "n": "1", "s": "log.syslog.severity.code", "none": "null"}
    assert (
        path_of(string_parts("/a/%fromhost-ip%/%timereported:1:10:date-rfc3339%.log"), properties())
        == "/a/{log.source.address}/{yyyy-MM-dd}.log"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('action(type="omfile" file=', "rsyslog.conf:1:27: a value is missing"),
        ("if $msg then", "rsyslog.conf:1:13"),
        ('ruleset(name="x") {\n  stop', "'}' is missing at the end"),
        ("if " + "(" * 5000 + "1 then stop", "an expression is too deep"),
        ("{" * 5000, "blocks inside each other"),
        ("set $!a = ;", "rsyslog.conf:1:10: an expression is missing"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rsyslog.conf").write_text(text)

    with pytest.raises(NoCounterpartError) as raised:
        ConfigurationReader(tmp_path / "rsyslog.conf").read()

    assert message in str(raised.value)


def test_what_has_no_counterpart_stands_in_the_report(tmp_path: Path) -> None:
    lines = [
        'module(load="imudp")',
        'input(type="imudp")',
        "if $uuid == 'x' then { ",
        "/var/log/x",
        "}",
        "if lookup('t', $msg) == 'y' then stop",
        'action(type="omrelp" target="x")',
        "call other",
        "*.* /var/log/all;Own",
        "call_indirect $!name;",
        "foreach ($.one in $!list) do { stop }",
    ]
    (tmp_path / "rsyslog.conf").write_text("\n".join(lines))
    one = RsyslogImport(read_configurations([tmp_path / "rsyslog.conf"]))

    text = one.run()

    assert [left.construct for left in one.report.left] == [
        "action omfile",
        "stop",
        "action omrelp",
        "call other",
        "action omfile",
        "call_indirect $!name",
        "foreach",
    ]
    assert text.count("NOT CARRIED OVER") == 7
    assert "a stream with a `filter` for each name" in text
    assert "the step `unnest`" in text
    assert "a table under `tables` and the step `lookup`" in text
    assert "its condition: the property 'uuid'" in text


def test_a_template_with_a_mistake_is_in_the_report(tmp_path: Path) -> None:
    mistake = CONFIGURATION.replace('property(name="hostname")', 'property(name= ="hostname")')
    (tmp_path / "rsyslog.conf").write_text(mistake)
    one = RsyslogImport(read_configurations([tmp_path / "rsyslog.conf"]))

    text = one.run()

    assert "omelasticsearch: the property '=\"hostname\"'" in text
    assert yaml.safe_load(text)["sinks"]


def test_included_files_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "rsyslog.d").mkdir()
    (tmp_path / "rsyslog.conf").write_text('$IncludeConfig rsyslog.d/*.conf\ninclude(file="missing.conf")\n*.* /var/log/all\n')
    (tmp_path / "rsyslog.d" / "a.conf").write_text('include(file="../rsyslog.conf")\nmail.* /var/log/mail\n')

    found = ConfigurationReader(tmp_path / "rsyslog.conf").read()

    assert [type(one).__name__ for one in found] == ["Command", "If", "Command", "If"]


FORWARDED = """
module(load="imuxsock")
template(name="token" type="string"
  string="<%pri%>1 %timestamp:::date-rfc3339% %HOSTNAME% %app-name% %procid% LOG [abc-1@41058 tag=\\"web\\"] %msg%\\n")
template(name="day" type="string" string="/var/log/%HOSTNAME%/%$YEAR%.log")
template(name="object" type="list") {
  constant(value="{") property(outname="host" name="hostname" format="jsonf")
  constant(value=",") property(outname="msg" name="msg" format="jsonf") constant(value="}")
}
action(type="omfwd" protocol="tcp" target="logs.example.com" port="6514" template="token" StreamDriverMode="1")
action(type="omfile" dynaFile="day" template="object")
"""


def test_tokens_in_structured_data_and_paths_by_members(etl: Etl, tmp_path: Path) -> None:
    (tmp_path / "rsyslog.conf").write_text(FORWARDED)

    made = etl.here("import", "rsyslog.conf", "-o", "job.yaml")

    root = yaml.safe_load((tmp_path / "job.yaml").read_text())
    forwarded = root["sinks"]["fwd"]
    assert (forwarded["address"], forwarded["format"]) == ("tls://logs.example.com:6514", "rfc5424")
    assert (forwarded["message_id"], forwarded["structured_data"]) == ("LOG", {"abc-1@41058": ["tag"]})
    assert root["streams"]["to_fwd"]["steps"] == [{"type": "set", "fields": {"tag": "'web'"}}]
    assert root["sinks"]["file"]["path"] == "/var/log/{host}/{yyyy}.log"
    assert "3 of 3" in made.err, made.err
    assert etl.here("lint", "job.yaml").status == 0, etl.here("lint", "job.yaml").out
