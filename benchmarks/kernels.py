"""The engine's inner loops in this process, on one thread: prints seconds a million lines, as JSON."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from benchmarks import data
from connectors import json_lines
from connectors.file.charset import Charset
from connectors.file.lines import Cutter
from etl.api import ArrowStep
from etl.catalogue import installed

LINES = 400_000
TIMES = 5
PATTERN = r"^%{SYSLOGTIMESTAMP:timestamp} %{HOSTNAME:host} sshd\[%{POSINT:pid}\]: %{GREEDYDATA:message}"


def main() -> None:
    """Measure each kernel on what the one before it made."""
    text = data.w1(LINES).read_bytes()
    batches = _cut(text)
    grok = installed().families["step"]["grok"].model_validate({"type": "grok", "patterns": [PATTERN]})
    assert isinstance(grok, ArrowStep)
    parse = grok.open(batches[0].schema)
    parsed = [parse(batch).events for batch in batches]
    kernels: dict[str, Callable[[], object]] = {
        "cut": lambda: _cut(text),
        "grok": lambda: [parse(batch) for batch in batches],
        "json": lambda: [json_lines.encode(batch) for batch in parsed],
    }
    lines = sum(batch.num_rows for batch in batches)
    print(json.dumps({name: [lines / seconds for seconds in _timed(kernel)] for name, kernel in kernels.items()}))


def _cut(text: bytes) -> Sequence[pa.RecordBatch]:
    return list(Cutter(Charset("utf-8"), 1 << 20).lines(io.BytesIO(text).readinto, 0))


def _timed(kernel: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(TIMES):
        began = time.process_time()
        kernel()
        times.append(time.process_time() - began)
    return times


if __name__ == "__main__":
    main()
