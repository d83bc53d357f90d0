"""Parts of texts are decoded, and the texts put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import owned_array
from etl.scanner.engines import decode_texts, encode_texts
from etl.scanner.pattern_error import PatternError
from etl.scanner.regex_printer import format_regex
from etl.scanner.syntax import parse
from etl.scanner.tree import Node, captures


def parts_pattern(text: str) -> str:
    """The expression for the package ``regex``, whose group holds the part. Raises ValueError."""

    def unknown(name: str, at: int) -> Node:
        raise PatternError(f"no pattern is called {name!r} here", at)

    try:
        tree = parse(text, unknown)
    except PatternError as error:
        raise ValueError(str(error)) from None
    if (found := len(captures(tree))) != 1:
        raise ValueError(f"one capture, such as (?<part>.*), says what is decoded, and there are {found}")
    return format_regex(tree, backtracking=True)


def parts_decoder(pattern: str, decode: Callable[[pa.StringArray], pa.StringArray]) -> Callable[[pa.Array], pa.StringArray]:
    """A column → the same with what the pattern captures decoded; a part that ``decode`` makes null stays."""
    import regex

    compiled = regex.compile(pattern, regex.VERSION1)

    def replace(texts: pa.Array) -> pa.StringArray:
        """A loop over texts: their parts are decoded as one column."""
        rows = list(decode_texts(owned_array(texts)))
        found = [[] if row is None else [match.span(1) for match in compiled.finditer(row) if match[1]] for row in rows]
        parts = encode_texts(row[start:end] for row, spans in zip(rows, found, strict=True) for start, end in spans if row)
        decoded = decode_texts(pc.coalesce(decode(parts), parts))
        return encode_texts(_joined(row, spans, decoded) for row, spans in zip(rows, found, strict=True))

    return replace


def _joined(text: str | None, spans: list[tuple[int, int]], decoded: Iterator[str | None]) -> str | None:
    """The text with the next decoded parts in these places."""
    if text is None:
        return None
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], next(decoded) or ""]
        at = end
    return "".join([*pieces, text[at:]])
