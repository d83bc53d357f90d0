"""Spark's worker daemon with all that tasks need loaded before it forks: workers start at once and share its pages."""

import gc
import runpy
from contextlib import suppress

from etl.lean import obey

if __name__ == "__main__":
    obey()

    import pyarrow.compute  # noqa: F401

    import etl.segment.runner
    import etl.spark.splits  # noqa: F401
    from etl.api import EtlError
    from etl.catalogue import installed
    from etl.scanner.shed import shed_compiler
    from etl.scanner.warm import compile_apart, warm

    compile_apart()
    warm()
    shed_compiler()
    with suppress(EtlError):  # a component that cannot be loaded is told of by the driver
        installed()
    gc.freeze()  # what is loaded stays: a worker's collector that looks at it would copy its pages
    runpy.run_module("pyspark.daemon", run_name="__main__")
