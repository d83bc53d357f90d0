"""IP addresses as an expression for the scanner, without zone: the values of `source.ip`.

Source: RFC 4291, section 2.2; an IPv6 address has eight groups, ``::`` stands for one or more that are zero.
"""

from __future__ import annotations

from collections.abc import Iterator

GROUPS = 8

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_DOTTED = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_GROUP = "[0-9A-Fa-f]{1,4}"


def _shortened_forms() -> Iterator[str]:
    """Addresses with ``::``, by the number of groups before it."""
    for left in range(GROUPS - 1):
        right = GROUPS - 1 - left
        begin = f"{_GROUP}(?::{_GROUP}){{{left - 1}}}::" if left else "::"
        if right >= 2:
            yield f"{begin}(?:{_GROUP}:){{0,{right - 2}}}{_DOTTED}"
        yield f"{begin}(?:{_GROUP}(?::{_GROUP}){{0,{right - 1}}})?"
    yield f"{_GROUP}(?::{_GROUP}){{{GROUPS - 2}}}::"


_FULL = (f"(?:{_GROUP}:){{{GROUPS - 1}}}{_GROUP}", f"(?:{_GROUP}:){{{GROUPS - 2}}}{_DOTTED}")

IP = f"(?:{'|'.join([_DOTTED, *_FULL, *_shortened_forms()])})"
"""An IPv4 or IPv6 address, wherever it ends."""

ZONE = r"(?:%[0-9A-Za-z._~\-]+)?"
"""The zone of a link-local IPv6 address: ``fe80::1%eth0``."""
