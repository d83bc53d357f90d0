"""Files that write one component where several are expected, `sinks: {type: …}`, or steps as other tools do, `- filter: {…}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from etl.api import Family
from etl.catalogue import Catalogue
from etl.config.model import OptionPath
from etl.config.report import Report

_FORMS = {"source": "sources", "sink": "sinks"}
_UNNAMED = "main"


def with_forms(root: dict[str, Any], report: Report) -> dict[str, Any]:
    """The document with `source` or `sink` for one component and `sources` or `sinks` for several."""
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
    return _rename_key(root, several, one, report)


def _as_several(root: dict[str, Any], one: str, several: str, report: Report) -> dict[str, Any]:
    names = ", ".join(map(repr, root[one]))
    report.add(
        (one,),
        "type",
        f"holds {several} by names: {names}",
        f"write {several!r}, or without the name: {one}: {{type: …}}",
        key=True,
    )
    return _rename_key(root, one, several, report)


def _rename_key(root: Mapping[str, Any], old: str, new: str, report: Report) -> dict[str, Any]:
    report.rename((old,), (new,))
    return {new if key == old else key: value for key, value in root.items()}


# ── Steps ─────────────────────────────────────────────────────────────────────────────────────────


def with_lists_of_steps(root: dict[str, Any], catalogue: Catalogue, report: Report) -> dict[str, Any]:
    """The document with steps as mappings with a `type`, also where they are written `filter: {…}`, `- syslog` or without '-'."""
    if "steps" in root:
        root = {**root, "steps": _steps(("steps",), root["steps"], catalogue, report)}
    streams = root.get("streams")
    if isinstance(streams, dict):
        root = {**root, "streams": {name: _stream(name, stream, catalogue, report) for name, stream in streams.items()}}
    for one in _FORMS:
        if isinstance(root.get(one), str):
            root = {**root, one: _of_text((one,), root[one], cast(Family, one), catalogue, report)}
    return root


def _stream(name: str, stream: Any, catalogue: Catalogue, report: Report) -> Any:
    if not isinstance(stream, dict) or "steps" not in stream:
        return stream
    return {**stream, "steps": _steps(("streams", name, "steps"), stream["steps"], catalogue, report)}


def _steps(path: OptionPath, steps: Any, catalogue: Catalogue, report: Report) -> Any:
    if _is_component(steps):
        report.add(path, "type", "a mapping is not a list", "put '- ' before its first key: steps are a list", key=True)
        report.rename(path, (*path, 0))
        return [steps]
    if not isinstance(steps, list):
        return steps
    return [_step((*path, number), step, catalogue, report) for number, step in enumerate(steps)]


def _step(path: OptionPath, step: Any, catalogue: Catalogue, report: Report) -> Any:
    if isinstance(step, str):
        return _of_text(path, step, "step", catalogue, report)
    name = next(iter(step), None) if isinstance(step, dict) and len(step) == 1 else None
    if name is None or name not in catalogue.families["step"] or not isinstance(step[name], (dict, type(None))):
        return step
    report.add(path, "missing-option", "needs 'type'", f"write {{type: {name}, …}}: the step's name is the value of 'type'")
    report.rename((*path, name), path)
    return {"type": name, **(step[name] or {})}


def _of_text(path: OptionPath, text: str, family: Family, catalogue: Catalogue, report: Report) -> Any:
    """`sink: console` → `{type: console}`."""
    if text not in catalogue.families[family]:
        return text
    report.add(path, "type", f"{text!r} is not a mapping", f"write {{type: {text}}}")
    return {"type": text}
