"""What `grok` and `regex` share: patterns tried in order by the scanner, and what they captured as fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import Duration, Finding, Outcome, Parsed, Parser, Rejects, Schema, TextSpan, format_duration, format_type
from etl.columns.texts import filter_batch
from etl.scanner.engine_choice import choose_engine
from etl.scanner.engines import check_compiles, compile_locate
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from etl.scanner.tree import Node
from parsers.grok.captures import compile_gather, conflicts, field_types, merged_types, with_distinct_names

MAX_CACHED = 256
"""Parsers whose scanners a process caches."""

TIMED_OUT = "took longer than"
"""The beginning of the reason of an event that took too long."""

_HOW = {
    "scanner": "texts in which it decides run one by one",
    "RE2": "it runs on RE2",
    "regex": "it runs event by event",
}
"""Engine → how it runs a pattern that the scanner alone cannot run."""


class PatternParser(Parser):
    """Patterns on a column. A subclass says how its patterns are read (`trees`)."""

    patterns: list[str] = Field(
        description="Patterns, tried in order: the first that matches gives the fields.",
        min_length=1,
        examples=[["%{IP:source.ip}"]],
    )
    anchored: bool = Field(default=False, description="Whether a pattern must match the whole text, not a part of it.")
    dot_matches_newline: bool = Field(
        default=True,
        description="Whether the dot matches a line end too, as in Logstash; in Elasticsearch it does not.",
    )
    reason: str = Field(
        default="does not match",
        min_length=1,
        description="What the dead letter of an event says that no pattern matches: for a recipe, what its user can do.",
        examples=["is not a line of the shop's log"],
    )
    timeout: Duration = Field(
        default=timedelta(milliseconds=100),
        description="Longest time that a pattern which needs backtracking may take for one event.",
    )

    takes_views: ClassVar[bool] = True

    def trees(self) -> Iterator[Node | PatternError]:
        """Each pattern's tree, or what is wrong with it, in order."""
        raise NotImplementedError

    def parsed_fields(self) -> Schema:
        """The captured fields: text, or int64 and float64 where the pattern says so; arrays where names repeat."""
        return pa.schema(list(_types(self._good())))

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The findings of every parser, bad and slow patterns, and fields that contradict each other."""
        yield from super().check(incoming)
        known_types: dict[str, pa.DataType] = {}
        for n, tree in enumerate(self.trees()):
            if isinstance(tree, PatternError):
                yield Finding(tree.code, tree.message, ("patterns", n), tree.hint, at=tree.at)
            else:
                yield from _findings(tree, n, known_types)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """Which engine runs each pattern, and why."""
        for n, tree in enumerate(self._good(), 1):
            engine, reason = choose_engine(tree)
            yield f"pattern {n}: {engine}" + ("" if reason is None else f" ({reason}: {_HOW[engine]}, slower)")

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """All patterns over the whole column."""
        scanner, gather = _cached_scan(_TreeIdentity(self._good()), self.timeout)
        late = f"{TIMED_OUT} {format_duration(self.timeout)}"

        def parse(text: pa.Array) -> Parsed:
            found = scanner.scan(text)
            reasons: Any = self.reason
            if found.timed_out is not None:
                reasons = pc.if_else(pa.array(found.timed_out), late, reasons)
            return Parsed(gather(found.captures), found.unmatched, reasons)

        return parse

    def locate(self, texts: Sequence[str]) -> Sequence[Sequence[TextSpan]]:
        """The captures of the first pattern that matches; one text after the other, for those that are shown."""
        searches = [compile_locate(tree, self.timeout) for tree in self._good()]
        found = (next((spans for locate in searches if (spans := locate(text)) is not None), []) for text in texts)
        return [[TextSpan(*span) for span in spans] for spans in found]

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """As every parser; events that ran out of time have a code of their own."""
        run = super().open(incoming)

        def split(batch: pa.RecordBatch) -> Outcome:
            events, rejects = run(batch)
            return Outcome(events, [part for reject in rejects for part in self._by_code(reject)])

        return split

    def _by_code(self, reject: Rejects) -> Iterator[Rejects]:
        if isinstance(reject.reasons, str):
            yield reject
            return
        late = pc.starts_with(reject.reasons, TIMED_OUT)
        for code, rows in ((f"{self.type}-timeout", late), (reject.code, pc.invert(late))):
            if rows.true_count:
                yield Rejects(filter_batch(reject.events, rows), code, reject.reasons.filter(rows))

    def _good(self) -> list[Node]:
        return [tree for tree in self.trees() if not isinstance(tree, PatternError)]


class _TreeIdentity:
    """Trees that are equal only when they are the same objects: to compare large ones takes as long as to compile them."""

    def __init__(self, trees: Sequence[Node]) -> None:
        self.trees = tuple(trees)
        self._ids = tuple(map(id, self.trees))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TreeIdentity) and self._ids == other._ids


@lru_cache(maxsize=MAX_CACHED)
def _cached_scan(
    identity: _TreeIdentity, timeout: timedelta
) -> tuple[Scanner, Callable[[Mapping[str, pa.Array]], dict[str, pa.Array]]]:
    """What runs the patterns: made once a process, for a worker opens the same step in every micro-batch."""
    scanner = Scanner([with_distinct_names(tree) for tree in identity.trees], timeout)
    return scanner, compile_gather(scanner.names, dict(_types(identity.trees)))


def _types(trees: Sequence[Node]) -> Iterable[tuple[str, pa.DataType]]:
    return merged_types([field_types(tree) for tree in trees]).items()


def _findings(tree: Node, n: int, known_types: dict[str, pa.DataType]) -> Iterator[Finding]:
    path = ("patterns", n)
    engine, reason = choose_engine(tree)
    if reason is not None:
        try:
            check_compiles(with_distinct_names(tree))
        except ValueError as error:
            yield Finding("bad-pattern", f"the pattern does not compile: {error}", path)
        message = f"the pattern needs {reason}: {_HOW[engine]}, many times slower"
        yield Finding("slow-pattern", message, path, "write it without, if its meaning allows", severity="warning")
    for message in conflicts(tree):
        yield Finding("field-conflict", message, path, "capture it with one type, or under two names")
    types = field_types(tree)
    for field, type_ in types.items():
        before = known_types.setdefault(field, type_)
        if before != type_ and not (pa.types.is_list(before) or pa.types.is_list(type_)):
            yield Finding(
                "field-conflict",
                f"field {field!r} is {format_type(type_)} here and {format_type(before)} in an earlier pattern",
                path,
            )
    for field in types:
        inner = next((other for other in known_types if other.startswith(f"{field}.")), None)
        if inner:
            yield Finding("field-conflict", f"field {field!r} is a value, and {inner!r} needs it to be a struct", path)
