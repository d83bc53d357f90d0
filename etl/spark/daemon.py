"""Spark's worker daemon with Arrow loaded before it forks, so that all workers share its pages."""

import os
import runpy

import pyarrow
import pyarrow.compute  # noqa: F401

if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "ARROW_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    runpy.run_module("pyspark.daemon", run_name="__main__")
