"""Functions of the user: those that a file declares, read without running them and given to the expressions that call them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.api import Step, nearest, parse_duration
from etl.config.layout import Layout
from etl.config.model import OptionPath
from etl.config.nested_values import as_mapping
from etl.config.options.variants import ComponentVariant
from etl.config.report import Report
from etl.udf.attaching import NamesFunctions, attach
from etl.udf.declaration import DEFAULT_TIMEOUT, CodeFile, Functions, UserFunction

FUNCTIONS = "functions"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYNTAX = frozenset(
    [
        *("and", "array", "case", "cast", "exists", "extract", "filter", "if", "in", "interval", "is", "lateral", "map", "not"),
        *("or", "over", "overlay", "position", "select", "struct", "substr", "substring", "table", "trim", "try_cast", "unnest"),
    ]
)
"""Names that the grammar of expressions reads in its own way."""


def read_functions(root: Mapping[str, Any], report: Report) -> Functions:
    """The functions of a file by name in lower case; errors are reported, and those with errors are marked as broken."""
    found: dict[str, UserFunction] = {}
    for name, value in as_mapping(root.get(FUNCTIONS)).items():
        path: OptionPath = (FUNCTIONS, name)
        if report.is_broken(path) or report.broken_below(path) or not isinstance(value, (str, dict)):
            found[name.lower()] = UserFunction.broken(name)
        elif name.lower() in found:
            report.add(path, "duplicate-name", f"the function {name!r} is declared twice", "case does not matter", key=True)
        else:
            found[name.lower()] = _read_one(name, value, path, report) or UserFunction.broken(name)
    return found


def give_functions(layout: Layout, functions: Functions, built: dict[OptionPath, ComponentVariant], report: Report) -> None:
    """Give the steps' expressions the functions that they call."""
    for part in (step for stream in layout.streams.values() for step in stream.steps):
        known = built.get(part.path)
        if known is None or not isinstance(known.component, Step):
            continue
        if isinstance(known.component, NamesFunctions):
            _check_names(known.component, part.path, functions, report)
        first, *others = (attach(one, functions) for one in known.variants)
        if first is not known.component or others:
            built[part.path] = replace(known, component=first, others=tuple(others))


def _check_names(step: NamesFunctions, path: OptionPath, functions: Functions, report: Report) -> None:
    """Report names of functions that the file does not declare."""
    for at, name in step.named_functions().items():
        if name.lower() not in functions and not report.is_broken((*path, *at)):
            names = [function.name for function in functions.values()]
            declared = f"functions here: {', '.join(names)}" if names else "the file declares them under 'functions'"
            report.fail((*path, *at), "unknown-function", f"there is no function {name!r}", nearest(name, names) or declared)


def _read_one(name: str, value: str | dict[str, Any], path: OptionPath, report: Report) -> UserFunction | None:
    if not _NAME.fullmatch(name) or name.lower() in _SYNTAX:
        message = "is not a name of a function" if not _NAME.fullmatch(name) else "is a word of the language"
        hint = "a name is a letter, then letters, digits and '_'"
        report.fail(path, "bad-name", f"{name!r} {message}", hint, key=True)
        return None
    options = _long_form(name, value)
    code = _code_file(options, path, report)
    if code is None:
        return None
    from etl.udf.parameters import FunctionDeclaration
    from etl.udf.signature import read_function

    try:
        timeout = parse_duration(options["timeout"]) if "timeout" in options else DEFAULT_TIMEOUT
    except ValueError as error:
        report.fail((*path, "timeout"), "invalid-value", str(error))
        return None
    shown = str(Path(report.file).parent / code.path) if code.path.endswith(".py") else code.path
    found = read_function(FunctionDeclaration(name, code, str(options["function"]), timeout, shown))
    if not isinstance(found, UserFunction):
        report.add_finding(path, found)
        report.broken.add(path)
        return None
    _warn_of_hidden(name, path, report)
    return found


def _long_form(name: str, value: str | dict[str, Any]) -> dict[str, Any]:
    """The options that a short form stands for: ``file.py:name``, ``package.module:name``."""
    if isinstance(value, dict):
        return {"function": name, **value}
    target, _, function = value.rpartition(":") if ":" in value else (value, "", name)
    return {"file" if target.endswith(".py") else "module": target, "function": function}


def _code_file(options: Mapping[str, Any], path: OptionPath, report: Report) -> CodeFile | None:
    from etl.udf.code_files import CodeFileError, read_file, read_module

    if len({"file", "module", "code"} & {*options}) != 1:
        report.fail(path, "missing-option", "needs 'file', 'module' or 'code', one of them", "file: functions.py")
        return None
    if "code" in options:
        return CodeFile(f"<{path[-1]}>", str(options["code"]))
    folder = Path(report.file).parent
    key = "file" if "file" in options else "module"
    try:
        return read_file(str(options[key]), folder) if key == "file" else read_module(str(options[key]), folder)
    except CodeFileError as error:
        at = (*path, key) if (*path, key) in report.document.locations else path
        report.fail(at, "bad-function", str(error), error.hint)
        return None


def _warn_of_hidden(name: str, path: OptionPath, report: Report) -> None:
    from etl.expressions.library import catalogue
    from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK

    if name.lower() in SPARK or catalogue.find(name.lower()) is not None:
        message = f"{name!r} is a built-in function, too: this file calls its own"
        report.add(path, "hides-function", message, "give it another name", key=True, severity="warning")
