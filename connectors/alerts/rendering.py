"""Templates → texts of events, in which values have no effect: no mentions, links or markup, no control characters."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.json_objects import join, text
from connectors.shared.text_template import TextTemplate, large_texts

Escape = Callable[[pa.Array], pa.Array]
"""Escapes the values of a column (large_string)."""

BREAK = "\u200b"
"""Zero width space: invisible, and ends a mention, a link or a word of markup."""

MISSING = "-"
"""Text of a null, and of an event without any text."""

_CONTROLS = r"[\x00-\x1f\x7f-\x9f\x{2028}\x{2029}]+"
_INVISIBLE = r"[\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}]+"
"""Zero width characters, and those that change the direction of writing."""

_ACTIVE_ENDS = tuple("@<!#:~&\\")
"""Characters of a template that could form a mention, a link or markup with the beginning of a value."""


def render(template: TextTemplate, batch: pa.RecordBatch, escape: Escape) -> pa.Array:
    """Return the text of each event (large_string, without null): values are escaped, the template's own text is not."""
    parts: list[pa.Array] = []
    for at, piece in enumerate(template.pieces):
        if at % 2:
            before = template.pieces[at - 1]
            if before.endswith(_ACTIVE_ENDS) or (at > 1 and not before):
                parts.append(text("" if escape in _WITHOUT_MARKUP else BREAK))
            parts.append(escape(pc.coalesce(large_texts(batch.column(piece)), text(MISSING))))
        else:
            parts.append(text(piece))
    if template.is_constant:
        return pa.repeat(parts[0], batch.num_rows)
    joined = join(*parts)
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(joined), ""), text(MISSING), joined)


def one_line(values: pa.Array) -> pa.Array:
    """Replace control characters and newlines by a space, and remove invisible characters."""
    return _replace(_replace(values, _CONTROLS, " "), _INVISIBLE, "")


def plain_text(values: pa.Array) -> pa.Array:
    """Remove control characters but newlines and tabs, and invisible characters."""
    values = _replace(_replace(values, r"\r\n?", "\n"), r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "")
    return _replace(values, _INVISIBLE, "")


def slack(values: pa.Array) -> pa.Array:
    """Escape Slack's mrkdwn: ``&``, ``<`` and ``>`` as entities, without which nothing is a mention or a link."""
    values = without_links(one_line(values))
    values = _replace(values, r"([*_~`])", rf"{BREAK}\1{BREAK}")
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", f"{BREAK}&gt;")):
        values = pc.replace_substring(values, character, entity)
    return values


def markdown(values: pa.Array) -> pa.Array:
    """Escape Markdown with backslashes, and break what clients find beside it (mentions, channels, tags)."""
    values = without_links(one_line(values))
    values = _replace(values, r"([\\`*_~|\[\]<>#])", r"\\\1")
    values = _replace(values, r"([~#<])", rf"\1{BREAK}")
    return _replace(values, r"^(\s*\d*)([-+.)])", rf"\1{BREAK}\2")


def without_links(values: pa.Array) -> pa.Array:
    """Break mentions, addresses of pages and mails, and names of emojis by a zero width space."""
    values = _replace(values, r"@", f"@{BREAK}")
    values = _replace(values, r"://", f":{BREAK}//")
    values = _replace(values, r"(?i)\b(www)\.", rf"\1{BREAK}.")
    return _replace(values, r":([A-Za-z+-][\w+-]*:)", rf":{BREAK}\1")


def _replace(values: pa.Array, pattern: str, by: str) -> pa.Array:
    return pc.replace_substring_regex(values, pattern, by)


_WITHOUT_MARKUP = (one_line, plain_text)
"""Escapes for texts that are shown as they are."""
