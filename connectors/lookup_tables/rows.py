"""Where a row of a file stands: asked once, for a message, and so found by reading the file again up to there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any


def csv_line(file: Any, row: int, delimiter: str, columns: int, headed: bool) -> int | None:
    """The line in which a row begins, of those with as many fields as there are columns; ``headed``: behind a first line of
    names. Rows are counted from 0, lines from 1. None if the file has not so many any more."""
    try:
        return next(islice(_csv_lines(file, delimiter, columns), row + headed, None), None)
    except csv.Error:  # a quote that is not closed takes more than a field may have
        return None


def _csv_lines(file: Any, delimiter: str, columns: int) -> Iterator[int]:
    reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", "replace", newline=""), delimiter=delimiter)
    begins = 1
    for fields in reader:
        if len(fields) == columns:  # a line without anything is no row
            yield begins
        begins = reader.line_num + 1


def json_line(file: Any, row: int) -> int | None:
    """The line of a row, of those that are JSON, counted likewise."""
    return next(islice(_json_lines(file), row, None), None)


def _json_lines(file: Any) -> Iterator[int]:
    for number, line in enumerate(io.BufferedReader(file), 1):
        if line.strip() and is_json(line):
            yield number


def is_json(line: bytes) -> bool:
    """Whether a line can be read."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
