"""Objects of S3 that another tool reads → options of the source ``file``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from etl.migration.given_options import GivenOptions

_WILDCARDS = re.compile(r"[*?\[]")

_UNQUOTED = "${}:?-"
"""Signs of an option that stay as they are: those of a variable of the environment, and what is in an address."""

LOGIN = "the login comes from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role of the machine"


def object_glob(bucket: str, prefix: str = "") -> str:
    """The glob of the objects of a bucket whose keys begin with a prefix."""
    shown = _WILDCARDS.sub(r"[\g<0>]", prefix)
    return f"s3://{bucket}/{shown}{'**' if not shown or shown.endswith('/') else '*/**'}"


def with_connection(path: str, region: Any, endpoint: Any) -> str:
    """The glob with the region and the address of the server, where they are given."""
    scheme, separator, host = str(endpoint or "").rpartition("://")
    options = {"region": region, "endpoint_override": host, "scheme": scheme if separator else ""}
    given = "&".join(f"{name}={quote(str(value), safe=_UNQUOTED)}" for name, value in options.items() if value)
    return f"{path}?{given}" if given else path


def object_folder(bucket: str, prefix: str) -> str:
    """The folder of objects whose keys begin with a prefix: what follows its last slash begins their names there."""
    folder = prefix if prefix.endswith("/") or not prefix else f"{prefix.rpartition('/')[0]}/".lstrip("/")
    return f"s3://{bucket}/{folder.lstrip('/')}"


def leave_connection(given: GivenOptions) -> None:
    """Note region and address of a sink, which reads them from the environment."""
    for name, variable in (("region", "AWS_REGION"), ("endpoint", "AWS_ENDPOINT_URL")):
        if given.get(name):
            given.leave(name, f"{variable}={given[name]} in the environment says it")


def leave_login(given: GivenOptions, names: Iterable[str]) -> None:
    """Note the options that say who logs in."""
    for name in names:
        if name in given:
            given.leave(name, LOGIN)
