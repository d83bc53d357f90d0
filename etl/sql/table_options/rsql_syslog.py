"""Columns of rsqldb's syslog source, ``_facility``, ``_hostName`` …, of the fields that the parser ``syslog`` gives."""

from __future__ import annotations

from collections.abc import Mapping

from etl.sql.relation import StepText
from etl.sql.statements import CreateTable, ScriptError

_COLUMNS: Mapping[str, str] = {
    "_facility": "log.syslog.facility.code",
    "_hostname": "host.hostname",
    "_hostaddress": "log.source.address",
    "_level": "log.syslog.severity.code",
    "_msg": "message",
    "_date": "timestamp",
    "_tag": "log.syslog.appname",
    "_pid": "log.syslog.procid",
}
"""Column, in lower case → field."""


def rsql_syslog_steps(table: CreateTable, fields: Mapping[str, str]) -> list[StepText]:
    """The steps that read messages and give them the table's columns. Raises ScriptError for another column."""
    unknown = next((column for column in table.columns if column.type is not None and column.name.lower() not in _COLUMNS), None)
    if unknown is not None:
        raise ScriptError(
            "unknown-field", f"syslog gives no column {unknown.name!r}", unknown.at, f"columns are {', '.join(_COLUMNS)}"
        )
    values = {name: f"cast({_COLUMNS[name.lower()]} as {type_})" for name, type_ in fields.items()}
    return [StepText({"type": "syslog"}, table.at), StepText({"type": "select", "fields": values}, table.at)]
