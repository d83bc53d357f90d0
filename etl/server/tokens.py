"""Bearer tokens of a server: a file with the hash and the role of each."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from etl.api import EtlError

Role: TypeAlias = Literal["read", "write"]

_LINE = re.compile(r"(?P<role>\w+) +(?P<digest>[0-9a-f]{64}) +(?P<name>\S.*)", re.ASCII)


def hash_token(token: str) -> str:
    """What the file has of a token. Tokens are 256 random bits, so that a plain hash cannot be searched."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A token."""
    return f"sluice_{secrets.token_urlsafe(32)}"


def token_line(role: Role, token: str, name: str) -> str:
    """The line of the file for a token."""
    return f"{role} {hash_token(token)} {name}\n"


class OneToken:
    """The token of a server for one person; nothing of it is on disk."""

    def __init__(self, token: str) -> None:
        self._hash = hash_token(token)

    def role(self, token: str) -> Role | None:
        """The role of a token; None for another one."""
        return "write" if hmac.compare_digest(hash_token(token), self._hash) else None


class Tokens:
    """The tokens of a file, with a line ``ROLE SHA256 NAME`` each. The file is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        """Raises EtlError for a file that cannot be read, or has another line."""
        self._path = path
        self._lock = threading.Lock()
        self._stat: tuple[int, ...] | None = None
        self._roles: Mapping[str, Role] = {}
        self._refresh()

    def role(self, token: str) -> Role | None:
        """The role of a token; None for one that is not in the file."""
        with self._lock:
            try:
                self._refresh()
            except EtlError:
                return None  # nobody enters through a file that is half written
        return self._roles.get(hash_token(token))

    def __len__(self) -> int:
        return len(self._roles)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            signature = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if signature != self._stat:
                self._roles = dict(_read_lines(self._path))
                self._stat = signature
        except (OSError, UnicodeDecodeError) as error:
            raise EtlError(f"cannot read the file of tokens {self._path}: {error}") from error


def _read_lines(path: Path) -> list[tuple[str, Role]]:
    found: list[tuple[str, Role]] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        role = next((role for role in get_args(Role) if match and match["role"] == role), None)
        if match is None or role is None:
            raise EtlError(f"{path}:{number}: not a line of a token; `etl token` writes them: read|write SHA256 NAME")
        found.append((match["digest"], role))
    return found
