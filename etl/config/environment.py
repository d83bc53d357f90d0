"""``${NAME}`` in values, and files of ``NAME=value`` lines."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etl.api import EtlError, nearest
from etl.config.document.text_locations import location_at
from etl.config.model import OptionPath
from etl.config.report import Report

_REFERENCE = re.compile(
    r"""
      \$\$\{                                              # an escaped one: the text ${
    | \$\{ (?P<name>[A-Za-z_][A-Za-z0-9_]*)
        (?: :- (?P<default>[^}]*) | :\? (?P<message>[^}]*) )?
      \}
    | (?P<bad>\$\{)
    """,
    re.VERBOSE,
)
_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def substitute(value: Any, env: Mapping[str, str], report: Report, path: OptionPath = ()) -> Any:
    """The value with variables in its texts replaced; undefined ones are reported. Their values are never read as YAML."""
    if isinstance(value, dict):
        return {key: substitute(item, env, report, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, env, report, (*path, index)) for index, item in enumerate(value)]
    return _text(value, env, report, path) if isinstance(value, str) and "${" in value else value


def _text(text: str, env: Mapping[str, str], report: Report, path: OptionPath) -> str:
    def replace(found: re.Match[str]) -> str:
        if found["bad"]:
            _fail(
                report, path, found, "bad-env", "'${' begins no ${NAME}, ${NAME:-default} or ${NAME:?message}", "write $${ for ${"
            )
            return found[0]
        name = found["name"]
        if name is None:
            return "${"
        given = env.get(name)
        if given is not None and not is_unicode(given):
            _fail(
                report, path, found, "bad-env", f"the value of {name!r} in the environment is not UTF-8", "set it as UTF-8 text"
            )
            return found[0]
        if given or (given is not None and found["default"] is None and found["message"] is None):
            report.mask(given, f"${{{name}}}")
            return given
        if found["default"] is not None:
            report.defaulted.add(path)
            return found["default"]
        message = f"the environment has no {name!r}" + (f": {found['message']}" if found["message"] else "")
        hint = nearest(name, env) or f"set it, or give a default: ${{{name}:-value}}"
        _fail(report, path, found, "undefined-env", message, hint)
        return found[0]

    report.substituted[path] = text
    return _REFERENCE.sub(replace, text)


def undefined_variables(text: str, env: Mapping[str, str]) -> dict[str, str]:
    """The variables without a default in the text of a pipeline file, outside of comments, that the environment lacks: name →
    what their message says, or an empty text."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = (one for one in _REFERENCE.finditer(lines) if one["name"] and one["default"] is None)
    return {one["name"]: one["message"] or "" for one in found if not env.get(one["name"])}


def is_unicode(text: str) -> bool:
    """Whether a text of the environment or command line was UTF-8: Python stands in surrogates for the bytes of others."""
    return not re.search("[\ud800-\udfff]", text)


def _fail(report: Report, path: OptionPath, found: re.Match[str], code: str, message: str, hint: str) -> None:
    location = location_at(report.document, report.location(path), found.start())
    report.add_at(location, path, code, message, hint)
    report.broken.add(path)


def read_env_file(path: str | os.PathLike[str]) -> dict[str, str]:
    """Names and values of a file with a ``NAME=value`` a line; ``#`` comments, quotes and ``export`` are allowed.

    Raises EtlError that names the line, without its value, and OSError.
    """
    try:
        text = Path(path).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EtlError(f"{path}: not UTF-8 at byte {error.start}") from None
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if not match:
            raise EtlError(f"{path}:{number}: a line is NAME=value, a comment or empty")
        found[match["name"]] = _env_value(match["value"], f"{path}:{number}")
    return found


def _env_value(text: str, where: str) -> str:
    if text[:1] not in ("'", '"'):
        return re.split(r"\s+#", text, maxsplit=1)[0].strip()
    closing = re.match(r"'([^']*)'" if text[0] == "'" else r'"((?:[^"\\]|\\.)*)"', text)
    if not closing or not re.fullmatch(r"\s*(#.*)?", text[closing.end() :]):
        raise EtlError(f"{where}: the quote is not closed, or something follows it")
    if text[0] == "'":
        return closing[1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), closing[1])
