"""Whether an output holds the events that it must hold, each as often as it came, and no other.

The logs are repeated, so an output of ten million lines has a few thousand different ones: these are counted as bytes
(by Polars, streaming, in bounded memory), and only the different ones are read as JSON. Names are compared with ``_`` for
``.``, values as text, and an empty text or a null is not a field: peers write what their language has.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.expressions import plain_name

Event = frozenset[tuple[str, str]]


def expected(lines: Sequence[str], work: Mapping[str, Any]) -> Counter[Event]:
    """The events of these lines by the simple expressions of a work, which Python's ``re`` reads."""
    patterns = [(re.compile(pattern["plain"], re.ASCII), pattern["fields"]) for pattern in work["patterns"]]
    found: Counter[Event] = Counter()
    for line in lines:
        for pattern, fields in patterns:
            if match := pattern.search(line):
                found[_event(zip(fields, match.groups(), strict=True))] += 1
                break
    return found


def check(output: Path, once: Counter[Event], copies: int) -> None:
    """Raise unless the JSON lines (a file, or a folder of parts) hold ``copies`` times the events of ``once``."""
    _compare(str(output), _counted(output), once, copies)


def check_rows(files: Sequence[str], once: Counter[Event], copies: int) -> None:
    """Raise unless the rows of Parquet files are ``copies`` times the events of ``once``."""
    import polars as pl

    found: Counter[Event] = Counter()
    distinct = pl.scan_parquet(list(files)).group_by(pl.all()).len("_times").collect(engine="streaming")
    for row in distinct.iter_rows(named=True):
        times = row.pop("_times")
        found[_event(_flat(row))] += times
    _compare(f"{len(files)} files", found, once, copies)


def _compare(name: str, found: Counter[Event], once: Counter[Event], copies: int) -> None:
    expected = Counter({event: times * copies for event, times in once.items()})
    if found != expected:
        missing, added = expected - found, found - expected
        raise ValueError(
            f"{name}: {found.total()} events of {expected.total()}; "
            f"missing {missing.total()}, e.g. {_shown(missing)}; not expected {added.total()}, e.g. {_shown(added)}"
        )


def _counted(output: Path) -> Counter[Event]:
    import polars as pl

    files = sorted(output.glob("*.json")) if output.is_dir() else [output]
    files = [file for file in files if file.stat().st_size]
    if not files:
        return Counter()
    lines = pl.scan_csv(
        files, has_header=False, new_columns=["line"], separator="\x01", quote_char=None, infer_schema=False, low_memory=True
    )
    distinct = lines.group_by("line").len().collect(engine="streaming")
    total: Counter[Event] = Counter()
    for line, times in distinct.iter_rows():
        total[_event(_flat(json.loads(line)))] += times
    return total


def _flat(value: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        path = f"{within}{plain_name(name)}"
        if isinstance(inner, dict):
            yield from _flat(inner, f"{path}_")
        else:
            yield path, inner


def _event(fields: Any) -> Event:
    return frozenset((name, str(value)) for name, value in fields if value not in (None, ""))


def _shown(events: Counter[Event]) -> dict[str, str] | None:
    return dict(sorted(next(iter(events)))) if events else None
