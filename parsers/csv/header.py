"""The line that names a CSV file's columns → names of fields."""

from __future__ import annotations

import csv
import re
from itertools import chain
from typing import Literal

_NO_NAME = re.compile(r"[^A-Za-z0-9_@\-]+")


def header_names(line: str, delimiter: str, quote: str) -> list[str]:
    """The columns' fields, empty for one without title; none at all where the line is no record."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    blanks = not delimiter.isspace()
    try:
        records = csv.reader([line], delimiter=delimiter, quotechar=quote or None, quoting=quoting, skipinitialspace=blanks)
        return [_field(title.strip()) for title in chain.from_iterable(records)]
    except (csv.Error, TypeError, ValueError):
        return []


def _field(title: str) -> str:
    """``bytes in total`` → ``bytes_in_total``."""
    parts = [_NO_NAME.sub("_", part) for part in title.split(".")]
    return ".".join(part if re.match("[A-Za-z_@]", part) else f"_{part}" for part in parts) if title else ""
