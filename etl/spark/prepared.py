"""What every worker needs, made ready once in the process that workers are forked from."""

from __future__ import annotations

from functools import cache


@cache
def prepare() -> None:
    """Load kernels; a fork of a process that did so has them."""
    import pyarrow.compute  # noqa: F401

    import etl.segment.segment_run
    import etl.spark.splits  # noqa: F401
    from etl.columns.compiler_memory import shed_compiler
    from etl.scanner.warm import compile_apart, warm

    compile_apart()
    warm()
    shed_compiler()
