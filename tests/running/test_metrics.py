"""The file of metrics."""

from __future__ import annotations

import time
from pathlib import Path

from etl.api import SplitMeasures
from etl.receipts import Counts
from etl.running.metrics import MetricsFile, Sample, samples, text_lines
from etl.spark.reports.step_measures import StepMeasures, TableInUse
from etl.spark.reports.totals import SinkTotals, SourceLag, Totals


def measured(*counted: SplitMeasures) -> StepMeasures:
    one = StepMeasures()
    for some in counted:
        one.add(some)
    return one


def lines(totals: Totals) -> list[str]:
    return list(text_lines(samples("p", totals)))


def test_samples_of_one_name_follow_its_type() -> None:
    here = {"pipeline": "p"}
    found = [Sample("a_total", here, 3), Sample("b", {}, 0.5), Sample("a_total", {**here, "name": 'x"\\\n'}, 1e9)]

    assert list(text_lines(found)) == [
        "# TYPE a_total counter",
        'a_total{pipeline="p"} 3',
        'a_total{pipeline="p",name="x\\"\\\\\\n"} 1000000000',
        "# TYPE b gauge",
        "b{} 0.5",
    ]


def test_a_rules_step_has_counters_and_the_version_of_its_rules() -> None:
    # given
    state = {"version": "old", "rules": 7, "refused_because": ""}
    first = SplitMeasures({"matches": {"shell": 2}, "seconds": {"shell": 0.25}}, state)
    then = SplitMeasures({"matches": {"shell": 3, "root": 1}}, {"version": "new", "rules": 8, "refused_because": "bad"})
    totals = Totals(steps={"main[0] rules": Counts(9, 5)}, measured={"main[0] rules": measured(first, then)})

    # when
    found = lines(totals)

    # then
    step = 'pipeline="p",step="main[0] rules"'
    for line in (
        f"sluice_step_events_total{{{step}}} 9",
        f'sluice_step_info{{{step},version="new",refused_because="bad"}} 1',
        f"sluice_step_rules{{{step}}} 8",
        f'sluice_step_matches_total{{{step},name="shell"}} 5',
        f'sluice_step_matches_total{{{step},name="root"}} 1',
        f'sluice_step_seconds_total{{{step},name="shell"}} 0.25',
    ):
        assert line in found


def test_a_table_has_an_age_and_a_version() -> None:
    now = time.time()
    table = TableInUse("7", 3, built=now - 60, checked=now - 1, failed=2, error="gone")

    found = lines(Totals(tables={"intel": table}))

    assert 'sluice_table_info{pipeline="p",table="intel",version="7",error="gone"} 1' in found
    assert 'sluice_table_failures_total{pipeline="p",table="intel"} 2' in found
    (age,) = [float(line.rpartition(" ")[2]) for line in found if line.startswith("sluice_table_age_seconds{")]
    assert 60 <= age < 120


def test_sinks_and_sources_have_counters() -> None:
    totals = Totals(
        read={"log": Counts(9, 9)}, sinks={"out": SinkTotals(incoming=9, accepted=7, dead=2)}, dropped={"log": {"full": 4}}
    )

    found = lines(totals)

    assert 'sluice_source_events_total{pipeline="p",source="log"} 9' in found
    assert 'sluice_source_dropped_total{pipeline="p",source="log",reason="full"} 4' in found
    assert 'sluice_sink_events_total{pipeline="p",sink="out",outcome="out"} 7' in found
    assert 'sluice_sink_events_total{pipeline="p",sink="out",outcome="dead"} 2' in found


def test_sources_have_a_lag_and_queries_a_watermark() -> None:
    now = time.time()
    totals = Totals(lags={("a", "q"): SourceLag(7, now - 60), ("b", "q"): SourceLag(0, now - 60)})
    totals.watermarks["q"] = round((now - 300) * 1e6)

    found = dict(line.rsplit(" ", 1) for line in lines(totals) if "lag_" in line or "watermark" in line)

    assert found['sluice_source_lag_events{pipeline="p",source="a",query="q"}'] == "7"
    assert 60 <= float(found['sluice_source_lag_seconds{pipeline="p",source="a",query="q"}']) < 120
    assert found['sluice_source_lag_seconds{pipeline="p",source="b",query="q"}'] == "0"
    assert 300 <= float(found['sluice_watermark_delay_seconds{pipeline="p",query="q"}']) < 360


def test_sinks_count_events_that_steps_added() -> None:
    totals = Totals(sinks={"out": SinkTotals(incoming=9, made=3, accepted=10, filtered=2)})

    found = lines(totals)

    assert totals.sinks["out"].is_balanced
    assert 'sluice_sink_incoming_total{pipeline="p",sink="out"} 9' in found
    assert 'sluice_sink_made_total{pipeline="p",sink="out"} 3' in found


def test_the_file_is_replaced_as_a_whole_and_not_too_often(tmp_path: Path) -> None:
    # given
    totals = Totals(bytes=1)
    file = MetricsFile(tmp_path / "metrics.prom", "p", totals)
    file.write_if_due()
    totals.bytes = 2

    # when
    file.write_if_due()
    early = (tmp_path / "metrics.prom").read_text()
    file.write()

    # then
    assert 'sluice_bytes_total{pipeline="p"} 1\n' in early
    assert 'sluice_bytes_total{pipeline="p"} 2\n' in (tmp_path / "metrics.prom").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "gone" / "metrics.prom", "p", Totals()).write()


def test_names_beyond_the_limit_are_added_up() -> None:
    one = measured(
        SplitMeasures({"matches": {str(n): 1 for n in range(10_000)}}), SplitMeasures({"matches": {"x": 2, "y": 3, "7": 1}})
    )

    assert len(one.sums["matches"]) == 10_001
    assert one.top("matches", 2) == [("(others)", 5), ("7", 2)]
