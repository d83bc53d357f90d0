"""The engine's inner loops in this process, on one thread, and RE2 and ``re`` beside them: prints lines a CPU second, as JSON."""

from __future__ import annotations

import io
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import apache, sshd, w1
from benchmarks.expressions import grok_patterns
from benchmarks.workload import Workload
from connectors.shared import json_lines
from connectors.shared.lines.charset import Charset
from connectors.shared.lines.line_cutter import LineCutter
from etl.api import ArrowStep, Outcome
from etl.catalogue import installed

LINES = 400_000
SHORT = 40_000
"""For what is slow."""

TIMES = 5
BLOCK_BYTES = 1 << 20
WORKLOADS = (w1.WORKLOAD, apache.WORKLOAD, sshd.WORKLOAD)


def main() -> None:
    """All of them, a kernel at a time."""
    found: dict[str, list[float]] = dict(_lines())
    for workload in WORKLOADS:
        found |= dict(_patterns(workload))
    print(json.dumps(found))


def _lines() -> Iterator[tuple[str, list[float]]]:
    """Cutting and encoding, on the data of W1."""
    text, batches = _cut_log(w1.WORKLOAD, LINES)
    parse = _opened(w1.WORKLOAD, batches[0].schema)
    parsed = [parse(batch).events for batch in batches]
    lines = sum(batch.num_rows for batch in batches)
    yield "cut", _rates(lambda: deque(_cutting(text), maxlen=0), lines)
    yield "json", _rates(lambda: [json_lines.encode(batch) for batch in parsed], lines)


def _patterns(workload: Workload) -> Iterator[tuple[str, list[float]]]:
    """A pipeline's grok, and its expressions by others."""
    _, batches = _cut_log(workload, LINES)
    parse = _opened(workload, batches[0].schema)
    lines = sum(batch.num_rows for batch in batches)
    parse(batches[0])  # compiled and, where states come lazily, warm
    yield f"{workload.name}, grok", _rates(lambda: [parse(batch) for batch in batches], lines)
    _, batches = _cut_log(workload, SHORT)
    texts = [batch.column("message").cast(pa.string()) for batch in batches]
    lines = sum(len(text) for text in texts)
    patterns = workload.work["patterns"]
    for name, kind in (("RE2", "re2"), ("RE2 simple", "named")):
        yield f"{workload.name}, {name}", _rates(partial(_re2, [pattern[kind] for pattern in patterns], texts), lines)
    compiled = [re.compile(pattern["re"], re.ASCII).search for pattern in patterns]
    strings = [value for text in texts for value in text.to_pylist()]
    yield f"{workload.name}, re", _rates(lambda: _re(compiled, strings), lines)


def _re2(patterns: Sequence[str], texts: Sequence[pa.StringArray]) -> None:
    """Each pattern on the rows that the earlier ones left."""
    for text in texts:
        left = text
        for number, pattern in enumerate(patterns, 1):
            found = pc.extract_regex(left, pattern)
            left = left.filter(pc.invert(found.is_valid())) if number < len(patterns) else left


def _re(patterns: Sequence[Callable[[str], re.Match[str] | None]], texts: Sequence[str]) -> None:
    """Each line's groups; nothing is made of them."""
    for text in texts:
        for search in patterns:
            if found := search(text):
                found.groups()
                break


def _opened(workload: Workload, schema: pa.Schema) -> Callable[[pa.RecordBatch], Outcome]:
    options = {"type": "grok", "patterns": grok_patterns(workload.pipeline), "on_error": "drop"}
    step = installed().families["step"]["grok"].model_validate(options)
    assert isinstance(step, ArrowStep)
    return step.open(schema)


def _cut_log(workload: Workload, lines: int) -> tuple[bytes, Sequence[pa.RecordBatch]]:
    text = workload.log.file(lines).read_bytes()
    return text, list(_cutting(text))


def _cutting(text: bytes) -> Iterator[pa.RecordBatch]:
    return LineCutter(Charset("utf-8"), BLOCK_BYTES).cut_batches(io.BytesIO(text).readinto, 0)


def _rates(kernel: Callable[[], object], lines: int) -> list[float]:
    """Lines a CPU second, several times."""
    rates = []
    for _ in range(TIMES):
        began = time.process_time()
        kernel()
        rates.append(lines / (time.process_time() - began))
    return rates


if __name__ == "__main__":
    main()
