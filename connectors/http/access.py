"""Who asks whom, and how: all that a client needs to know, as a value."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from connectors.tls import ClientTls
from etl.api import Finding

MOST_BYTES = 1 << 29
"""The largest answer that is read where no option sets another limit."""

_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True)
class Access:
    """Servers that may answer each other's requests, and what every request carries. Hashable; shows no secret."""

    urls: tuple[str, ...]
    timeout: float = 60.0
    """Seconds for a request and the whole of its answer."""

    tls: ClientTls | None = None
    headers: tuple[tuple[str, SecretStr], ...] = ()
    compressed: bool = False
    """Whether bodies go as gzip, and may come so."""

    max_bytes: int = MOST_BYTES
    """The largest answer that is read, unpacked."""


def basic(user: str, password: SecretStr | None) -> SecretStr:
    """The header of a user with a password (RFC 7617)."""
    secret = password.get_secret_value() if password else ""
    return SecretStr("Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode())


def bearer(token: SecretStr) -> SecretStr:
    """The header of a token (RFC 6750)."""
    return SecretStr(f"Bearer {token.get_secret_value()}")


def check_secrets(secrets: Mapping[str, SecretStr | None]) -> Iterator[Finding]:
    """Secrets that no header takes, by option."""
    for name, secret in secrets.items():
        if secret is not None and not _HEADER_TEXT.fullmatch(secret.get_secret_value()):
            yield Finding("bad-header", f"{name} is empty or has characters that no header takes, such as a newline", (name,))


def check_login(user: str | None, password: SecretStr | None, others: Mapping[str, SecretStr | None]) -> Iterator[Finding]:
    """A password of nobody, and several ways to say who one is."""
    if password is not None and user is None:
        yield Finding("missing-user", "password is given, and no user", ("password",), "add user: …")
    ways = [name for name, value in {"user": user, **others}.items() if value is not None]
    for name in ways[1:]:
        yield Finding("several-logins", f"{' and '.join(ways)} are given, and one is used", (name,), "leave one of them")
