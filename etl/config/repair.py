"""A file as it is most likely meant: misspelt names are reported and mended, so that what stands behind them is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from etl.catalogue import Catalogue
from etl.config.candidates import candidates
from etl.config.document import scalar_value
from etl.config.layout import Layout, lay_out
from etl.config.model import OptionPath
from etl.config.option_names import meant_option
from etl.config.report import Report
from etl.config.shapes import with_forms, with_lists_of_steps
from etl.config.type_names import meant_type
from etl.config.validation import Fault, faults, glued_option, validator

_ROUNDS = 4
"""A misspelt name inside another one is found in the next round: as many levels as a file has."""

_SHAPES: Mapping[type, str] = {str: "text", int: "number", float: "number", bool: "truth", list: "list", dict: "mapping"}


def repaired(root: dict[str, Any], catalogue: Catalogue, report: Report) -> dict[str, Any]:
    """The document with the names that are meant; what was changed is reported."""
    root = with_lists_of_steps(with_forms(root, report), catalogue, report)
    for _ in range(_ROUNDS):
        before, root = root, _with_types(root, catalogue, report)
        root = _with_options(root, catalogue, report)
        if root is before:
            break
    return root


def _with_types(root: dict[str, Any], catalogue: Catalogue, report: Report) -> dict[str, Any]:
    for part in _layout(root, report).parts():
        key = next((key for key in part.options if key.lower() == "type"), "type")
        if key != "type" and "type" not in part.options:
            location = report.location((*part.path, key))
            report.put(
                location.key or location.value, part.path, "unknown-option", f"has no option {key!r}", "did you mean 'type'?"
            )
            root = _renamed(root, (*part.path, key), "type", report)
    for part in _layout(root, report).parts():
        name, path = part.options.get("type"), (*part.path, "type")
        known = catalogue.families[part.family]
        if isinstance(name, str) and name not in known and (meant := meant_type(part.family, name, catalogue)):
            report.add(path, "unknown-type", f"there is no {part.family} {name!r}", f"did you mean {meant!r}?")
            root = _replaced(root, path, meant)
    return root


def _with_options(root: dict[str, Any], catalogue: Catalogue, report: Report) -> dict[str, Any]:
    used = used_components(_layout(root, report), catalogue)
    found = faults(root, used, report)
    for fault in (one for one in found if one.code == "unknown-option" and not one.silent and not one.habit):
        if fault.lifts:
            root = _lifted(root, fault, report)
            continue
        wanted = _close_missing(fault, found) or (fault if fault.meant else _only_missing(fault, found, root, validator(used)[1]))
        if wanted.meant is not None and wanted.meant not in _at(root, wanted.path[:-1]):
            location = report.location(fault.path)
            report.put(location.key or location.value, fault.path[:-1], fault.code, fault.message, wanted.hint)
            root = _renamed(root, fault.path, wanted.meant, report)
    return root


def _close_missing(fault: Fault, found: Iterable[Fault]) -> Fault | None:
    """An option that is missing and spelled alike is meant rather than others: `form` in a sink without `from`."""
    missing = [one.option for one in found if one.path == fault.path[:-1] and one.code == "missing-option"]
    meant = meant_option(str(fault.path[-1]), missing)
    return replace(fault, meant=meant, hint=f"did you mean {meant!r}?") if meant else None


def _only_missing(fault: Fault, found: Iterable[Fault], root: Any, schema: Mapping[str, Any]) -> Fault:
    """One option is unknown, and one is missing whose value it could be: that is the one."""
    here = [one for one in found if one.path == fault.path[:-1] and one.code == "missing-option"]
    unknown = [one for one in found if one.path[:-1] == fault.path[:-1] and one.code == "unknown-option"]
    if len(here) != 1 or len(unknown) != 1 or here[0].schema is None:
        return fault
    accepted = {_SHAPES.get(type(value)) for value in candidates(here[0].schema, (here[0].option,), schema["$defs"])}
    if _SHAPES.get(type(_at(root, fault.path))) not in accepted:
        return fault
    return replace(fault, meant=here[0].option, hint=f"is {here[0].option!r} meant?")


def _lifted(root: dict[str, Any], fault: Fault, report: Report) -> dict[str, Any]:
    """`options: {path: x}` → `path: x`."""
    *owner, name = fault.path
    location, parent = report.location(fault.path), _at(root, tuple(owner))
    report.put(location.key or location.value, tuple(owner), fault.code, fault.message, fault.hint)
    for key in parent[name]:
        report.rename((*fault.path, key), (*owner, key))
    others = {key: value for key, value in parent.items() if key != name}
    return _replaced(root, tuple(owner), others | parent[name])


def _renamed(root: dict[str, Any], path: OptionPath, meant: str, report: Report) -> dict[str, Any]:
    name, value = str(path[-1]), _at(root, path)
    if value is None and glued_option(name) == meant:
        value = scalar_value(name[len(meant) :].lstrip(": "))
    report.rename(path, (*path[:-1], meant))
    parent = _at(root, path[:-1])
    return _replaced(root, path[:-1], {meant if key == name else key: value if key == name else parent[key] for key in parent})


def used_components(layout: Layout, catalogue: Catalogue) -> Catalogue:
    """Only the components a file names: their schema is built in a few milliseconds and decides the same."""
    found = [catalogue.families[part.family].get(str(part.options.get("type"))) for part in layout.parts()]
    return Catalogue(tuple(dict.fromkeys(component for component in found if component)))


def _layout(root: Mapping[str, Any], report: Report) -> Layout:
    """The parts; what is wrong with their shape is not reported here."""
    return lay_out(root, Report(report.file, report.document))


def _at(root: Any, path: OptionPath) -> Any:
    for part in path:
        root = root[part]
    return root


def _replaced(root: Any, path: OptionPath, value: Any) -> Any:
    if not path:
        return value
    if isinstance(root, dict):
        return {key: _replaced(item, path[1:], value) if key == path[0] else item for key, item in root.items()}
    return [_replaced(item, path[1:], value) if number == path[0] else item for number, item in enumerate(root)]
