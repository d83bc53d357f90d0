"""Errors of Spark's JVM without PySpark's conversion, which asks the JVM a dozen questions about each exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def java_errors() -> Iterator[None]:
    """Errors of the JVM are those of py4j."""
    from py4j import java_gateway, protocol

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
        yield


def error_of(session: SparkSession, query: str, computed: bool = False) -> str | None:
    """The message of the error that Spark raises when it analyses a query, or computes it; None without one."""
    from py4j.protocol import Py4JJavaError

    with java_errors():
        try:
            frame = session._jsparkSession.sql(query)
            if computed:
                frame.collectAsList()
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
    return None
