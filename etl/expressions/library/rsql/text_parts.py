"""Script functions that take texts apart, encode or search them; Python computes them for each distinct text of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.rsql.arguments import by_text
from etl.expressions.widening import BOOLEAN, INT32, STRING

_NULL = "null if an argument is null"


def _whole(text: str) -> int | None:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def _separator(text: str) -> str:
    """A separator, of which ``\\.`` is the sign behind the backslash."""
    return text[1:] if len(text) == 2 and text[0] == "\\" and not text[1].isalnum() else text


def _pieces(text: str, separator: str) -> list[str]:
    sign = _separator(separator)
    return text.split(sign) if sign else [text]


def _split_index(text: str, separator: str, index: str) -> str | None:
    pieces, number = _pieces(text, separator), _whole(index)
    return pieces[number] if number is not None and 0 <= number < len(pieces) else None


def _split_part(text: str, separator: str, first: str, last: str = "") -> str | None:
    begin, end = _whole(first), _whole(last or first)
    if begin is None or end is None or begin < 1:
        return None
    return _separator(separator).join(_pieces(text, separator)[begin - 1 : end])


def _substring_index(text: str, separator: str, count: str) -> str | None:
    number = _whole(count)
    if number is None:
        return None
    pieces = _pieces(text, separator)
    return _separator(separator).join(pieces[:number] if number >= 0 else pieces[number:])


def _translate(text: str, characters: str, others: str) -> str:
    table = {ord(one): (others[at] if at < len(others) else None) for at, one in reversed(list(enumerate(characters)))}
    return text.translate(table)


def _occurrence(text: str, part: str, position: str = "0", occurrence: str = "1") -> int | None:
    start, count = _whole(position), _whole(occurrence)
    if start is None or count is None:
        return None
    at = max(start, 0) - 1
    for _ in range(min(max(count, 1), len(text) + 1)):
        at = text.find(part, at + 1)
        if at < 0:
            return -1
    return at


def _soundex(text: str) -> str:
    codes = {letter: digit for letters, digit in _SOUNDS.items() for letter in letters}
    letters = [one for one in text.upper() if "A" <= one <= "Z"]
    if not letters:
        return ""
    found, last = letters[0], codes.get(letters[0], "")
    for one in letters[1:]:
        code = codes.get(one, "")
        if code and code != last:
            found += code
        if one not in "HW":
            last = code
    return (found + "000")[:4]


_SOUNDS = {"BFPV": "1", "CGJKQSXZ": "2", "DT": "3", "L": "4", "MN": "5", "R": "6"}


def _hash_code(text: str) -> str:
    """Java's hash of UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8) + units[at + 1]) & 0xFFFFFFFF
    return str(value - (1 << 32) if value >= 1 << 31 else value)


def _md5(text: str) -> str:
    import hashlib

    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest().upper()


def _url_encode(text: str, charset: str = "utf-8") -> str | None:
    from urllib.parse import quote_plus

    try:
        return quote_plus(text, safe="*", encoding=charset).replace("~", "%7E")
    except (LookupError, UnicodeError):
        return None


def _url_decode(text: str, charset: str = "utf-8") -> str | None:
    from urllib.parse import unquote_plus

    try:
        return unquote_plus(text, encoding=charset)
    except LookupError:
        return None


def _url_part(url: str, part: str, key: str = "") -> str | None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
    except ValueError:
        return None
    user, at, _ = parts.netloc.rpartition("@")
    found = {
        "HOST": host,
        "PATH": parts.path,
        "QUERY": parts.query or None,
        "REF": parts.fragment or None,
        "PROTOCOL": parts.scheme or None,
        "AUTHORITY": parts.netloc or None,
        "USERINFO": user if at else None,
        "FILE": parts.path + (f"?{parts.query}" if parts.query else ""),
    }.get(part.upper())
    if part.upper() != "QUERY" or not key:
        return found
    pairs = (one.partition("=") for one in parts.query.split("&"))
    return next((value for name, _, value in pairs if name == key), None)


def _key_value(text: str, *rest: str) -> str | None:
    pairs, separator, key = rest if len(rest) == 3 else (",", "=", rest[-1])
    found = (one.partition(separator) for one in text.split(pairs or ","))
    return next((value for name, sign, value in found if sign and name.strip() == key), None)


def _map_of(text: str, pairs: str = ",", separator: str = "=") -> list[tuple[str, str]] | None:
    """The pairs of a text; null if one has no separator."""
    found = {}
    for one in text.split(pairs or ","):
        name, sign, value = one.partition(separator or "=")
        if not sign:
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
    """What stands between two signs, with them, replaced by ``bracket1`` and so on."""
    import re
    from itertools import count

    if not opening or not closing:
        return text
    numbers = count(1)
    inside = f"{re.escape(opening)}.*?{re.escape(closing)}"
    return re.sub(inside, lambda found: f"bracket{next(numbers)}", text, flags=re.DOTALL)


def _can_encode(text: str, source: str, target: str) -> bool:
    """Whether the bytes in one encoding are the same text in the other."""
    try:
        return text.encode(source).decode(target, "replace") == text
    except (LookupError, UnicodeError):
        return False


def _initials(text: str) -> str:
    import re

    return re.sub(r"[^\s]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _character(code: str) -> str | None:
    number = _whole(code)
    return chr(number) if number is not None and 0 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else None


def _address_number(text: str) -> int | None:
    import ipaddress

    try:
        return int(ipaddress.IPv4Address(text.strip()))
    except ValueError:
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_decimal(text: str) -> bool:
    import re

    return re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text) is not None


def _of(type_: pa.DataType, result: str) -> Callable[..., LibraryFunction]:
    def make(
        name: str, arguments: str, function: Callable[..., Any], about: str, example: str, gives: Any, null: str = _NULL
    ) -> LibraryFunction:
        listed = ", ".join(
            one if ":" in one else f"{one.rstrip('?')}: any{'?' if one.endswith('?') else ''}" for one in arguments.split()
        )
        build = by_text(type_, function)
        return LibraryFunction(f"rsql_{name}", listed, result, build, about, f"rsql_{example}", gives, null=null, loops=True)

    return make


_text, _int, _flag = _of(STRING, "string"), _of(INT32, "int"), _of(BOOLEAN, "boolean")
_long = _of(pa.int64(), "bigint")
_pairs = _of(pa.map_(STRING, STRING), "map<string,string>")

FUNCTIONS = (
    _text(
        "splitindex",
        "text separator index",
        _split_index,
        "A piece of a text; they count from 0.",
        "splitindex('a,b', ',', 1)",
        "b",
    ),
    _text(
        "splitpart",
        "text separator first last?",
        _split_part,
        "Pieces of a text from one number to another; they count from 1.",
        "splitpart('a,b,c', ',', 2, 3)",
        "b,c",
    ),
    _text(
        "substringindex",
        "text separator count",
        _substring_index,
        "The text before so many separators; a negative number counts from the end.",
        "substringindex('a.b.c', '.', 2)",
        "a.b",
    ),
    _text(
        "translate",
        "text characters others",
        _translate,
        "Each of some characters replaced by the one at its place in the other text.",
        "translate('abcab', 'ab', 'x')",
        "xcx",
    ),
    _int(
        "instr",
        "text part position? occurrence?",
        _occurrence,
        "Place of a part, from 0; -1 if there is none.",
        "instr('hello', 'l')",
        2,
    ),
    _int(
        "blink_instr",
        "text part",
        lambda text, part: text.find(part) + 1,
        "Place of a part, from 1; else 0.",
        "blink_instr('hello', 'l')",
        3,
    ),
    _int(
        "charmatchcount",
        "text characters",
        lambda text, other: len(set(text) & set(other)),
        "How many different characters of a text the other has, too.",
        "charmatchcount('hello', 'lo')",
        2,
    ),
    _int("ascii", "text", lambda text: ord(text[0]) if text else None, "Code of the first character.", "ascii('A')", 65),
    _text("chr", "code", _character, "The character of a code.", "chr('65')", "A"),
    _text("soundx", "text", _soundex, "Soundex code.", "soundx('Robert')", "R163"),
    _text("hashcode", "text", _hash_code, "Java's hash code of a text, as a text.", "hashcode('abc')", "96354"),
    _text("md5", "text", _md5, "MD5 of a text, in capitals.", "md5('abc')", "900150983CD24FB0D6963F7D28E17F72"),
    _text(
        "initcap", "text", _initials, "The first letter of each word a capital, the others small.", "initcap('aB cd')", "Ab Cd"
    ),
    _text("urlencode", "text charset?", _url_encode, "A text as a form encodes it for a URL.", "urlencode('a b/')", "a+b%2F"),
    _text(
        "urldecode", "text charset?", _url_decode, "The text that a form has encoded for a URL.", "urldecode('a+b%2F')", "a b/"
    ),
    _text(
        "parse_url",
        "url part key?",
        _url_part,
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO, or the value of a key of QUERY.",
        "parse_url('http://h/p?x=1', 'QUERY', 'x')",
        "1",
        "null if an argument is null, or the URL has no such part",
    ),
    _text(
        "keyvalue",
        "text pairs separator? key?",
        _key_value,
        "The value of a key in a text of pairs: keyvalue(text, key), or with two separators before the key.",
        "keyvalue('a:1;b:2', ';', ':', 'b')",
        "2",
        "null if an argument is null, or there is no such key",
    ),
    _pairs("str_to_map", "text pairs? separator?", _map_of, "Pairs as a map.", "str_to_map('a=1,b=2')", [("a", "1"), ("b", "2")]),
    _pairs(
        "strtomap", "text pairs separator", _map_of, "Pairs as a map.", "strtomap('a:1;b:2', ';', ':')", [("a", "1"), ("b", "2")]
    ),
    _pairs(
        "jsoncreate", "text", _map_of, "Pairs such as name=value as a map.", "jsoncreate('a=1,b=2')", [("a", "1"), ("b", "2")]
    ),
    _text("val", "text", _without_constants, "Texts in single quotes replaced by constants_001 and so on.", "val('a')", "a"),
    _text(
        "backet",
        "text opening? closing?",
        _without_brackets,
        "What stands between two signs replaced by bracket1 and so on.",
        "backet('a [x y] b', '[', ']')",
        "a bracket1 b",
    ),
    _flag(
        "isencoding",
        "text charset other",
        _can_encode,
        "Whether the bytes of a text in one character set are the same text in another.",
        "isencoding('abc', 'utf-8', 'iso-8859-1')",
        True,
    ),
    _flag("is_number", "text", _is_number, "Whether a text has digits only.", "is_number('17')", True),
    _flag("is_decimal", "text", _is_decimal, "Whether a text is a number, with or without decimals.", "is_decimal('-3.7')", True),
    _flag("is_alpha", "text", lambda text: text.isalpha(), "Whether a text has letters only.", "is_alpha('abc')", True),
    _long("ip2long", "address", _address_number, "The number of an IPv4 address.", "ip2long('10.0.0.1')", 167772161),
)
