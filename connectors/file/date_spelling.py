"""Dates in paths and names that are spelled otherwise than meant: `{yyyy-mm-dd}`, `{YYYY-MM-DD}`, `%Y-%m-%d`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from connectors.file.templates import Template, is_date
from etl.api import Finding

_STRFTIME = re.compile(r"%[YmdHM](?:[-_./:]?%[YmdHM])*")
_LETTERS = {"%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm"}


def meant_date(name: str) -> str | None:
    """The date that is most likely meant, where it is spelled otherwise: months are MM, minutes mm."""
    text = name.replace("Y", "y").replace("D", "d").replace("hh", "HH").replace(":", "-").replace(" ", "-")
    if "yyyy" in text and "HH" not in text and "MM" not in text:
        text = text.replace("mm", "MM")
    if "HH" in text and "yyyy" not in text:
        text = text.replace("MM", "mm")
    return text if text != name and is_date(text) else None


def date_findings(template: Template, option: str) -> Iterator[Finding]:
    """Minutes where months are meant, and the letters of strftime."""
    for name in template.dates:
        if meant := meant_date(name):
            message = f"in {{{name}}} mm are minutes, and MM are months" if "mm" in name else f"in {{{name}}} MM are months"
            at = template.path.index("{" + name + "}") + 1
            yield Finding("bad-template", message, (option,), f"write {{{meant}}}", at=at)
    for found in _STRFTIME.finditer(template.path):
        meant = re.sub(r"%[YmdHM]", lambda one: _LETTERS[one[0]], found[0]).replace(":", "-")
        message = f"{found[0]!r} is taken as it stands, and is no date"
        yield Finding("bad-template", message, (option,), f"write {{{meant}}}", "warning", at=found.start())
