"""Suggestions for misspelt dates in paths and names: `{yyyy-mm-dd}`, `{YYYY-MM-DD}`, `%Y-%m-%d`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from connectors.shared.path_template import Template, is_date_pattern
from etl.api import Finding

_STRFTIME = re.compile(r"%[YmdHM](?:[-_./:]?%[YmdHM])*")
_LETTERS = {"%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm"}


def suggest_date(name: str) -> str | None:
    """Return the date pattern that is most likely meant: months are MM, minutes mm."""
    text = name.replace("Y", "y").replace("D", "d").replace("hh", "HH").replace(":", "-").replace(" ", "-")
    if "yyyy" in text and "HH" not in text and "MM" not in text:
        text = text.replace("mm", "MM")
    if "HH" in text and "yyyy" not in text:
        text = text.replace("MM", "mm")
    return text if text != name and is_date_pattern(text) else None


def check_dates(template: Template, option: str) -> Iterator[Finding]:
    """Yield findings for minutes in place of months, and for strftime directives."""
    for name in template.dates:
        if meant := suggest_date(name):
            message = f"in {{{name}}} mm are minutes; months are MM" if "mm" in name else f"in {{{name}}} MM are months"
            at = template.path.index("{" + name + "}") + 1
            yield Finding("bad-template", message, (option,), f"write {{{meant}}}", at=at)
    for found in re.finditer(r"%(?=\{(?P<name>[^{}]*)\})", template.path):
        message = f"'%' before {{{found['name']}}} is taken as it stands"
        yield Finding("bad-template", message, (option,), f"write {{{found['name']}}}", "warning", at=found.start())
    for found in _STRFTIME.finditer(template.path):
        meant = re.sub(r"%[YmdHM]", lambda one: _LETTERS[one[0]], found[0]).replace(":", "-")
        message = f"{found[0]!r} is literal text, not a date"
        yield Finding("bad-template", message, (option,), f"write {{{meant}}}", "warning", at=found.start())
