"""Parts of URLs as Java's ``URL`` names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.bound_node import BoundNode
from etl.expressions.library.kernels import by_value, constant, usually_on_arrow
from etl.expressions.widening import STRING

_URL = re.compile(
    r"(?P<protocol>[A-Za-z][A-Za-z0-9+.\-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<ref>.*))?",
    re.DOTALL,
)
_PROTOCOLS = frozenset(("http", "https", "ftp", "file", "jar", "mailto", "jrt"))
"""Schemes that Java knows; a URL with another scheme is invalid."""


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """A part of a URL; None if the URL is invalid or does not have the part."""
    found = _URL.fullmatch(url.strip())
    if found is None or found["protocol"].lower() not in _PROTOCOLS:
        return None
    authority = found["authority"] or ""
    user, at, address = authority.rpartition("@")
    query = found["query"]
    parts = {
        "HOST": re.sub(r":\d*$", "", address) if address else "",
        "PATH": found["path"],
        "QUERY": query,
        "REF": found["ref"],
        "PROTOCOL": found["protocol"].lower(),
        "AUTHORITY": authority or None,
        "FILE": found["path"] + (f"?{query}" if query is not None else ""),
        "USERINFO": user if at else None,
    }
    value = parts.get(part)
    if key is None:
        return value
    match = re.search(f"(?:&|^){re.escape(key)}=([^&]*)", query or "") if part == "QUERY" and query else None
    return match[1] if match else None


_PLAIN = r"^[!-~]*$"
"""URLs of which Arrow's patterns find the same parts: of ASCII, without spaces and control characters."""

_PARTS = (
    r"^(?P<protocol>[A-Za-z][A-Za-z0-9+.\-]*):(?:(?P<slashes>//)(?P<authority>[^/?#]*))?(?P<path>[^?#]*)"
    r"(?P<query>\?[^#]*)?(?P<ref>#.*)?$"
)
"""Each with its sign: Arrow gives an empty text for a group that takes no part in the match."""


def parse_url_of(url: BoundNode, part: BoundNode, key: BoundNode | None = None) -> BoundNode:
    """`parse_url` of columns; on Arrow where part and key are constants."""
    (is_known, name), (is_key_known, key_name) = constant(part), (True, None) if key is None else constant(key)
    plain = key_name is None or (isinstance(key_name, str) and bool(re.fullmatch(_PLAIN, key_name)))
    if not (is_known and isinstance(name, str) and is_key_known and plain and (key is None or key_name is not None)):
        return by_value(STRING, parse_url)(url, part, *(() if key is None else (key,)))
    return usually_on_arrow(STRING, partial(_parts, name, key_name), lambda text: parse_url(text, name, key_name))(url)


def _parts(part: str, key: str | None, urls: pa.Array) -> tuple[pa.Array, Any]:
    """A part of each URL, and for which this is right."""
    found = pc.extract_regex(urls, _PARTS)
    is_url = pc.is_in(pc.utf8_lower(pc.struct_field(found, "protocol")), pa.array(sorted(_PROTOCOLS)))
    part_of = _value_of_key if key is not None else _COLUMNS.get(part)
    if part_of is None or (key is not None and part != "QUERY"):
        values = pa.nulls(len(urls), STRING)
    else:
        values = part_of(lambda name: pc.struct_field(found, name), key or "")
    is_plain = pc.fill_null(pc.match_substring_regex(urls, _PLAIN), True)
    return pc.if_else(is_url, values, pa.scalar(None, STRING)), is_plain.to_numpy(zero_copy_only=False)


Groups = Callable[[str], pa.Array]
"""The groups of `_PARTS` by their names."""


def _host(group: Groups, key: str) -> pa.Array:
    return pc.replace_substring_regex(group("authority"), r"^.*@|:[0-9]*$", "")


def _without_sign(name: str) -> Callable[[Groups, str], pa.Array]:
    """A group without its first character, null where it is empty."""

    def part(group: Groups, key: str) -> pa.Array:
        return pc.if_else(pc.equal(group(name), ""), pa.scalar(None, STRING), pc.utf8_slice_codeunits(group(name), 1))

    return part


def _authority(group: Groups, key: str) -> pa.Array:
    return pc.if_else(pc.equal(group("authority"), ""), pa.scalar(None, STRING), group("authority"))


def _user(group: Groups, key: str) -> pa.Array:
    return pc.struct_field(pc.extract_regex(group("authority"), "^(?P<user>.*)@[^@]*$"), "user")


def _file(group: Groups, key: str) -> pa.Array:
    return pc.binary_join_element_wise(group("path"), group("query"), "")


def _value_of_key(group: Groups, key: str) -> pa.Array:
    return pc.struct_field(pc.extract_regex(group("query"), rf"(?:^\?|&){re.escape(key)}=(?P<value>[^&]*)"), "value")


_COLUMNS: dict[str, Callable[[Groups, str], pa.Array]] = {
    "HOST": _host,
    "PATH": lambda group, key: group("path"),
    "QUERY": _without_sign("query"),
    "REF": _without_sign("ref"),
    "PROTOCOL": lambda group, key: pc.utf8_lower(group("protocol")),
    "AUTHORITY": _authority,
    "FILE": _file,
    "USERINFO": _user,
}
"""Part → how it is made of the groups."""
