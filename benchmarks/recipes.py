"""The recipes, each on its own sample: what reading a format costs."""

from __future__ import annotations

import json
import sys

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "Recipes, one core"
ABOUT = (
    "Lines a CPU second of each recipe's steps before the first that needs Spark, over the lines of its sample repeated to "
    "{lines:,}, in one process with a worker's settings, without reading files and writing output; the best of {times} after a "
    "first. The parser `xml` has no recipe: it reads a Windows event of {elements} elements, an event at a time, for only a "
    "parser of XML knows where an element ends."
)


def run(settings: Settings) -> Result:
    """One process, recipe by recipe."""
    folder = fresh("recipes")
    _, out, _ = measure.run([sys.executable, "-m", "benchmarks.recipes_kernels"], folder, env=WORKER_ENVIRONMENT)
    found = json.loads(out)
    rows = [Row(name, "lines/CPU s", [speed]) for name, speed in sorted(found["speed"].items(), key=lambda one: -one[1])]
    for row in rows:
        print(f"  {row.label}: {row.median:,.0f} lines/CPU s", file=sys.stderr, flush=True)
    return Result("recipes", TITLE, ABOUT.format(**found), rows)
