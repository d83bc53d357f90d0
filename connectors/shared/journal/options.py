"""Options of a journal."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from etl.api import Size

Fsync = Literal["always", "interval", "never"]


class JournalOptions(BaseModel):
    """How received events are stored on disk until all sinks have them.

    A killed process loses nothing that was appended, whatever ``fsync`` is, because the system's cache survives it. ``fsync``
    protects against a loss of power: ``always`` syncs every append to the disk before more is received, ``interval`` syncs
    every second, ``never`` leaves it to the system (half a minute).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fsync: Fsync = Field(
        default="interval",
        description="When appended bytes are synced to the disk, so that they survive a loss of power: before more is received "
        "(always), every second (interval), or when the system writes them (never).",
    )
    max_bytes: Size = Field(
        default=1 << 30, description="Maximum bytes on disk that wait for delivery.", ge=1 << 20, le=1 << 40, examples=["4GiB"]
    )


class AcknowledgedJournalOptions(JournalOptions):
    """How received events are stored on disk until all sinks have them.

    A sender is acknowledged when its events are in the journal: with ``always`` after a sync of the disk, one for all requests
    that wait; with ``interval`` and ``never`` before, so that a loss of power loses acknowledged events. A killed process loses
    nothing.
    """

    fsync: Fsync = Field(
        default="always",
        description="When appended bytes are synced to the disk, so that they survive a loss of power: before the sender is "
        "acknowledged (always), every second (interval), or when the system writes them (never).",
    )
