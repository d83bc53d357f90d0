"""Paths with a home folder: ``~`` is expanded in all options, and variables in a shell's syntax are reported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from etl.config.layout import Layout, Part
from etl.config.model import OptionPath
from etl.config.nested_values import with_value
from etl.config.report import Report

_PATHS = frozenset(
    ("path", "exclude", "files", "fields", "pattern_files", "geo_database", "as_database", "public_suffixes", "template")
)
"""Options that hold paths, where they are texts or lists of them."""
_OF_TLS = frozenset(("certificate", "key", "ca", "client_ca"))
_VARIABLE = re.compile(r"\$(?P<shell>[A-Za-z_]\w*)(?=[/\\]|$)|%(?P<windows>[A-Z_]{3,})%")
_EXPAND_THEMSELVES = ("source", "file"), ("sink", "file")
"""Components that expand ``~`` themselves and keep the path as written, because their state refers to it."""


def with_home_folders(root: dict[str, Any], layout: Layout, report: Report) -> dict[str, Any]:
    """The document with home folders for ``~``; variables that nothing replaces are reported."""
    for part in layout.parts():
        for path, text in _paths(part):
            if found := _VARIABLE.match(text):
                name = found["shell"] or found["windows"]
                hint = f"write ${{{name}}}{text[found.end() :]}"
                report.fail(path, "unexpanded-variable", f"nothing puts a value for {found[0]!r}", hint)
            elif text.startswith("~") and (part.family, part.options.get("type")) not in _EXPAND_THEMSELVES:
                root = with_value(root, path, os.path.expanduser(text))
    return root


def _paths(part: Part) -> Iterator[tuple[OptionPath, str]]:
    """Texts that are paths, by their option paths."""
    tls = part.options.get("tls")
    owners = ((part.path, part.options, _PATHS), ((*part.path, "tls"), tls if isinstance(tls, dict) else {}, _OF_TLS))
    for owner, options, names in owners:
        for name in names & options.keys():
            yield from _texts((*owner, name), options[name])


def _texts(path: OptionPath, value: object) -> Iterator[tuple[OptionPath, str]]:
    for index, text in enumerate(value) if isinstance(value, list) else [(None, value)]:
        if isinstance(text, str):
            yield (path if index is None else (*path, index)), text
