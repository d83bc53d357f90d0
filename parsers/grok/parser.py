"""The parser `grok`: named patterns of Logstash's grok language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from etl.api import Finding, Schema
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Node
from parsers import patterns as library
from parsers.grok.compiler import compile_pattern
from parsers.grok.library import NamedPattern, named_patterns
from parsers.grok.pattern_parser import PatternParser
from parsers.grok.reference_checks import misspelt_references, unknown_references


class Grok(PatternParser):
    """Reads fields out of text with Logstash's grok patterns.

    ``%{NAME}`` matches what the library calls NAME, ``%{NAME:field}`` keeps it as a field, ``%{NAME:field:int}`` (or
    ``float``) as a number; ``(?<field>…)`` keeps any expression. Fields are written ``a.b`` or ``[a][b]``. As in
    Logstash the search is not anchored, the dot matches line ends (``dot_matches_newline``) and ``^ $`` every
    line's edges; ``\\w \\d \\s`` and ``\\b`` know ASCII only. An empty capture is null.
    A name captured several times is one value where only one of the captures can take part, else an array.

    All patterns together become one automaton, which reads each text once, in linear time, and learns its states from
    the texts; the learned states are cached for the next run. Back-references, and look-around of more than a
    character, run event by event under ``timeout`` (a negative look-ahead only for texts in which it may decide):
    `etl lint` warns of them, and an event that takes longer goes to the dead letters as ``grok-timeout``.

    ```yaml
    type: grok
    patterns: ["%{SYSLOGBASE} Failed password for %{USERNAME:user_name} from %{IP:source.ip}"]
    ```
    """

    type: Literal["grok"] = "grok"
    pattern_set: Literal["ecs-v1", "legacy"] = Field(
        default="ecs-v1", description="The library: field names of the Elastic Common Schema, or those of older Logstash."
    )
    pattern_definitions: dict[str, str] = Field(
        default={},
        description="Patterns of your own by name, before those of files and library.",
        examples=[{"ORDER": "[A-Z]{2}\\d+"}],
    )
    pattern_files: list[str] = Field(
        default=[], description="Files of patterns, one a line: a name, a space, an expression; later files win."
    )

    @classmethod
    def named_patterns(cls) -> Iterator[NamedPattern]:
        """The library, for `etl list patterns` and `etl describe`."""
        return named_patterns()

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Files that cannot be read, then the patterns."""
        for n, path in enumerate(self.pattern_files):
            try:
                library.read(Path(path))
            except (OSError, ValueError) as error:
                yield Finding("unreadable-file", f"pattern file {path!r} cannot be read: {error}", ("pattern_files", n))
        yield from super().check(incoming)
        for n, (pattern, tree) in enumerate(zip(self.patterns, self.trees(), strict=True)):
            yield from misspelt_references(pattern, ("patterns", n))
            if isinstance(tree, PatternError) and tree.code == "unknown-pattern":
                yield from unknown_references(pattern, ("patterns", n), self._names(), tree.at)
        for name, pattern in self.pattern_definitions.items():
            yield from misspelt_references(pattern, ("pattern_definitions", name))

    def trees(self) -> Iterator[Node | PatternError]:
        """Each pattern with its names expanded."""
        own = frozenset(self._own().items())
        for pattern in self.patterns:
            yield compile_pattern(pattern, self.pattern_set, own, self.anchored, self.dot_matches_newline)

    def _names(self) -> frozenset[str]:
        """Patterns that there are."""
        return frozenset((*library.load(self.pattern_set), *self._own()))

    def _own(self) -> dict[str, str]:
        """Names → expressions of the user; a file that cannot be read is left out here and found by `check`."""
        texts: dict[str, str] = {}
        for path in self.pattern_files:
            try:
                texts |= library.read(Path(path))
            except (OSError, ValueError):
                continue
        return texts | self.pattern_definitions
