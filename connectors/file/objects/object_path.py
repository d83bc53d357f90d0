"""URIs of objects: ``s3://bucket/logs/**/*.gz?region=eu-west-1`` is a glob in a bucket, with options of the connection."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs")
"""Schemes that `pyarrow.fs` opens."""

_QUERY = re.compile(r"\?(?=[a-z_]+=)")
"""Begins the options; a question mark alone is a wildcard."""

_URI = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<login>[^/@]*@)?(?P<path>[^?]*.*)", re.DOTALL)


class ObjectPath(NamedTuple):
    """The parts of a URI."""

    scheme: str
    login: str
    """What stands before ``@`` where a login could be; empty without one."""
    path: str
    """Bucket and key, or a glob of them; for hdfs the host comes first."""
    options: str
    """What follows the question mark, which says how to connect."""

    @classmethod
    def of(cls, uri: str) -> ObjectPath:
        """Divide a URI."""
        place, *options = _QUERY.split(uri, maxsplit=1)
        found = _URI.fullmatch(place)
        assert found is not None, uri
        return cls(found["scheme"], (found["login"] or "").rstrip("@"), found["path"], options[0] if options else "")

    def uri(self, path: str) -> str:
        """The URI of another path in the same store."""
        return f"{self.scheme}://{path}" + (f"?{self.options}" if self.options else "")

    @property
    def is_object_store(self) -> bool:
        """Whether the scheme is one of `SCHEMES`."""
        return self.scheme in SCHEMES


def is_object(path: str) -> bool:
    """Whether a path is a URI of an object rather than a file of this host."""
    return "://" in path and path.partition("://")[0] in SCHEMES


def without_options(uri: str) -> str:
    """The URI as users know it."""
    return _QUERY.split(uri, maxsplit=1)[0]


@lru_cache(maxsize=32)
def file_system(scheme: str, bucket: str, options: str) -> Any:
    """The file system of a bucket; login and region come from the environment, as for the tools of the store. Raises OSError
    and ValueError if it cannot be made."""
    from pyarrow.fs import FileSystem

    opened, _ = FileSystem.from_uri(ObjectPath(scheme, "", bucket, options).uri(f"{bucket}/"))
    return opened


def store_of(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path of the object in it."""
    parts = ObjectPath.of(uri)
    bucket, _, key = parts.path.partition("/")
    system = file_system(parts.scheme, bucket, parts.options)
    return system, f"/{key}" if parts.scheme == "hdfs" else f"{bucket}/{key}"
