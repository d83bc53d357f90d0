"""Spark's worker daemon with all that tasks need loaded before it forks: workers start at once and share its pages."""

import gc
import runpy

from etl.lean import obey

if __name__ == "__main__":
    obey()

    from etl.columns.compiler_memory import shed_compiler
    from etl.segment.preopened_steps import open_steps
    from etl.spark.prepared import prepare
    from etl.spark.relay import send

    prepare()
    send()
    if open_steps():
        shed_compiler()
    gc.freeze()  # what is loaded stays: a worker's collector that looks at it would copy its pages
    runpy.run_module("pyspark.daemon", run_name="__main__")
