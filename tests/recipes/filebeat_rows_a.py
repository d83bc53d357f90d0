"""Rows of filebeat's modules for the system, its databases and its agents."""

from __future__ import annotations

from filebeat_case import Row

ZONE = {"ZONE": "Etc/GMT+2"}
"""The zone of filebeat's run."""

AUTH = (
    "message",
    "event.action",
    "event.outcome",
    "system.auth.ssh.event",
    "source.ip",
    "source.port",
    "related.ip",
    "related.user",
    "user.name",
)
"""Of sshd, su, PAM and cron the recipe reads lines that filebeat's module leaves as text, and it keeps the text of all."""

POSTGRESQL = (
    "postgresql.log.session_line_number",
    "postgresql.log.hint",
    "postgresql.log.context",
    "postgresql.log.location",
    "postgresql.log.query",
    "event.duration",
)
"""What filebeat's module drops: columns of the CSV log, statements after an SQL state."""

_SUMMER = "EST is five hours behind UTC in July, too; filebeat takes the name for the zone of New York"

POSTGRESQL_ZONES = {
    **{f"postgresql/log/postgresql-9.6-multi-core.log@{offset}": _SUMMER for offset in (897, 967, 1069, 1176, 1273)},
    **{f"postgresql/log/postgresql-9.6-new-timestamp.log@{offset}": _SUMMER for offset in (0, 66, 164, 267, 360)},
}

_RESULT = "ECS knows success and failure; filebeat writes the record's res=1"

AUDITD = {
    "auditd/log/audit-cent7-node.log@234": _RESULT,
    "auditd/log/audit-cent7-node.log@425": _RESULT,
    "auditd/log/audit-rhel6.log@993": _RESULT,
    "auditd/log/test.log@0": _RESULT,
    "auditd/log/test.log@1178": "what was typed stays in hex; filebeat writes it in carets, from which it cannot be had back",
    "auditd/log/useradd.log@807": "of a key that is there twice the last counts; a field is a text or an array, never both",
}

ROWS: tuple[Row, ...] = (
    Row("system/syslog", "linux-syslog", "tz-offset", env=ZONE),
    Row("system/syslog", "linux-syslog", env=ZONE, no_time=True),
    Row("system/auth", "linux-auth", "timestamp", env=ZONE, more=AUTH),
    Row("system/auth", "linux-auth", env=ZONE, no_time=True, more=AUTH),
    Row("postgresql/log", "postgresql", env=ZONE, texts=("process.pid",), more=POSTGRESQL, exceptions=POSTGRESQL_ZONES),
    Row("mysql/error", "mysql-error", env=ZONE),
    Row(  # the recipe keeps what an entry says beyond filebeat's list, a cache that was not asked included
        "mysql/slowlog",
        "mysql-slow",
        env=ZONE,
        texts=("mysql.thread_id", "mysql.slowlog.tmp_disk_tables"),
        more=("mysql.slowlog",),
    ),
    Row("redis/log", "redis", env=ZONE, no_time=True, more=("process.pid",)),  # filebeat drops [2932] of Windows
    Row("mongodb/log", "mongodb", env=ZONE, more=("mongodb.log",)),  # attributes and tags of JSON, which filebeat drops
    Row(  # an outcome of system calls and decoded addresses of sockets, which filebeat leaves as they are
        "auditd/log",
        "auditd",
        objects={"auditd.log.other": "auditd.log"},
        more=("event.outcome", "auditd.log.socket", "related.ip", "related.user", "related.hosts"),
        exceptions=AUDITD,
    ),
    Row(
        "osquery/result",
        "osquery",
        objects={"osquery.result.columns": "osquery.result.columns", "osquery.result.decorations": "osquery.result.decorations"},
    ),
    Row("santa/log", "santa", objects={"santa.other": "santa"}),
)
