"""Event time and time of reading pass through Spark steps and Arrow steps to a window."""

from __future__ import annotations

import json

import pytest
from running import Engine, Etl

pytestmark = pytest.mark.spark


def counts(etl: Etl) -> list[int]:
    return [json.loads(line)["n"] for line in (etl.folder / "out.json").read_text().splitlines()]


def test_event_time_passes_through_steps_that_only_arrow_has(engine: Engine, etl: Etl) -> None:
    texts = ("2026-11-20T06:00:00Z a", "2026-11-20T06:00:59Z b", "2026-11-20T06:05:00Z a")
    (etl.folder / "in.log").write_text("".join(f"{text}\n" for text in texts))
    pipeline = """
        source: {type: file, path: "{here}/*.log"}
        steps:
          - {type: grok, patterns: ["%{TIMESTAMP_ISO8601:time} %{WORD:word}"], keep_field: true}
          - {type: timestamp, field: time, target: at, formats: [iso8601]}
          - {type: filter, where: "soundex(word) is not null"}
          - {type: regex, patterns: ["(?<last>\\\\w)$"]}
          - {type: window, time: at, size: 1m, aggregates: {n: count(*)}}
        sink: {type: file, path: "{here}/out.json"}
    """

    first = engine(pipeline)
    (etl.folder / "later.log").write_text("2026-11-20T07:00:00Z a\n")  # the watermark is that of the micro-batch before
    engine(pipeline)

    assert counts(etl) == [2, 1]
    assert first.dead == 0  # a heartbeat is not an event for the step between


@pytest.mark.parametrize("streaming", ["true", "false"])
def test_a_window_over_a_source_that_spark_reads_uses_the_time_of_reading(engine: Engine, etl: Etl, streaming: str) -> None:
    (etl.folder / "in").mkdir()
    (etl.folder / "in" / "a.json").write_text('{"word": "a"}\n{"word": "b"}\n')

    engine(f"""
        source: {{type: spark, format: json, path: "{{here}}/in", streaming: {streaming}, fields: {{word: string}}}}
        steps:
          - {{type: keep, fields: [word]}}
          - {{type: window, size: 1s, emit: on_change, aggregates: {{n: count(*)}}}}
        sink: {{type: file, path: "{{here}}/out.json"}}
    """)

    assert counts(etl) == [2]


def test_time_of_reading_passes_through_keep_after_a_spark_step(engine: Engine, etl: Etl) -> None:
    (etl.folder / "in.log").write_text("a\nb\n")

    engine("""
        source: {type: file, path: "{here}/*.log"}
        steps:
          - {type: sql, query: "select soundex(message) as word, message from events"}
          - {type: keep, fields: [word]}
          - {type: window, size: 1s, emit: on_change, aggregates: {n: count(*)}}
        sink: {type: file, path: "{here}/out.json"}
    """)

    assert counts(etl) == [2]


def test_csv_columns_may_have_dots_in_their_names(engine: Engine, etl: Etl) -> None:
    (etl.folder / "in.csv").write_text("source.ip,n\n192.0.2.1,3\n")

    engine("""
        source: {type: spark, format: csv, path: "{here}/in.csv", options: {header: true}, fields: {n: int, source.ip: string}}
        sink: {type: file, path: "{here}/out.json"}
    """)

    assert json.loads((etl.folder / "out.json").read_text()) == {"n": 3, "source": {"ip": "192.0.2.1"}}
