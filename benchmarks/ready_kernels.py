"""Opens the grok of a pipeline and parses a row and a batch: prints the seconds, as JSON.

``ready_kernels PIPELINE [apart]``; with ``apart`` kernels are loaded before, as Spark's worker daemon does it.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa

from benchmarks import data
from benchmarks.contenders import PIPELINES
from benchmarks.expressions import grok_patterns
from etl.api import OFFSET, ArrowStep
from etl.catalogue import installed
from etl.scanner.warm_up import warm_up

ROWS = 2_000
LOGS = {"w1": data.OPENSSH, "apache": data.APACHE, "sshd": data.OPENSSH}


def main() -> None:
    """Everything that a worker has imported by then is imported first."""
    pipeline = sys.argv[1]
    grok = installed().families["step"]["grok"]
    began = time.perf_counter()
    import etl.columns.kernels  # noqa: F401

    imported = time.perf_counter()
    if sys.argv[2:]:
        warm_up()
    set_up = time.perf_counter()
    lines = LOGS[pipeline].once()[:ROWS]
    batch = pa.record_batch({"message": pa.array(lines), OFFSET: pa.array(range(len(lines)), pa.int64())})
    patterns = grok_patterns(PIPELINES / f"{pipeline}.yaml")
    loaded, cpu = time.perf_counter(), time.process_time()
    step = grok.model_validate({"type": "grok", "patterns": patterns, "on_error": "drop"})
    assert isinstance(step, ArrowStep)
    parse = step.open(batch.schema)
    parse(batch.slice(0, 1))
    ready, used = time.perf_counter(), time.process_time() - cpu
    parse(batch)
    done = time.perf_counter()
    seconds = {"imported": imported - began, "set_up": set_up - imported, "row": ready - loaded, "batch": done - ready}
    print(json.dumps({**seconds, "cpu": used}))


if __name__ == "__main__":
    main()
