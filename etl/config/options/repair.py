"""A file with its misspelt names corrected, so that what they name is checked; each correction is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from etl.api import Component, Family
from etl.catalogue import Catalogue
from etl.config.document.scalars import scalar_value
from etl.config.layout import Layout, lay_out
from etl.config.model import OptionPath
from etl.config.nested_values import as_mapping, value_at, with_value
from etl.config.options.candidates import candidates
from etl.config.options.fault import SchemaViolation
from etl.config.options.faults import faults, validator
from etl.config.options.option_names import meant_option
from etl.config.options.shapes import with_forms, with_lists_of_steps
from etl.config.options.type_names import advice, advised_type, meant_type
from etl.config.options.unknown_options import glued_option
from etl.config.report import Report

_ROUNDS = 4
"""Rounds of corrections: a misspelt name inside another one is found in the next round."""

_SHAPES: Mapping[type, str] = {str: "text", int: "number", float: "number", bool: "truth", list: "list", dict: "mapping"}


def repair(root: dict[str, Any], catalogue: Catalogue, report: Report) -> dict[str, Any]:
    """The document with corrected names; each correction is reported."""
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
            report.add_at(
                location.key or location.value, part.path, "unknown-option", f"has no option {key!r}", "did you mean 'type'?"
            )
            root = _rename_option(root, (*part.path, key), "type", report)
    for part in _layout(root, report).parts():
        name, path = part.options.get("type"), (*part.path, "type")
        known = catalogue.families[part.family]
        if not isinstance(name, str) or name in known:
            continue
        meant, hint = meant_type(part.family, name, catalogue), None
        if meant is None and (advised := advised_type(part.family, name, catalogue)) and _fits(part.options, known[advised]):
            meant, hint = advised, advice(part.family, name)
        if meant is not None:
            report.add(path, "unknown-type", f"there is no {part.family} {name!r}", hint or f"did you mean {meant!r}?")
            root = with_value(root, path, meant)
    return root


def _fits(options: Mapping[str, Any], component: type[Component]) -> bool:
    """Whether options, though some may be misspelt, are those of a component: all of them, with all that it requires."""
    fields = component.model_fields
    required = {name for name, field in fields.items() if field.is_required()}
    meant = {name if name in fields else meant_option(str(name), fields) for name in options}
    return bool(required) and None not in meant and required <= meant


def _with_options(root: dict[str, Any], catalogue: Catalogue, report: Report) -> dict[str, Any]:
    used = used_components(_layout(root, report), catalogue)
    found = faults(root, used, report)
    for fault in (one for one in found if one.code == "unknown-option" and not one.silent and not one.replaces_missing):
        if fault.lifts:
            root = _lift_options(root, fault, report)
            continue
        clear = _close_missing(fault, found) or (fault if fault.meant else _only_missing(fault, found, root, validator(used)[1]))
        clear = clear if clear.meant else _meant_by_value(clear, root, catalogue)
        if clear.meant is not None and clear.meant not in value_at(root, clear.path[:-1]):
            location = report.location(fault.path)
            report.add_at(location.key or location.value, fault.path[:-1], fault.code, fault.message, clear.hint)
            root = _rename_option(root, fault.path, clear.meant, report)
    return root


def _close_missing(fault: SchemaViolation, found: Iterable[SchemaViolation]) -> SchemaViolation | None:
    """A missing option with a similar name comes before others: `form` in a sink without `from` means `from`."""
    missing = [one.option for one in found if one.path == fault.path[:-1] and one.code == "missing-option"]
    meant = meant_option(str(fault.path[-1]), missing)
    return replace(fault, meant=meant, hint=f"did you mean {meant!r}?") if meant else None


def _only_missing(
    fault: SchemaViolation, found: Iterable[SchemaViolation], root: Any, schema: Mapping[str, Any]
) -> SchemaViolation:
    """The missing option, if it is the only one and accepts the value of the only unknown option."""
    here = [one for one in found if one.path == fault.path[:-1] and one.code == "missing-option"]
    unknown = [one for one in found if one.path[:-1] == fault.path[:-1] and one.code == "unknown-option"]
    if len(here) != 1 or len(unknown) != 1 or here[0].schema is None:
        return fault
    accepted = {_SHAPES.get(type(value)) for value in candidates(here[0].schema, (here[0].option,), schema["$defs"])}
    if _SHAPES.get(type(value_at(root, fault.path))) not in accepted:
        return fault
    return replace(fault, meant=here[0].option, hint=f"is {here[0].option!r} meant?")


def _meant_by_value(fault: SchemaViolation, root: Any, catalogue: Catalogue) -> SchemaViolation:
    """The part of a file, or the `from` or `steps` of a stream or sink, that only the value of an unknown option can be."""
    owner, value = fault.path[:-1], value_at(root, fault.path)
    meant = None
    if not owner:
        meant = _meant_part(value, catalogue)
        if meant == "sink" and "sinks" in root:
            meant = "dead_letters"
    elif len(owner) == 2 and owner[0] in ("streams", "sinks"):
        names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        known = {*as_mapping(root.get("sources")), *as_mapping(root.get("streams"))}
        is_from = bool(names) and all(isinstance(name, str) and name in known for name in names)
        meant = "from" if is_from else "steps" if owner[0] == "streams" and _are_steps(value) else None
    fits = meant is not None and meant not in value_at(root, owner)
    return replace(fault, meant=meant, hint=f"is {meant!r} meant?") if fits else fault


def _meant_part(value: Any, catalogue: Catalogue) -> str | None:
    """The key of a file whose value has this form: a component, components by name, streams by name, or steps."""
    if _are_steps(value):
        return "steps"
    inner = list(as_mapping(value).values())
    if inner and all(_are_steps(as_mapping(one).get("steps")) for one in inner):
        return "streams"
    for family, one, several in (("source", "source", "sources"), ("sink", "sink", "sinks"), ("table", "", "tables")):
        names = catalogue.families[cast(Family, family)]
        if one and as_mapping(value).get("type") in names:
            return one
        if inner and all(as_mapping(part).get("type") in names for part in inner):
            return several
    return None


def _are_steps(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all("type" in as_mapping(one) for one in value)


def _lift_options(root: dict[str, Any], fault: SchemaViolation, report: Report) -> dict[str, Any]:
    """`options: {path: x}` → `path: x`."""
    *owner, name = fault.path
    location, parent = report.location(fault.path), value_at(root, tuple(owner))
    report.add_at(location.key or location.value, tuple(owner), fault.code, fault.message, fault.hint)
    for key in parent[name]:
        report.rename((*fault.path, key), (*owner, key))
    others = {key: value for key, value in parent.items() if key != name}
    return with_value(root, tuple(owner), others | parent[name])


def _rename_option(root: dict[str, Any], path: OptionPath, meant: str, report: Report) -> dict[str, Any]:
    name, value = str(path[-1]), value_at(root, path)
    if value is None and glued_option(name) == meant:
        value = scalar_value(name[len(meant) :].lstrip(": "))
    report.rename(path, (*path[:-1], meant))
    parent = value_at(root, path[:-1])
    return with_value(root, path[:-1], {meant if key == name else key: value if key == name else parent[key] for key in parent})


def used_components(layout: Layout, catalogue: Catalogue) -> Catalogue:
    """Only the components a file names: their schema takes a few milliseconds and gives the same faults."""
    found = [catalogue.families[part.family].get(str(part.options.get("type"))) for part in layout.parts()]
    return Catalogue(tuple(dict.fromkeys(component for component in found if component)))


def _layout(root: Mapping[str, Any], report: Report) -> Layout:
    """The parts, without reporting faults of their shape."""
    return lay_out(root, Report(report.file, report.document))
