"""The tables of a file, given to the steps that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from etl.api import LookupTable, Step, nearest
from etl.config.layout import Layout
from etl.config.model import OptionPath
from etl.config.report import Report
from etl.config.variants import Built, attributes


def give_tables(layout: Layout, built: dict[OptionPath, Built], report: Report) -> None:
    """Ask tables for their findings, and replace steps by ones that know their tables; report names that no table has."""
    made = {name: built[part.path].component for name, part in layout.tables.items() if part.path in built}
    tables = {name: table for name, table in made.items() if isinstance(table, LookupTable)}
    for name, table in tables.items():
        _ask(table, layout.tables[name].path, report)
    for part in (step for stream in layout.streams.values() for step in stream.steps):
        known = built.get(part.path)
        if known is not None and isinstance(known.component, Step):
            _give(known, part.path, tables, set(layout.tables), built, report)


def _ask(table: LookupTable, path: OptionPath, report: Report) -> None:
    """Report what a table finds, except consequences of errors known already, and of values that the run may have otherwise."""
    for finding in table.check():
        place = (*path, *finding.path)
        elsewhere = finding.severity == "warning" and place in report.defaulted
        if not elsewhere and not (finding.path and report.is_broken(place)):
            report.find(path, finding)


def _give(
    known: Built,
    path: OptionPath,
    tables: Mapping[str, LookupTable],
    declared: set[str],
    built: dict[OptionPath, Built],
    report: Report,
) -> None:
    assert isinstance(known.component, Step)
    names = known.component.named_tables()
    for place, name in names.items():
        if name not in declared and not report.is_broken((*path, *place)):
            hint = nearest(name, declared) or (
                f"tables here: {', '.join(sorted(declared))}" if declared else "a file declares them under 'tables'"
            )
            report.fail((*path, *place), "unknown-table", f"there is no table {name!r}", hint)
    mine = {name: tables[name] for name in names.values() if name in tables}
    if names:
        first, *others = (step.with_tables(mine) for step in known.variants if isinstance(step, Step))
        lacking = {str(place[0]) for place, name in names.items() if name not in mine}
        wrong = known.wrong | attributes(type(first), lacking)
        built[path] = replace(known, component=first, others=tuple(others), wrong=wrong)
