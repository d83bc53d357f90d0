"""RESULTS.md: what all benchmarks found, with machine, versions and the reasons of misses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import yaml

from benchmarks.folders import HERE
from benchmarks.machine import ABSENT
from benchmarks.results import Result, Row, saved

RESULTS = HERE / "RESULTS.md"
NOTES = HERE / "notes.yaml"

HEAD = """\
# Measured

Written by `python -m benchmarks` (`make bench`); `python -m benchmarks NAME…` repeats single benchmarks and replaces their
sections. Values are medians, with the smallest and the largest in parentheses; CPU seconds (user and system) and PSS (shared
memory counted once, peak of samples) are of all processes of a run. The remarks come from `notes.yaml`.

W1, apache and sshd read and write files in memory: `/dev/shm`, or the folder that `SLUICE_BENCH_WORK` names. Where `/dev/shm`
has small pages, the kernel takes as long to find a page for each 4 KB of output as we take to make it, so the numbers here are
from a mount with large ones: `mount -t tmpfs -o huge=always,size=16g tmpfs FOLDER`.
"""


def write(names: Sequence[str]) -> None:
    """Replace the sections of what is stored; those of benchmarks that ran elsewhere stay as they are."""
    results = [result for name in names if (result := saved(name))]
    notes = yaml.safe_load(NOTES.read_text()) or {}
    RESULTS.write_text(page(RESULTS.read_text(), results, notes))


def page(before: str, results: Sequence[Result], notes: Mapping[str, Mapping[str, str]]) -> str:
    """The page with these results; new sections come last."""
    head, *sections = re.split(r"^(?=## )", before, flags=re.MULTILINE)
    by_title = {section.partition("\n")[0].removeprefix("## "): section for section in sections}
    by_title |= {result.title: "\n".join(section(result, notes.get(result.name, {}))) for result in results}
    if results:
        head = "\n".join(_head(head, max(results, key=lambda result: result.date).machine))
    return "\n\n".join(part.strip("\n") for part in (head, *by_title.values())) + "\n"


def _head(before: str, machine: Mapping[str, str]) -> Iterator[str]:
    """A peer that is not on this machine keeps the version that was measured."""
    rows = dict(re.findall(r"^\| (\S.*?) \| (.*) \|$", before, flags=re.MULTILINE))
    rows |= {name: text for name, text in machine.items() if name not in rows or text != ABSENT}
    yield HEAD
    yield "| | |\n| --- | --- |"
    yield from (f"| {name} | {text} |" for name, text in rows.items() if name.strip("- "))


def section(result: Result, notes: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """A benchmark as Markdown."""
    yield f"## {result.title}\n"
    yield f"{result.about}\n"
    yield f"`{result.command}`, {result.date}\n"
    yield from _table(result.rows)
    if result.extra:
        yield f"\n{result.extra}"
    yield from _remarks(result.rows, notes)
    yield ""


def _table(rows: Sequence[Row]) -> Iterator[str]:
    measured = [name for name in ("wall", "cpu", "work_cpu", "pss") if any(getattr(row, name) for row in rows)]
    titles = {"wall": "wall clock", "cpu": "CPU", "work_cpu": "CPU less start-up", "pss": "PSS peak"}
    units = {"wall": "s", "cpu": "s", "work_cpu": "s", "pss": "MB"}
    heads = ["", "target", "measured", "runs", "verdict", *(titles[name] for name in measured)]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- | ---: | ---: | ---: | --- |{' ---: |' * len(measured)}"
    for row in rows:
        costs = [_spread(getattr(row, name), units[name]) for name in measured]
        cells = [row.label, _target(row), _spread(row.values, row.unit), str(len(row.values)), _verdict(row), *costs]
        yield f"| {' | '.join(cells)} |"


def _remarks(rows: Sequence[Row], notes: Mapping[str, str]) -> Iterator[str]:
    """The rows' own remarks, the written ones, and a place for those that are owed."""
    owed = [row.label for row in rows if row.verdict == "missed" and row.label not in notes]
    remarks = [
        *(f"- {row.label}: {row.remark}" for row in rows if row.remark),
        *(f"- {label}: {text.strip()}" for label, text in notes.items()),
        *(f"- {label}: missed; the reason is not written down yet." for label in owed),
    ]
    if remarks:
        yield "\n" + "\n".join(remarks)


def _verdict(row: Row) -> str:
    return {"met": "met", "missed": "**missed**", "": ""}[row.verdict]


def _target(row: Row) -> str:
    if row.at_least is not None:
        return f"≥ {_number(row.at_least)} {row.unit}"
    return f"≤ {_number(row.at_most)} {row.unit}" if row.at_most is not None else ""


def _spread(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    middle = Row("", unit, list(values)).median or 0.0
    if len(values) == 1:
        return f"{_number(middle)} {unit}"
    return f"{_number(middle)} {unit} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
