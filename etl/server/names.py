"""Names of pipelines on a server: ``namespace/name``, as their files are called below the folder of jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from etl.api import EtlError

DEFAULT_NAMESPACE = "default"
"""The namespace of a name that has none."""

SUFFIXES = (".yaml", ".yml", ".sql")
"""Suffixes of pipeline files."""

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
"""A name that is safe in a path, a URL, a Kafka transaction and a metric."""

_PART = re.compile(NAME_PATTERN, re.ASCII)


class PipelineName(NamedTuple):
    """Where a pipeline is in the folder of jobs."""

    namespace: str
    name: str

    @staticmethod
    def parse(text: str) -> PipelineName:
        """``security/ssh``, or ``ssh`` in the namespace `DEFAULT_NAMESPACE`. Raises EtlError."""
        namespace, _, name = text.rpartition("/")
        return PipelineName.of(namespace or DEFAULT_NAMESPACE, name)

    @staticmethod
    def of(namespace: str, name: str) -> PipelineName:
        """Both parts. Raises EtlError for parts that are not names."""
        for part, what in ((namespace, "namespace"), (name, "pipeline")):
            if not _PART.fullmatch(part):
                raise EtlError(
                    f"{part[:80]!r} is not the name of a {what}: names have letters, digits, '_', '-' and '.', begin with a "
                    "letter or digit, and have at most 63 characters"
                )
        if name.endswith(("_test", *SUFFIXES)):
            raise EtlError(f"{name!r} is not the name of a pipeline: it is the name of its file, without the suffix, or of tests")
        return PipelineName(namespace, name)

    @staticmethod
    def of_file(path: Path) -> PipelineName:
        """The name of a file below the folder of jobs. Raises EtlError."""
        return PipelineName.of(path.parent.name, path.stem)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
