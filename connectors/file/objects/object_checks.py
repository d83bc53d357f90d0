"""Checks of a glob of objects before a run, and words about it after one that read nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from connectors.file.objects.object_path import AZURE, ObjectPath, without_options
from connectors.file.objects.object_scan import ObjectScan, list_objects
from connectors.file.reading.globs import GLOB_CHARACTERS, matches_parts
from etl.api import Finding


def check_objects(uri: str) -> Iterator[Finding]:
    """Yield findings about a URI that need no connection."""
    parts = ObjectPath.of(uri)
    if parts.login and (":" in parts.login or not parts.names_container):
        shown = f"{parts.scheme}://…@{parts.path}"
        hint = "give it in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the store's own variables"
        yield Finding("login-in-path", f"{shown!r} has a login, which would be stored with the offsets", ("path",), hint)
    bucket, _, key = parts.path.partition("/")
    needs_container = parts.scheme in AZURE and not parts.login
    if not bucket or not key or GLOB_CHARACTERS.search(bucket) or needs_container:
        container = "container@account.dfs.core.windows.net" if parts.scheme in AZURE else "bucket"
        hint = f"write {parts.scheme}://{container}/folder/*.log"
        yield Finding("no-bucket", f"{without_options(uri)!r} does not name a bucket and the objects in it", ("path",), hint)


def probe_objects(uri: str, exclude: Sequence[str]) -> Iterator[Finding]:
    """Yield findings about a store: it cannot be listed, or has no such object."""
    shown = without_options(uri)
    try:
        found = next(list_objects(uri, exclude), None)
    except (OSError, ValueError) as error:
        hint = "check the address, the region and the login in the environment"
        yield Finding("unreachable", f"{shown} cannot be listed: {first_line(error)}", ("path",), hint)
        return
    if found is None:
        yield Finding("no-files", f"no object matches {shown!r}", ("path",), "a run waits for objects")


def describe_objects(scan: ObjectScan) -> str:
    """``2 objects match 's3://logs/*.gz'``, or why they cannot be counted."""
    shown = without_options(scan.uri)
    try:
        count = len(scan.list_objects())
    except (OSError, ValueError) as error:
        return f"{shown} cannot be listed: {first_line(error)}"
    return f"{count:,} object{' matches' if count == 1 else 's match'} {shown!r}" if count else f"no object matches {shown!r}"


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def is_object_matched(target: str, uri: str, exclude: Sequence[str]) -> bool:
    """Return whether a glob of objects would find an object."""
    one, pattern = ObjectPath.of(target), ObjectPath.of(uri)
    excluded = any(fnmatchcase(one.path, name) or fnmatchcase(one.path.rpartition("/")[2], name) for name in exclude)
    return one.scheme == pattern.scheme and not excluded and matches_parts(one.path.split("/"), pattern.path.split("/"))
