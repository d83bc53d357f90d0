"""What the user says about a journal."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from etl.api import Size

Fsync = Literal["always", "interval", "never"]


class JournalOptions(BaseModel):
    """How received events are kept on disk until all sinks hold them.

    A killed process loses nothing of what was appended, whatever ``fsync`` says, for the system's cache outlives it.
    ``fsync`` is about the machine losing power: ``always`` forces every append to the disk before more is received,
    ``interval`` does so every second, ``never`` leaves it to the system (half a minute).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fsync: Fsync = Field(
        default="interval",
        description="When what was appended is forced to the disk, so that it outlives a loss of power: before more is "
        "received, every second, or when the system likes.",
    )
    max_bytes: Size = Field(
        default=1 << 30, description="Bytes that may wait on disk for their delivery.", ge=1 << 20, le=1 << 40, examples=["4GiB"]
    )
