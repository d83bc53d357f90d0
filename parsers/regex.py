"""The parser `regex`: named groups of regular expressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from parsers.grok_compiler import compiled
from parsers.pattern_error import PatternError
from parsers.pattern_parser import PatternParser
from parsers.regex_engine import Program


class Regex(PatternParser):
    """Reads fields out of text with the named groups of regular expressions.

    Groups are written ``(?<name>…)`` or ``(?P<name>…)``; a name may have dots (``source.ip``). Every field is text.
    The dialect is that of `grok` without its library: the search is not anchored, the dot matches line ends,
    ``^ $`` match at every line's edges, ``\\w \\d \\s \\b`` know ASCII only, an empty capture is null, and a group named
    like another in the same pattern gives one value or an array.

    Expressions run over whole batches in linear time by RE2. One that needs look-around, back-references or
    atomic groups runs event by event under ``timeout``; `etl lint` warns of it, and an event that takes longer goes to
    the dead letters as ``regex-timeout``.

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

    def programs(self) -> Iterator[Program | PatternError]:
        """Each expression compiled."""
        for pattern in self.patterns:
            yield compiled(pattern, None, frozenset(), self.anchored)
