"""The data of work W1: an OpenSSH log of 2,000 lines, repeated, and what must come out of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.places import CACHE, acceptance

LINES = 2_000_000
LINE = re.compile(r"(\w{3} [ \d]\d \d\d:\d\d:\d\d) (\S+) sshd\[(\d+)\]: (.*)")
FIELDS = ("timestamp", "host", "pid", "message")


def seed() -> list[str]:
    """The lines of the loghub file, without their line ends."""
    file = acceptance() / "loghub" / "OpenSSH" / "OpenSSH_2k.log"
    if not file.is_file():
        raise SystemExit(f"the OpenSSH log is not at {file}; set SLUICE_ACCEPTANCE to the folder of acceptance data")
    return file.read_text().splitlines()


def w1(lines: int = LINES) -> Path:
    """The log repeated to about ``lines`` lines (a multiple of its length), made once."""
    once = seed()
    copies = max(1, lines // len(once))
    file = CACHE / "data" / f"w1-{copies * len(once)}.log"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in once).encode()
        draft = file.with_suffix(".draft")
        with draft.open("wb") as out:
            for _ in range(copies):
                out.write(text)
        draft.rename(file)
    return file


def lines_of(file: Path) -> int:
    """How many lines a file of `w1` has."""
    return int(file.stem.split("-")[1])


def check(output: Path, lines: int) -> None:
    """Raise unless the JSON lines (a file, or a folder of parts) hold the events of `w1`, each as often as it came."""
    found, expected = _counted(output), _expected(lines)
    if found != expected:
        missing, added = expected - found, found - expected
        raise ValueError(
            f"{output}: {sum(found.values())} events of {sum(expected.values())}; "
            f"missing {sum(missing.values())}, e.g. {next(iter(missing), None)}; "
            f"not expected {sum(added.values())}, e.g. {next(iter(added), None)}"
        )


def _expected(lines: int) -> Counter[tuple[Any, ...]]:
    once = seed()
    matches = [match.groups() for line in once if (match := LINE.fullmatch(line))]
    copies = lines // len(once)
    return Counter({event: times * copies for event, times in Counter(matches).items()})


def _counted(output: Path) -> Counter[tuple[Any, ...]]:
    import polars as pl

    files = sorted(output.glob("*.json")) if output.is_dir() else [output]
    total: Counter[tuple[Any, ...]] = Counter()
    for file in files:
        events = pl.read_ndjson(file, schema=dict.fromkeys(FIELDS, pl.String))
        total.update({tuple(row[:-1]): row[-1] for row in events.group_by(FIELDS).len().iter_rows()})
    return total
