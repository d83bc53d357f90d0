"""Loading what every worker needs, once, in the process that workers are forked from."""

from __future__ import annotations

from functools import cache


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
