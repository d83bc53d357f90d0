"""The source ``journald``: which entries of the journal it reads, and the names that their fields get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.migration.draft import Draft
from etl.migration.given_options import GivenOptions
from etl.migration.ingest.processor import as_list
from etl.migration.journal import JOURNAL_TIME, choose_entries, journal_draft, leave_out_entries

_NAMES = {JOURNAL_TIME: "timestamp", "MESSAGE": "message", "_HOSTNAME": "host"}
_UNIT = "_SYSTEMD_UNIT"


def journal_events(given: GivenOptions, options: dict[str, Any]) -> Draft:
    """The draft of a source: its filters, and names as it writes them. One value of any field is enough there."""
    draft = journal_draft(options, [*_NAMES])
    values_by_field = _values(given.members("include_matches"), [*_units(given, "include_units"), *_units(given, "units")])
    choose_entries(options, draft, values_by_field, of_all_fields=False)
    leave_out_entries(draft, _values(given.members("exclude_matches"), _units(given, "exclude_units")))
    if not given.is_off("current_boot_only"):
        draft.remark("entries of earlier boots are read, too; `match: {_BOOT_ID: …}` and `since` leave them out")
    draft.rename(_NAMES)
    return draft


def _units(given: GivenOptions, option: str) -> list[str]:
    """Units with their endings: without one it is that of a service."""
    return [name if "." in name else f"{name}.service" for name in map(str, as_list(given.get(option) or []))]


def _values(matches: Mapping[str, Any], units: list[str]) -> dict[str, list[str]]:
    found = {name: [str(value) for value in as_list(values)] for name, values in matches.items()}
    if units:
        found[_UNIT] = [*found.get(_UNIT, []), *units]
    return found
