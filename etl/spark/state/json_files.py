"""Reading and writing the small JSON files of a state folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from etl.api import ComponentError, replace_file, write_advice

log = logging.getLogger("sluice.state")


def read_json(path: Path, is_valid: Callable[[Any], bool] = lambda _: True) -> Any:
    """Read a JSON state file; None if there is none. Raises ComponentError if it cannot be read or ``is_valid`` is false."""
    try:
        found = json.loads(path.read_bytes())
        if not is_valid(found):
            raise ValueError("it does not hold what a run writes there")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ComponentError(
            f"state file {path} cannot be read ({error}); restore it from a backup, "
            "or remove the state folder to start over (events may then be delivered again)"
        ) from error
    return found


def read_numbers(path: Path) -> dict[str, Any]:
    """Read a JSON file of numbers by name that can be recreated; empty if there is none. A damaged file is removed."""
    try:
        found = json.loads(path.read_bytes())
        if isinstance(found, dict) and all(isinstance(value, (int, float)) for value in found.values()):
            return found
        why = "it does not hold numbers by name"
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = str(error)
    log.warning("state file %s cannot be read (%s): it is removed, and written again later", path, why)
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return {}


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically, also in case of a crash. Raises ComponentError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(value).encode(), sync_folder=False)
    except OSError as error:
        raise ComponentError(
            f"state file {path} cannot be written ({error.strerror}); nothing is lost: {write_advice(error)}, and start again"
        ) from error
