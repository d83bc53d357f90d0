"""Signatures of requests, for brokers with access control (ACL 1 and 2)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import NamedTuple


class Credentials(NamedTuple):
    """A user's name (access key) and password (secret key)."""

    user: str
    password: str

    def sign(self, fields: dict[str, str], body: bytes | memoryview = b"") -> dict[str, str]:
        """Return the fields with the user and an HMAC-SHA1 over all values, ordered by field name, and the body."""
        named = {**fields, "AccessKey": self.user}
        text = "".join(named[name] for name in sorted(named)).encode()
        mac = hmac.new(self.password.encode(), text, hashlib.sha1)
        mac.update(body)
        return {**named, "Signature": base64.b64encode(mac.digest()).decode()}

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, '***')"
