"""Files that mix up one and several: `sinks: {type: …}`, `source: {auth: {type: …}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.config.report import Report

_FORMS = {"source": "sources", "sink": "sinks"}
_UNNAMED = "main"


def with_forms(root: dict[str, Any], report: Report) -> dict[str, Any]:
    """The document with one source or sink where one is written, and several where several are."""
    for one, several in _FORMS.items():
        if several in root and one not in root and _is_component(root[several]):
            root = _as_one(root, one, several, report)
        elif one in root and several not in root and _is_named(root[one]):
            root = _as_several(root, one, several, report)
    return root


def _is_component(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _is_named(value: object) -> bool:
    return isinstance(value, dict) and "type" not in value and bool(value) and all(map(_is_component, value.values()))


def _as_one(root: dict[str, Any], one: str, several: str, report: Report) -> dict[str, Any]:
    others = [name for name in _FORMS.values() if name != several and name in root] + [
        name for name in ("streams",) if name in root
    ]
    hint = f"{several} are given by names: {several}: {{NAME: {{type: {root[several]['type']}, …}}}}"
    if others:
        report.add((several,), "mixed-forms", f"holds one {one} without a name", hint, key=True)
        report.rename((several,), (several, _UNNAMED))
        return {**root, several: {_UNNAMED: root[several]}}
    report.add((several,), "mixed-forms", f"holds one {one} without a name", f"one {one} is written {one!r}; {hint}", key=True)
    return _renamed(root, several, one, report)


def _as_several(root: dict[str, Any], one: str, several: str, report: Report) -> dict[str, Any]:
    names = ", ".join(map(repr, root[one]))
    report.add(
        (one,),
        "type",
        f"holds {several} by names: {names}",
        f"write {several!r}, or without the name: {one}: {{type: …}}",
        key=True,
    )
    return _renamed(root, one, several, report)


def _renamed(root: Mapping[str, Any], old: str, new: str, report: Report) -> dict[str, Any]:
    report.rename((old,), (new,))
    return {new if key == old else key: value for key, value in root.items()}
