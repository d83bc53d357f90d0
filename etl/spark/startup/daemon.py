"""Spark's worker daemon, which loads all modules before it forks workers: they start at once and share its memory."""

import gc
import runpy

from etl.lean import obey

if __name__ == "__main__":
    from etl.spark.startup.worker_preload import prefer_installed_pyspark, prepare

    prefer_installed_pyspark()
    obey()

    from etl.columns.compiler_memory import shed_compiler
    from etl.segment.preopened_steps import open_steps
    from etl.spark.reports.log_relay import relay_worker_logs

    prepare()
    relay_worker_logs()
    if open_steps():
        shed_compiler()
    gc.freeze()  # otherwise a worker's garbage collector would touch, and so copy, the pages
    runpy.run_module("pyspark.daemon", run_name="__main__")
