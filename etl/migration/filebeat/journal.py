"""The input ``journald`` of Filebeat: which entries of the journal it reads, and the names that their fields get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.migration.draft import Draft
from etl.migration.given_options import GivenOptions
from etl.migration.ingest.processor import as_list
from etl.migration.journal import JOURNAL_TIME, choose_entries, journal_draft

_NAMES = {
    JOURNAL_TIME: "@timestamp",
    "MESSAGE": "message",
    "PRIORITY": "log.syslog.priority",
    "SYSLOG_IDENTIFIER": "syslog.identifier",
    "_COMM": "journald.process.name",
    "_HOSTNAME": "host.hostname",
    "_PID": "journald.pid",
    "_SYSTEMD_UNIT": "systemd.unit",
    "_TRANSPORT": "systemd.transport",
    "_UID": "journald.uid",
}
_WHOLES = ("PRIORITY", "_PID", "_UID")


def journal_records(given: GivenOptions, options: dict[str, Any]) -> Draft:
    """The draft of an input: its filters, and names as it writes them."""
    draft = journal_draft(options)
    for name in _WHOLES:
        options["fields"][name] = draft.types[name] = "int"
    values_by_field: dict[str, list[str]] = {}
    matches = given.get("include_matches")
    for text in _texts(given, matches):
        name, _, value = text.partition("=")
        values_by_field.setdefault(_SHORT.get(name, name), []).append(value)
    for option, name in (("transports", "_TRANSPORT"), ("facilities", "SYSLOG_FACILITY")):
        if values := [str(value) for value in as_list(given.get(option) or [])]:
            values_by_field[name] = values
            draft.field(name)
    choose_entries(options, draft, values_by_field, of_all_fields=True)
    draft.members.clear()  # which field of the journal a name means is known for those that are declared
    draft.rename({old: new for old, new in _NAMES.items() if old in draft.types})
    return draft


_SHORT = {"systemd.unit": "_SYSTEMD_UNIT", "process.name": "_COMM", "syslog.identifier": "SYSLOG_IDENTIFIER"}
"""Names of fields in older configurations."""


def _texts(given: GivenOptions, matches: Any) -> list[str]:
    """``FIELD=value`` of all alternatives; nested conditions are left to the report."""
    if isinstance(matches, Mapping):
        if set(matches) - {"match"}:
            given.leave("include_matches", "nested conditions; `match` of the source takes one value of each field")
        return [str(text) for text in as_list(matches.get("match") or [])]
    return [str(text) for text in as_list(matches or [])]
