"""URIs of objects: ``s3://bucket/logs/**/*.gz?region=eu-west-1`` is a glob in a bucket, with options of the connection."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs")
"""Schemes that `pyarrow.fs` opens."""

_QUERY = re.compile(r"\?(?=[a-z_]+=)")
"""Begins the options, the last one of a URI; a question mark alone is a wildcard."""

_NO_OPTIONS = "no_options="
"""Options of a URI whose key has what looks like options: without them, who names an object would say how to connect."""

AZURE = ("abfs", "abfss")
"""Schemes of ``container@account.dfs.core.windows.net``: the container stands where others have a login."""

_URI = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<login>[^/@]*@)?(?P<path>[^?]*.*)", re.DOTALL)


class ObjectPath(NamedTuple):
    """The parts of a URI."""

    scheme: str
    login: str
    """What stands before ``@`` where a login could be; empty without one. For Azure the container."""
    path: str
    """Bucket and key, or a glob of them; for hdfs the host comes first."""
    options: str
    """What follows the question mark, which says how to connect."""

    @classmethod
    def of(cls, uri: str) -> ObjectPath:
        """Divide a URI."""
        address, options = _divide(uri)
        found = _URI.fullmatch(address)
        assert found is not None, uri
        options = "" if options == _NO_OPTIONS else options
        return cls(found["scheme"], (found["login"] or "").rstrip("@"), found["path"], options)

    def uri(self, path: str) -> str:
        """The URI of another path in the same store."""
        options = self.options or (_NO_OPTIONS if _QUERY.search(path) else "")
        return f"{self.scheme}://{self._container}{path}" + (f"?{options}" if options else "")

    @property
    def host(self) -> str:
        """The bucket; for hdfs and Azure the host."""
        return self.path.partition("/")[0]

    @property
    def root(self) -> str:
        """What the file system's paths have in place of the host."""
        return "" if self.scheme == "hdfs" else self.login if self._container else self.host

    def file_system(self) -> Any:
        """The file system of the bucket. Raises OSError and ValueError if it cannot be made."""
        return file_system(self.scheme, f"{self._container}{self.host}", self.options)

    @property
    def _container(self) -> str:
        return f"{self.login}@" if self.names_container else ""

    @property
    def names_container(self) -> bool:
        """Whether what stands before ``@`` is not a login but a container of Azure."""
        return bool(self.login) and self.scheme in AZURE


def is_object(path: str) -> bool:
    """Whether a path is a URI of an object rather than a file of this host."""
    return "://" in path and path.partition("://")[0] in SCHEMES


def without_options(uri: str) -> str:
    """The URI as users know it."""
    return _divide(uri)[0]


def _divide(uri: str) -> tuple[str, str]:
    """The URI without options, and these."""
    at = max((found.start() for found in _QUERY.finditer(uri)), default=len(uri))
    return uri[:at], uri[at + 1 :]


@lru_cache(maxsize=32)
def file_system(scheme: str, host: str, options: str) -> Any:
    """The file system of a bucket; login and region come from the environment, as for the tools of the store. Raises OSError
    and ValueError if it cannot be made."""
    from pyarrow.fs import FileSystem

    opened, _ = FileSystem.from_uri(f"{scheme}://{host}/" + (f"?{options}" if options else ""))
    return opened


def store_of(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path of the object in it."""
    parts = ObjectPath.of(uri)
    return parts.file_system(), f"{parts.root}/{parts.path.partition('/')[2]}"
