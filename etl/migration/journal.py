"""The journal of systemd in imported pipelines: fields that a configuration names are declared, and its filters carried over."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from etl.migration.comparisons import among
from etl.migration.draft import Draft, Members
from etl.migration.values import FALSE, TEXT, TIME, Value, either, negation, text_value

JOURNAL_TIME = "__REALTIME_TIMESTAMP"
FOLDER = "/var/log/journal"

_USUAL = ("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "_PID", "_UID", "_COMM", "_SYSTEMD_UNIT", "_TRANSPORT", "_HOSTNAME")
"""Fields that are read even if nothing names them. Other tools have texts only."""


def journal_draft(options: dict[str, Any], moved: Collection[str] = ()) -> Draft:
    """A draft after a source ``journald``, to whose ``fields`` further fields are added when steps name them; ``moved`` are
    those that soon have another name."""
    options["fields"] = {JOURNAL_TIME: TIME, **dict.fromkeys(_USUAL, TEXT)}
    draft = Draft(dict(options["fields"]), certain={JOURNAL_TIME})
    gone = "".join(rf"|{re.escape(name)}\Z" for name in moved)
    draft.members.append(Members("", options, {}, names=re.compile(rf"(?!__{gone})[A-Z0-9_]{{1,64}}")))
    draft.remark("of the journal the fields are read that stand in `fields`; `rest: journal` has all others as JSON")
    return draft


def choose_entries(options: dict[str, Any], draft: Draft, by_field: Mapping[str, Sequence[str]], *, of_all_fields: bool) -> None:
    """Read entries with one of the values of a field: of every field, or of any."""
    if len(by_field) == 1 or (by_field and of_all_fields):
        options["match"] = {name: list(values) for name, values in by_field.items()}
    elif by_field:
        draft.add({"type": "filter", "where": _any_of(draft, by_field).sql})


def leave_out_entries(draft: Draft, by_field: Mapping[str, Sequence[str]]) -> None:
    """Leave out entries with one of the values of any of the fields."""
    if by_field:
        draft.add({"type": "filter", "where": negation(_any_of(draft, by_field)).sql})


def _any_of(draft: Draft, values: Mapping[str, Sequence[str]]) -> Value:
    found = FALSE
    for name, texts in values.items():
        found = either(found, among(draft.field(name), [text_value(text) for text in texts]))
    return found
