"""The parser `regex`: named groups of regular expressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Node
from parsers.grok.compiler import compile_pattern
from parsers.grok.pattern_parser import PatternParser


class Regex(PatternParser):
    """Reads fields out of text with the named groups of regular expressions.

    Groups are written ``(?<name>…)`` or ``(?P<name>…)``; a name may have dots (``source.ip``). Every field is text.
    The dialect is that of `grok` without its library: the search is not anchored, the dot matches line ends,
    ``^ $`` match at every line's edges, ``\\w \\d \\s \\b`` know ASCII only, an empty capture is null, and a group named
    like another in the same pattern gives one value or an array.

    Expressions run as those of `grok`: over whole batches in linear time, or with a warning of `etl lint` event by event
    under ``timeout``; an event that takes longer goes to the dead letters as ``regex-timeout``.

    ```yaml
    type: regex
    patterns: ['^(?<level>[A-Z]+) \\[(?<log.logger>[^\\]]+)\\] (?<text>.*)$']
    ```
    """

    type: Literal["regex"] = "regex"
    patterns: list[str] = Field(
        description="Expressions, tried in order: the first that matches gives the fields.",
        min_length=1,
        examples=[["user=(?<user_name>\\S+)"]],
    )

    def trees(self) -> Iterator[Node | PatternError]:
        """Each expression compiled."""
        for pattern in self.patterns:
            yield compile_pattern(pattern, None, frozenset(), self.anchored, self.dot_matches_newline)
