"""Each recipe over its own sample in this process: prints lines a CPU second as JSON."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.folders import ROOT
from connectors.discard import DiscardSink
from etl.api import OFFSET
from etl.config.model import Output
from etl.delivery.dead_letters import SCHEMA
from etl.inference.candidates import Candidate, recipe_candidate
from etl.plan.planner import plan
from etl.resources import recipes
from etl.testing.given_source import GivenSource, read_lines
from etl.testing.trial import run_without_spark
from parsers.xml.parser import Xml

LINES = 20_000
TIMES = 3
ELEMENTS = 35
SAMPLE = re.compile(r"samples/([\w.\-]+)")


def main() -> None:
    """All recipes that have a sample, and what has no recipe."""
    found = (recipe_candidate(name, path) for name, path in recipes().items())
    speed = {one.name: rate for one in found if one and (rate := _recipe(one))}
    speed["xml (parser)"] = _xml()
    print(json.dumps({"lines": LINES, "times": TIMES, "elements": ELEMENTS, "speed": speed}))


def _recipe(one: Candidate) -> float | None:
    assert one.recipe is not None
    named = SAMPLE.search(one.recipe.read_text("utf-8"))
    if named is None or one.pipeline.tables:
        return None
    lines = (ROOT / "samples" / named[1]).read_bytes().splitlines(keepends=True)
    copies = -(-LINES // len(lines))
    pipeline = one.pipeline
    name, source = next(iter(pipeline.sources.items()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.log"
        path.write_bytes(b"".join(lines) * copies)
        batches = tuple(read_lines(source, path))
    whole = GivenSource(columns=source.fields(), batches=(batches,))
    sinks = {stream: Output(stream, (stream,), DiscardSink()) for stream in pipeline.streams}
    made = plan(replace(pipeline, sources={name: whole}, sinks=sinks, dead_letters=None), DiscardSink(), SCHEMA)
    return len(lines) * copies / _seconds(lambda: run_without_spark(made))


def _xml() -> float:
    values = "".join(f'<Data Name="Field{n}">value {n}</Data>' for n in range(ELEMENTS - 4))
    text = f"<Event><System><EventID>4624</EventID><Computer>gate</Computer></System><EventData>{values}</EventData></Event>"
    column = pa.record_batch([pa.array([text] * 2000), pa.array(range(2000), pa.int64())], names=["message", OFFSET])
    parse = Xml.model_validate({"type": "xml", "fields": {"code": "int"}, "paths": {"code": "System/EventID"}})
    step = parse.open(pa.schema([("message", pa.string())]))
    return 2000 / _seconds(lambda: step(column))


def _seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of the best of some times, after a first that compiles."""
    work()
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


if __name__ == "__main__":
    main()
