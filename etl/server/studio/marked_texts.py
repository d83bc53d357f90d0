"""The texts that a parser got, with the spans of its fields, and for those that fail where they stop matching."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from etl.api import Parser, TextSpan
from etl.inference.match_stops import Grok, MatchStop

MAX_STOPS = 50
"""Maximum number of failed texts whose stops are searched: each pattern is tried piece by piece."""

_PATTERN_OPTIONS = ("pattern_set", "pattern_definitions", "pattern_files")


def locate_fields(parser: Parser, texts: Sequence[str], values: Sequence[Mapping[str, Any]]) -> list[list[TextSpan]]:
    """The spans of the fields in each text: as the parser says, else where the text has the values one after the other."""
    located = parser.locate(texts)
    if any(located):
        return [list(spans) for spans in located]
    return [_search_values(text, row) for text, row in zip(texts, values, strict=True)]


def _search_values(text: str, row: Mapping[str, Any]) -> list[TextSpan]:
    """Spans of the values that the text holds, those of one field not in those of another; a value is not a part of a word or
    number, such as the 4 of ``14:00`` for a process 4."""
    spans: list[TextSpan] = []
    for field, value in sorted(row.items(), key=lambda item: -len(str(item[1]))):
        shown = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
        before, after = ("(?<!\\w)" if shown[:1].isalnum() else "", "(?!\\w)" if shown[-1:].isalnum() else "")
        for found in re.finditer(f"{before}(?={re.escape(shown)}{after})", text):
            span = TextSpan(field, found.start(), found.start() + len(shown))
            if shown and not any(other.start < span.end and span.start < other.end for other in spans):
                spans.append(span)
                break
    return sorted(spans, key=lambda span: span.start)


def match_stops(parser: Parser, texts: Sequence[str]) -> list[MatchStop | None]:
    """Where each text stops matching the pattern that matches it furthest; None for parsers without patterns."""
    patterns: Sequence[str] = getattr(parser, "patterns", None) or ()
    if parser.type not in ("grok", "regex") or not texts:
        return [None for _ in texts]
    options = {name: getattr(parser, name) for name in _PATTERN_OPTIONS if hasattr(parser, name)}
    some = texts[:MAX_STOPS]
    found = [Grok(pattern, options).stops(some) for pattern in patterns]
    best = [max(stops, key=lambda stop: stop.column) for stops in zip(*found, strict=True)]
    return [*best, *(None for _ in texts[MAX_STOPS:])]
