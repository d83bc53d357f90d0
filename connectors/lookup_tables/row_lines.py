"""Finds the line of a row for a message, by reading the file again up to it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any


def find_csv_line(file: Any, row: int, delimiter: str, columns: int, has_header: bool) -> int | None:
    """Return the line where a row begins, counting only rows with the right number of fields. Rows count from 0, lines from
    1.

    ``has_header``: the first line has names. None if the file no longer has as many rows.
    """
    try:
        return next(islice(_csv_lines(file, delimiter, columns), row + has_header, None), None)
    except csv.Error:  # an unclosed quote exceeds the maximum size of a field
        return None


def _csv_lines(file: Any, delimiter: str, columns: int) -> Iterator[int]:
    reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", "replace", newline=""), delimiter=delimiter)
    begins = 1
    for fields in reader:
        if len(fields) == columns:  # an empty line is not a row
            yield begins
        begins = reader.line_num + 1


def find_json_line(file: Any, row: int) -> int | None:
    """Return the line of a row, counting only lines that are JSON."""
    return next(islice(_json_lines(file), row, None), None)


def _json_lines(file: Any) -> Iterator[int]:
    for number, line in enumerate(io.BufferedReader(file), 1):
        if line.strip() and is_json(line):
            yield number


def is_json(line: bytes) -> bool:
    """Return whether a line is JSON."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
