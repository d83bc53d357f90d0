"""What word processors and printed pages make of a script, corrected before it is read. Each character keeps its index."""

from __future__ import annotations

import re

from etl.sql.statements import ScriptError

_WIDE = dict(zip("\u2018\u2019\u201c\u201d\uff08\uff09\uff0c\uff1b\uff1d", "''\"\"(),;=", strict=True))
"""Quotes of word processors, and full-width characters of Chinese keyboards → the characters of SQL."""

_PART = re.compile(
    r"""
    (?P<kept>'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/)
  | (?P<single>[\u2018\u2019][^\u2018\u2019'\n]*[\u2018\u2019])
  | (?P<double>[\u201c\u201d][^\u201c\u201d"\n]*[\u201c\u201d])
  | (?P<sign>[\uff08\uff09\uff0c\uff1b\uff1d])
  | (?P<comment>^[ \t]*//)
  | (?P<name>(?<![\w`])_[ ](?P<rest>[A-Za-z]\w*))
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TRIGGER = re.compile(r"[\u2018\u2019\u201c\u201d\uff08\uff09\uff0c\uff1b\uff1d]|^[ \t]*//|\b_ ", re.MULTILINE)


def corrected(text: str) -> tuple[str, list[ScriptError]]:
    """The script with SQL's characters in place of similar ones, ``--`` for ``//`` at the beginning of a line, and ``_name``
    for ``_ name`` where the script has that name elsewhere; and a warning for each."""
    warnings: list[ScriptError] = []
    if not _TRIGGER.search(text):
        return text, warnings

    def correct(found: re.Match[str]) -> str:
        new = _correction(found, text)
        if new != found[0]:
            at = found.start() + len(found[0]) - len(found[0].lstrip())
            warnings.append(ScriptError("corrected-sql", f"{found[0].strip()!r} is read as {new.strip()!r}", at, "write it so"))
        return new

    return _PART.sub(correct, text), warnings


def _correction(found: re.Match[str], text: str) -> str:
    """What stands for a part; of the same length."""
    whole = found[0]
    match found.lastgroup:
        case "single":
            return f"'{whole[1:-1]}'"
        case "double":
            return f'"{whole[1:-1]}"'
        case "sign":
            return _WIDE[whole]
        case "comment":
            return whole.replace("//", "--")
        case "name" if re.search(rf"(?<!\w)_{found['rest']}\b", text):
            return f" _{found['rest']}"
    return whole
