"""The input ``systemd``: which entries of the journal it reads, and the names that their fields get."""

from __future__ import annotations

from typing import Any

from etl.migration.draft import Draft
from etl.migration.fluent_bit.configuration import Section
from etl.migration.journal import JOURNAL_TIME, choose_entries, journal_draft
from etl.migration.logstash.references import TIME_FIELD


def journal_records(one: Section, options: dict[str, Any]) -> Draft:
    """The draft of an input: its filters, and names as it writes them."""
    lower, strip = (one.options.is_on(name) for name in ("lowercase", "strip_underscores"))
    draft = journal_draft(options)
    values_by_field: dict[str, list[str]] = {}
    for text in one.all("systemd_filter"):
        name, _, value = text.partition("=")
        values_by_field.setdefault(name.strip(), []).append(value.strip())
    of_all = one.get("systemd_filter_type", "or").lower() == "and"
    if of_all and any(len(values) > 1 for values in values_by_field.values()):
        one.options.leave("systemd_filter_type", "an entry with several values of one field; `match` takes one of them")
    choose_entries(options, draft, values_by_field, of_all_fields=of_all)
    names = {JOURNAL_TIME: TIME_FIELD}
    for name in [name for name in draft.types if name != JOURNAL_TIME]:
        short = name.lstrip("_") if strip else name
        names[name] = short.lower() if lower else short
    if lower or strip:
        draft.members.clear()  # which field of the journal a name means is known for those that are declared
    draft.rename({old: new for old, new in names.items() if old != new})
    return draft
