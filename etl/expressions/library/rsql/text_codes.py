"""Script functions of hashes, URLs, codes of characters, IPv4 addresses, and tests of texts. Python computes them for each
distinct text of a batch.
"""

from __future__ import annotations

from etl.expressions.library.rsql.text_parts import boolean_function, int_function, long_function, text_function, whole_number


def _soundex(text: str) -> str:
    """The first letter and three digits, for words that sound alike."""
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
    """A part of a URL by its name in Hive's ``parse_url``; of QUERY the value of a key."""
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


def _can_encode(text: str, source: str, target: str) -> bool:
    """Whether the bytes in one encoding are the same text in the other."""
    try:
        return text.encode(source).decode(target, "replace") == text
    except (LookupError, UnicodeError):
        return False


def _character(code: str) -> str | None:
    number = whole_number(code)
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


FUNCTIONS = (
    int_function("ascii", "text", lambda text: ord(text[0]) if text else None, "Code of the first character.", "ascii('A')", 65),
    text_function("chr", "code", _character, "The character of a code.", "chr('65')", "A"),
    text_function("soundx", "text", _soundex, "Soundex code.", "soundx('Robert')", "R163"),
    text_function("hashcode", "text", _hash_code, "Java's hash code of a text, as a text.", "hashcode('abc')", "96354"),
    text_function("md5", "text", _md5, "MD5 of a text, in capitals.", "md5('abc')", "900150983CD24FB0D6963F7D28E17F72"),
    text_function(
        "urlencode", "text charset?", _url_encode, "A text as a form encodes it for a URL.", "urlencode('a b/')", "a+b%2F"
    ),
    text_function(
        "urldecode", "text charset?", _url_decode, "The text that a form has encoded for a URL.", "urldecode('a+b%2F')", "a b/"
    ),
    text_function(
        "parse_url",
        "url part key?",
        _url_part,
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO, or the value of a key of QUERY.",
        "parse_url('http://h/p?x=1', 'QUERY', 'x')",
        "1",
        "null if an argument is null, or the URL has no such part",
    ),
    boolean_function(
        "isencoding",
        "text charset other",
        _can_encode,
        "Whether the bytes of a text in one character set are the same text in another.",
        "isencoding('abc', 'utf-8', 'iso-8859-1')",
        True,
    ),
    boolean_function("is_number", "text", _is_number, "Whether a text has digits only.", "is_number('17')", True),
    boolean_function(
        "is_decimal", "text", _is_decimal, "Whether a text is a number, with or without decimals.", "is_decimal('-3.7')", True
    ),
    boolean_function(
        "is_alpha", "text", lambda text: text.isalpha(), "Whether a text has letters only.", "is_alpha('abc')", True
    ),
    long_function("ip2long", "address", _address_number, "The number of an IPv4 address.", "ip2long('10.0.0.1')", 167772161),
)
