"""Where streams are on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from etl.api import ComponentError

StreamName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]

FOLDER_DESCRIPTION = (
    "The folder of streams, the same for publisher and subscribers; default `$ETL_STATE/.streams`, else "
    "`~/.local/state/sluice/.streams`."
)


def streams_folder(chosen: str | None) -> Path:
    """The folder of all streams. Raises ComponentError without a home."""
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()
    home = Path(os.environ.get("ETL_STATE") or os.path.expanduser("~/.local/state/sluice"))
    if not os.environ.get("ETL_STATE") and not home.is_absolute():
        raise ComponentError("no home folder is known for streams: give the option `folder`, or set HOME or ETL_STATE")
    return (home / ".streams").absolute()


def stream_target(name: str, chosen: str | None) -> str:
    """The name of a stream for `Sink.writes` and `Source.reads`."""
    return f"stream://{streams_folder(chosen) / name}"


def existing_streams(chosen: str | None) -> list[str]:
    """The names of the streams that exist in a folder."""
    try:
        return sorted(entry.name for entry in os.scandir(streams_folder(chosen)) if entry.is_dir())
    except OSError:
        return []
