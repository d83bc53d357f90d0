"""Loading what every worker needs, once, in the process that workers are forked from."""

from __future__ import annotations

import sys
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path

_VERSION = "pyspark/version.py"


def prefer_installed_pyspark() -> None:
    """Move Spark's zip files of pyspark and py4j to the end of ``sys.path`` where the environment has the same version installed.

    Spark puts its zip files first. They hold no byte code: each daemon of workers would compile what it imports, in 0.4 CPU s.
    """
    for path in [Path(entry) for entry in sys.path if entry.endswith("/pyspark.zip")]:
        with suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            if archive.read(_VERSION) in _installed_versions():
                sys.path.sort(key=lambda entry: Path(entry).parent == path.parent and entry.endswith(".zip"))


def _installed_versions() -> list[bytes]:
    """The contents of the version files of pyspark in the folders of ``sys.path``."""
    return [file.read_bytes() for file in (Path(entry, _VERSION) for entry in sys.path) if file.is_file()]


@cache
def prepare() -> None:
    """Load modules and kernels, which forked workers inherit."""
    import pyarrow.compute  # noqa: F401

    import etl.segment.segment_run
    import etl.spark.splits  # noqa: F401
    from etl.columns.compiler_memory import shed_compiler
    from etl.scanner.warm_up import compile_in_subprocess, warm_up

    compile_in_subprocess()
    warm_up()
    shed_compiler()
