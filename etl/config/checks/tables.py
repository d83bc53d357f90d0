"""Tables of a file, passed to the steps that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from etl.api import LookupTable, Step, nearest
from etl.config.checks.known_fields import common_findings
from etl.config.layout import Layout
from etl.config.model import OptionPath
from etl.config.options.read_options import with_reads
from etl.config.options.variants import ComponentVariant, attributes
from etl.config.report import Report


def give_tables(layout: Layout, built: dict[OptionPath, ComponentVariant], report: Report) -> None:
    """Report the findings of tables, pass tables to the steps that name them, report names of unknown tables."""
    made = {name: built[part.path] for name, part in layout.tables.items() if part.path in built}
    tables = {name: table.component for name, table in made.items() if isinstance(table.component, LookupTable)}
    for name in tables:
        _report_findings(made[name], layout.tables[name].path, report)
    tables = {name: table for name, table in tables.items() if _has_known_columns(made[name])}
    for part in (step for stream in layout.streams.values() for step in stream.steps):
        known = built.get(part.path)
        if known is not None and isinstance(known.component, Step):
            _give(known, part.path, tables, layout.table_names, built, report)


def _has_known_columns(made: ComponentVariant) -> bool:
    """Whether no wrong option decides the table's columns."""
    table = made.component
    assert isinstance(table, LookupTable)
    return made.whole or not made.wrong & with_reads(table, lambda one: one.names())[1]


def _report_findings(made: ComponentVariant, path: OptionPath, report: Report) -> None:
    """Report a table's findings, except consequences of reported errors and warnings about defaults that a run may replace."""
    for finding in common_findings(made, lambda table: table.check()):
        at = (*path, *finding.path)
        is_replaceable = finding.severity == "warning" and at in report.defaulted
        if not is_replaceable and not (finding.path and report.is_broken(at)):
            report.add_finding(path, finding)


def _give(
    known: ComponentVariant,
    path: OptionPath,
    tables: Mapping[str, LookupTable],
    declared: frozenset[str],
    built: dict[OptionPath, ComponentVariant],
    report: Report,
) -> None:
    assert isinstance(known.component, Step)
    names = known.component.named_tables()
    is_unknown = report.is_broken(("tables",)) or ("tables",) in report.document.incomplete
    for at, name in names.items():
        if name not in declared and not is_unknown and not report.is_broken((*path, *at)):
            hint = nearest(name, declared) or (
                f"tables here: {', '.join(sorted(declared))}" if declared else "a file declares them under 'tables'"
            )
            report.fail((*path, *at), "unknown-table", f"there is no table {name!r}", hint)
    mine = {name: tables[name] for name in names.values() if name in tables}
    if names:
        first, *others = (step.with_tables(mine) for step in known.variants if isinstance(step, Step))
        lacking = {str(at[0]) for at, name in names.items() if name not in mine}
        wrong = known.wrong | attributes(type(first), lacking)
        built[path] = replace(known, component=first, others=tuple(others), wrong=wrong)
