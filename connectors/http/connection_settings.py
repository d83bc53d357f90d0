"""Settings of an HTTP client: servers, credentials and limits."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, SecretStr

from connectors.shared.tls import ClientTls
from etl.api import Finding

MAX_RESPONSE_BYTES = 1 << 29
"""Largest response that is read unless an option sets another limit, in bytes."""

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]

_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Servers that can replace each other, and what every request contains. Hashable; its repr shows no secret."""

    urls: tuple[str, ...]
    timeout: float = 60.0
    """Seconds for a request and its whole response."""

    tls: ClientTls | None = None
    headers: tuple[tuple[str, SecretStr], ...] = ()
    compressed: bool = False
    """Whether request bodies are sent as gzip, and responses may be gzip."""

    max_bytes: int = MAX_RESPONSE_BYTES
    """Largest response that is read, in bytes, after decompression."""


def login_headers(user: str | None, password: SecretStr | None, token: SecretStr | None) -> dict[str, SecretStr]:
    """Return the Authorization header of a token (RFC 6750), or of a user with a password (RFC 7617), if one is given."""
    if token is not None:
        return {"Authorization": SecretStr(f"Bearer {token.get_secret_value()}")}
    if user is None:
        return {}
    secret = password.get_secret_value() if password else ""
    return {"Authorization": SecretStr("Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode())}


def check_secrets(secrets: Mapping[str, SecretStr | None]) -> Iterator[Finding]:
    """Yield findings for secrets that a header cannot contain, by option."""
    for name, secret in secrets.items():
        if secret is not None and not _HEADER_TEXT.fullmatch(secret.get_secret_value()):
            yield Finding(
                "bad-header", f"{name} is empty or has characters that a header cannot contain, such as a newline", (name,)
            )


def check_headers(headers: Mapping[str, SecretStr]) -> Iterator[Finding]:
    """Yield the findings of `check_secrets` for headers, under the option ``headers``."""
    for finding in check_secrets(headers):
        yield replace(finding, path=("headers", *finding.path))


def check_login(user: str | None, password: SecretStr | None, others: Mapping[str, SecretStr | None]) -> Iterator[Finding]:
    """Yield findings for a password without a user, and for several kinds of credentials."""
    if password is not None and user is None:
        yield Finding("missing-user", "password is given without user", ("password",), "add user: …")
    ways = [name for name, value in {"user": user, **others}.items() if value is not None]
    for name in ways[1:]:
        yield Finding("several-logins", f"{' and '.join(ways)} are given, but only one is used", (name,), "keep one of them")
