"""Script functions that split, search and replace parts of texts. Python computes them for each distinct text of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.flink.text_search import take_part
from etl.expressions.library.flink.texts import translate_ascii
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import constant
from etl.expressions.library.rsql.arguments import by_text, clipped, text_of
from etl.expressions.widening import BOOLEAN, INT32, STRING

_NULL = "null if an argument is null"


def whole_number(text: str) -> int | None:
    try:
        return clipped(int(float(text)))
    except (ValueError, OverflowError):
        return None


def _separator(text: str) -> str:
    """A separator, of which ``\\.`` is the character after the backslash."""
    return text[1:] if len(text) == 2 and text[0] == "\\" and not text[1].isalnum() else text


def _pieces(text: str, separator: str) -> list[str]:
    delimiter = _separator(separator)
    return text.split(delimiter) if delimiter else [text]


def _split_index(text: str, separator: str, index: str) -> str | None:
    pieces, number = _pieces(text, separator), whole_number(index)
    return pieces[number] if number is not None and 0 <= number < len(pieces) else None


def _split_part(text: str, separator: str, first: str, last: str = "") -> str | None:
    begin, end = whole_number(first), whole_number(last or first)
    if begin is None or end is None or begin < 1:
        return None
    return _separator(separator).join(_pieces(text, separator)[begin - 1 : end])


def _substring_index(text: str, separator: str, count: str) -> str | None:
    number = whole_number(count)
    if number is None:
        return None
    pieces = _pieces(text, separator)
    return _separator(separator).join(pieces[:number] if number >= 0 else pieces[number:])


def _translate(text: str, characters: str, others: str) -> str:
    table = {ord(one): (others[at] if at < len(others) else None) for at, one in reversed(list(enumerate(characters)))}
    return text.translate(table)


def _occurrence(text: str, part: str, position: str = "0", occurrence: str = "1") -> int | None:
    start, count = whole_number(position), whole_number(occurrence)
    if start is None or count is None:
        return None
    at = max(start, 0) - 1
    for _ in range(min(max(count, 1), len(text) + 1)):
        at = text.find(part, at + 1)
        if at < 0:
            return -1
    return at


def _key_value(text: str, *rest: str) -> str | None:
    pairs, separator, key = rest if len(rest) == 3 else (",", "=", rest[-1])
    found = (one.partition(separator) for one in text.split(pairs or ","))
    return next((value for name, delimiter, value in found if delimiter and name.strip() == key), None)


def _map_of(text: str, pairs: str = ",", separator: str = "=") -> list[tuple[str, str]] | None:
    """The pairs of a text; null if one has no separator."""
    found = {}
    for one in text.split(pairs or ","):
        name, delimiter, value = one.partition(separator or "=")
        if not delimiter:
            return None
        found[name.strip()] = value
    return list(found.items())


def _without_constants(text: str) -> str:
    """Texts in single quotes replaced by ``constants_001`` and so on."""
    import re
    from itertools import count

    numbers = count(1)
    return re.sub(r"'[^']*'", lambda found: f"constants_{next(numbers):03d}", text)


def _without_brackets(text: str, opening: str = "", closing: str = "") -> str:
    """What stands between two characters, with them, replaced by ``bracket1`` and so on."""
    pieces, at = list[str](), 0
    while opening and closing:
        first = text.find(opening, at)
        last = text.find(closing, first + len(opening)) if first >= 0 else -1
        if last < 0:
            break
        pieces += [text[at:first], f"bracket{len(pieces) // 2 + 1}"]
        at = last + len(closing)
    return "".join([*pieces, text[at:]])


def _initials(text: str) -> str:
    import re

    return re.sub(r"[^\s]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _build_translate(text: BoundNode, characters: BoundNode, others: BoundNode) -> BoundNode:
    found = translate_ascii(text_of(text), characters, others)
    return found or by_text(STRING, _translate)(text, characters, others)


def _build_split_index(text: BoundNode, separator: BoundNode, index: BoundNode) -> BoundNode:
    """Arrow splits at a constant; the piece is taken from the list."""
    (is_known, delimiter), (is_index_known, at) = constant(separator), constant(index)
    number = whole_number(str(at)) if is_index_known and at is not None else None
    if not is_known or not isinstance(delimiter, str) or not _separator(delimiter) or number is None or number < 0:
        return by_text(STRING, _split_index)(text, separator, index)
    return b.apply(STRING, partial(take_part, _separator(delimiter), number), text_of(text))


_BUILT = {"translate": _build_translate, "splitindex": _build_split_index}


def _of(type_: pa.DataType, result: str) -> Callable[..., LibraryFunction]:
    def make(
        name: str, arguments: str, function: Callable[..., Any], about: str, example: str, gives: Any, null: str = _NULL
    ) -> LibraryFunction:
        listed = ", ".join(
            one if ":" in one else f"{one.rstrip('?')}: any{'?' if one.endswith('?') else ''}" for one in arguments.split()
        )
        build = _BUILT.get(name) or by_text(type_, function)
        loops = name not in _BUILT
        return LibraryFunction(f"rsql_{name}", listed, result, build, about, f"rsql_{example}", gives, null=null, loops=loops)

    return make


text_function, int_function, boolean_function = _of(STRING, "string"), _of(INT32, "int"), _of(BOOLEAN, "boolean")


long_function = _of(pa.int64(), "bigint")


map_function = _of(pa.map_(STRING, STRING), "map<string,string>")


FUNCTIONS = (
    text_function(
        "splitindex",
        "text separator index",
        _split_index,
        "A piece of a text; they count from 0.",
        "splitindex('a,b', ',', 1)",
        "b",
    ),
    text_function(
        "splitpart",
        "text separator first last?",
        _split_part,
        "Pieces of a text from one number to another; they count from 1.",
        "splitpart('a,b,c', ',', 2, 3)",
        "b,c",
    ),
    text_function(
        "substringindex",
        "text separator count",
        _substring_index,
        "The text before the n-th separator; a negative number counts from the end.",
        "substringindex('a.b.c', '.', 2)",
        "a.b",
    ),
    text_function(
        "translate",
        "text characters others",
        _translate,
        "Each of some characters replaced by the one at its place in the other text.",
        "translate('abcab', 'ab', 'x')",
        "xcx",
    ),
    int_function(
        "instr",
        "text part position? occurrence?",
        _occurrence,
        "Place of a part, from 0; -1 if there is none.",
        "instr('hello', 'l')",
        2,
    ),
    int_function(
        "blink_instr",
        "text part",
        lambda text, part: text.find(part) + 1,
        "Place of a part, from 1; else 0.",
        "blink_instr('hello', 'l')",
        3,
    ),
    int_function(
        "charmatchcount",
        "text characters",
        lambda text, other: len(set(text) & set(other)),
        "How many different characters of a text the other has, too.",
        "charmatchcount('hello', 'lo')",
        2,
    ),
    text_function(
        "initcap", "text", _initials, "The first letter of each word a capital, the others small.", "initcap('aB cd')", "Ab Cd"
    ),
    text_function(
        "keyvalue",
        "text pairs separator? key?",
        _key_value,
        "The value of a key in a text of pairs: keyvalue(text, key), or with two separators before the key.",
        "keyvalue('a:1;b:2', ';', ':', 'b')",
        "2",
        "null if an argument is null, or there is no such key",
    ),
    map_function(
        "str_to_map", "text pairs? separator?", _map_of, "Pairs as a map.", "str_to_map('a=1,b=2')", [("a", "1"), ("b", "2")]
    ),
    map_function(
        "strtomap", "text pairs separator", _map_of, "Pairs as a map.", "strtomap('a:1;b:2', ';', ':')", [("a", "1"), ("b", "2")]
    ),
    map_function(
        "jsoncreate", "text", _map_of, "Pairs such as name=value as a map.", "jsoncreate('a=1,b=2')", [("a", "1"), ("b", "2")]
    ),
    text_function(
        "val", "text", _without_constants, "Texts in single quotes replaced by constants_001 and so on.", "val('a')", "a"
    ),
    text_function(
        "backet",
        "text opening? closing?",
        _without_brackets,
        "What stands between two characters replaced by bracket1 and so on.",
        "backet('a [x y] b', '[', ']')",
        "a bracket1 b",
    ),
)
