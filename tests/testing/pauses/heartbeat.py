"""Functions of the pipeline beside this file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 11, 20, 6, tzinfo=UTC)


def watch(events: list[dict], state: bool | None) -> tuple[list[dict], bool | None, datetime | None]:
    """Waits a minute for the next event; ``after`` is the number of seconds since the test began."""
    return [], True, BEGIN + timedelta(seconds=events[-1]["after"] + 60)


def silent(key: dict, state: bool, time: datetime) -> tuple[list[dict], bool | None, datetime | None]:
    return [{"state": f"silent at {time:%M:%S}"}], None, None
