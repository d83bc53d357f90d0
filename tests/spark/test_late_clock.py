"""Windows over an event time that a Spark step computes after the reader."""

from __future__ import annotations

import json

import pytest
from running import Engine, Etl


@pytest.mark.spark
@pytest.mark.parametrize("name", ["at", "time"], ids=["another field", "the text itself"])
def test_a_window_uses_an_event_time_from_a_spark_step(engine: Engine, etl: Etl, name: str) -> None:
    texts = ("2026-11-20T06:00:00Z", "2026-11-20T06:00:59Z", "2026-11-20T06:05:00Z")
    lines = etl.folder / "in.jsonl"
    lines.write_text("".join(json.dumps({"time": text, "word": "a"}) + "\n" for text in texts))
    pipeline = f"""
        source: {{type: file, path: "{{here}}/*.jsonl"}}
        steps:
          - {{type: json, fields: {{time: string, word: string}}}}
          - {{type: sql, query: "SELECT cast(time AS timestamp) AS {name}, soundex(word) AS word FROM events"}}
          - {{type: window, time: {name}, size: 1m, aggregates: {{n: count(*)}}}}
        sink: {{type: file, path: "{{here}}/out/n.json"}}
    """

    engine(pipeline)
    with (etl.folder / "later.jsonl").open("w") as file:  # the watermark is that of the micro-batch before
        file.write(json.dumps({"time": "2026-11-20T07:00:00Z", "word": "a"}) + "\n")
    engine(pipeline)

    found = [json.loads(line)["n"] for line in (etl.folder / "out" / "n.json").read_text().splitlines()]
    assert found == [2, 1]
