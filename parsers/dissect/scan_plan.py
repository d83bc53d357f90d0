"""A dissection → a pattern of the scanner, and the fields made of its captures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from etl.scanner.char_class import ANY, one_of
from etl.scanner.tree import Anchor, Atomic, Capture, Chars, Node, Repeat, sequence
from parsers.dissect.syntax import Dissection, Key

_ANYTHING = Chars(ANY)


class FieldPiece(NamedTuple):
    """A capture that is part of a field; ``joint`` is the text between it and the piece before."""

    capture: str
    joint: str


class ScanPlan(NamedTuple):
    """The pattern to scan for, and the fields made of its captures."""

    tree: Node
    fields: dict[str, list[FieldPiece]]
    """Field → its pieces in the order in which they are joined."""

    references: list[tuple[list[FieldPiece], str]]
    """Pieces of a name, and the capture of the value that gets this name."""


def plan_scan(dissection: Dissection, separator: str | None) -> ScanPlan:
    """``separator`` stands between appended pieces; None means what the pattern has before each."""
    runs = list(_runs(dissection.keys, separator is None))
    captures = {run[0]: f"k{number}" for number, run in enumerate(runs)}
    used = {key.name for key in dissection.keys if key.kind == "value"}
    parts: list[Node] = [Anchor("\\A"), *_literal(dissection.head)]
    for run in runs:
        is_captured = run[0].kind != "skip" or (run[0].name and run[0].name in used)
        parts += _run(run, captures[run[0]] if is_captured else None)
    if not dissection.keys[-1].after:
        parts.append(Anchor("\\z"))
    named = {name: list(_pieces(name, captures, separator)) for name in _names(captures)}
    fields = {name: pieces for name, pieces in named.items() if any(key.name == name and _is_field(key) for key in captures)}
    references = [(named[key.name], captures[key]) for key in captures if key.kind == "value"]
    return ScanPlan(sequence(parts), fields, references)


def _is_field(key: Key) -> bool:
    return key.kind in ("field", "append")


def _names(keys: dict[Key, str]) -> list[str]:
    return list(dict.fromkeys(key.name for key in keys if key.name and key.kind != "value"))


def _runs(keys: Sequence[Key], joined: bool) -> Iterator[list[Key]]:
    """Keys, neighbours together that are appended to each other as they stand: they are one stretch of the text."""
    run: list[Key] = []
    for key in keys:
        neighbours = run and joined and run[0].name == key.name and _is_field(run[0]) and key.kind == "append"
        plain = run and run[-1].after and not run[-1].padded and run[-1].order is None and key.order is None
        alone = sum(other.name == key.name and other.kind == "append" and other.order is not None for other in keys) == 0
        if run and not (neighbours and plain and alone):
            yield run
            run = []
        run.append(key)
    yield run


def _pieces(name: str, captures: dict[Key, str], separator: str | None) -> Iterator[FieldPiece]:
    """A field's pieces: the last plain key, then what is appended, by order and position."""
    mine = [key for key in captures if key.name == name and key.kind != "value"]
    plain = [key for key in mine if key.kind != "append"][-1:]
    appended = sorted((key for key in mine if key.kind == "append"), key=lambda key: key.order or 0)
    for key in [*plain, *appended]:
        yield FieldPiece(captures[key], _joint(key) if separator is None else separator)


def _joint(key: Key) -> str:
    return key.before or key.after or " "


def _run(run: list[Key], capture: str | None) -> list[Node]:
    """The keys of a run and the text after the last."""
    inner = [node for key, _ in pairwise(run) for node in _close([_value(key)], _literal(key.after))]
    last = run[-1]
    if not last.after:
        return [_capture([*inner, _value(last)], capture)]
    rest = _literal(last.after)
    if last.padded:
        rest = [Repeat(sequence(rest), 1, None, "possessive")]
    return _close([_capture([*inner, _value(last)], capture)], rest)


def _capture(parts: list[Node], capture: str | None) -> Node:
    return sequence(parts) if capture is None else Capture(sequence(parts), capture)


def _value(key: Key) -> Node:
    """A key's text: a number of characters, all that is left, or what comes before the text after the key."""
    if key.length is not None:
        return Repeat(_ANYTHING, key.length, key.length)
    return _upto(key.after) if key.after else Repeat(_ANYTHING, 0, None)


def _upto(text: str) -> Node:
    """The text before the first occurrence of a text."""
    if len(text) == 1:
        return Repeat(Chars(one_of(text).inverted()), 0, None)
    return Repeat(_ANYTHING, 0, None, "lazy")


def _close(parts: list[Node], rest: list[Node]) -> list[Node]:
    """The first occurrence counts, even if the rest does not match then."""
    whole = [*parts, *rest]
    return whole if len(rest) == 1 else [Atomic(sequence(whole))]


def _literal(text: str) -> list[Node]:
    return [Chars(one_of(char)) for char in text]
