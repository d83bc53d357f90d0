"""A file of filter expressions → rules of the step ``rules``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from etl.rsql.filters import FilterReader
from etl.rsql.problems import SourceError

MAX_CHARACTERS = 16 << 20
"""Size of the largest file, that of rules in YAML."""

_BETWEEN = re.compile(r"(?:\s|;|#[^\n]*(?:\n|$))*")
_NAME = re.compile(r"([\w][\w .-]*?)[ \t]*[:=][ \t]*(?=[(!])")


@dataclass(frozen=True, slots=True)
class ConvertedRule:
    """A rule of the file: its name, its condition in Spark SQL, where it stands, and warnings."""

    name: str
    where: str
    at: int
    warnings: tuple[SourceError, ...] = ()


def read_rules_file(text: str) -> tuple[list[ConvertedRule], list[SourceError]]:
    """The rules of a file, ``(field,function,value)&(…)`` or ``name: (…)`` each, and the errors of those that cannot be read.

    A rule ends where its brackets do, unless ``&`` or ``|`` follows; ``#`` begins a comment. After an error the next line counts.
    """
    rules: list[ConvertedRule] = []
    errors: list[SourceError] = []
    names: set[str] = set()
    at = 0
    if len(text) > MAX_CHARACTERS:
        return [], [SourceError("file-too-large", f"more than {MAX_CHARACTERS >> 20} MiB", 0)]
    while (at := _end(_BETWEEN, text, at)) < len(text):
        begin = at
        named = _NAME.match(text, at)
        name = named[1] if named else f"rule_{len(rules) + len(errors) + 1}"
        try:
            reader = FilterReader(text, named.end() if named else at)
            where = reader.read()
            if name in names:
                raise SourceError("duplicate-name", f"there are two rules {name!r}", begin, "name them differently")
        except SourceError as error:
            errors.append(error)
            line_end = text.find("\n", max(error.at, begin))
            at = len(text) if line_end < 0 else line_end
            continue
        names.add(name)
        rules.append(ConvertedRule(name, where, begin, tuple(reader.warnings)))
        at = reader.at
    return rules, errors


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
