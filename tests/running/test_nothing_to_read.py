"""What a run reports about sources that have nothing to read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from fakes import Lines, make_plan
from running import Engine, Etl

from connectors.elasticsearch.source import ElasticsearchSource
from connectors.file.source import FileSource
from connectors.kafka.source import KafkaSource
from connectors.stdin.source import StdinSource
from connectors.syslog.source import SyslogSource
from etl.api import EtlError, Finding, Source
from etl.cli.run.progress import Progress
from etl.receipts import Counts
from etl.running.messages import Message
from etl.running.nothing_to_read import silent_sources, warn_of_missing_input
from etl.spark.run import PipelineRun, RunMode
from etl.spark.state.checkpoint import read_committed_offsets
from etl.spark.state.folder import StateFolder


class Here(Lines):
    """Probes this host."""

    @property
    def probes_here(self) -> bool:
        return True

    def probe(self) -> Iterable[Finding]:
        yield Finding("no-files", "no file is there", (), "make one")


class Named(Here):
    """Names an input that is not there."""

    def probe(self) -> Iterable[Finding]:
        yield Finding("missing-input", "there is no file 'a.log'")


class Far(Lines):
    """Probes another host."""

    def probe(self) -> Iterable[Finding]:
        raise AssertionError("a run that starts probes no other host")


def run(tmp_path: Path, source: Source, once: bool = True) -> PipelineRun:
    return PipelineRun(
        make_plan({"log": source}, {"all": ("log", [])}, {"out": "all"}), StateFolder(tmp_path), RunMode(once=once)
    )


@pytest.mark.parametrize(
    ("once", "then"), [(True, "with --once this run does not wait for it"), (False, "this run waits for it")]
)
def test_a_run_warns_of_missing_input_at_its_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], once: bool, then: str
) -> None:
    progress = Progress("text", False, False)

    warn_of_missing_input(run(tmp_path, Here(), once), progress.report)
    warn_of_missing_input(run(tmp_path, Far(), once), progress.report)

    assert capsys.readouterr().err == f"source 'log': no file is there; make one; {then}\n"


def test_a_first_run_with_once_fails_if_a_named_input_is_missing(tmp_path: Path) -> None:
    messages: list[Message] = []

    with pytest.raises(EtlError, match=r"^source 'log': there is no file 'a\.log'; a run without --once waits for it$"):
        warn_of_missing_input(run(tmp_path, Named()), messages.append)
    assert messages == []


@pytest.mark.parametrize("once", [True, False])
def test_a_named_input_that_is_awaited_or_was_read_before_is_a_warning(tmp_path: Path, once: bool) -> None:
    messages: list[Message] = []
    one = run(tmp_path, Named(), once)
    one.committed_offsets = {"log": {}} if once else {}

    warn_of_missing_input(one, messages.append)

    assert [message.level for message in messages] == ["warning"]


def test_the_summary_names_sources_without_events(tmp_path: Path) -> None:
    one = run(tmp_path, Lines())

    assert list(silent_sources(one)) == ["  nothing was read of source 'log': there was nothing to read"]
    one.totals.read["log"] = Counts(3, 3)
    assert list(silent_sources(one)) == []


def test_a_stopped_run_does_not_report_sources_without_events(tmp_path: Path) -> None:
    one = run(tmp_path, Lines())
    one.stop()

    assert list(silent_sources(one)) == []


@pytest.mark.parametrize(
    ("source", "first"),
    [
        (KafkaSource(servers=["x:1"], topics=["a"]), "there was nothing to read"),
        (KafkaSource(servers=["x:1"], topics=["a"], start="latest"), "`start: latest` begins after what exists"),
        (ElasticsearchSource(urls=["http://x"], index="a", start="latest"), "`start: latest` begins after what exists"),
    ],
)
def test_a_source_that_starts_at_the_end_explains_that_on_its_first_run(source: Source, first: str) -> None:
    again = "nothing is new since the last run with this state folder; another --state reads all of it again"

    assert (source.explain_no_events(None), source.explain_no_events({})) == (first, again)


def test_receivers_explain_that_no_event_was_received() -> None:
    assert StdinSource().explain_no_events(None) == "its input ended without an event"
    assert (
        SyslogSource(listen=["udp://127.0.0.1:5514"]).explain_no_events({})
        == "no event was received; a run without --once waits for events"
    )


def test_committed_offsets_are_read_from_the_last_offset_log(tmp_path: Path) -> None:
    (query,) = run(tmp_path, Lines()).plan.queries
    state = StateFolder(tmp_path)
    assert read_committed_offsets(state, [query]) == {}

    folder = state.checkpoint(query.name) / "offsets"
    folder.mkdir(parents=True)
    for number, lines in {9: ['{"sources": {"log": 1}}'], 10: ['{"sources": {"log": 2}}', "-", '{"n": 1}', "5"]}.items():
        (folder / str(number)).write_text("\n".join(["v1", "{}", *lines]))
    (folder / ".11.tmp").touch()

    assert cast(Any, read_committed_offsets(state, [query])) == {"log": 2}


@pytest.mark.spark
@pytest.mark.slow
def test_a_path_without_files_is_reported_before_and_after_the_run(etl: Etl, engine: Engine, tmp_path: Path) -> None:
    pipeline = etl.pipeline("""
        source: {type: file, path: "{here}/*.log"}
        sink: {type: file, path: "{here}/out.jsonl"}
    """)
    missing = f"no file matches '{tmp_path}/*.log'"

    linted, refused, empty = (
        etl.here("lint", "--connect", pipeline),
        etl.here("run", pipeline, "--require-healthy"),
        engine.run(pipeline, "--once"),
    )
    (tmp_path / "a.log").write_text("one\n")
    full, again = engine.run(pipeline, "--once"), engine.run(pipeline, "--once")

    assert (linted.status, refused.status, empty.status, full.status, again.status) == (1, 1, 0, 0, 0)
    assert "no-files" in linted.out
    assert missing in linted.out
    assert missing in refused.err
    warnings = [json.loads(line) for line in empty.err.splitlines() if '"source"' in line]
    assert [(one["level"], missing in one["message"]) for one in warnings] == [("warning", True)]
    assert f"nothing was read of source 'main': {missing}" in empty.done["message"]
    assert "nothing was read" not in full.done["message"]
    assert f"'main': 1 file matches '{tmp_path}/*.log'; nothing is new since the last run" in again.done["message"]


def test_a_source_that_reads_a_file_of_its_own_run_is_noted(tmp_path: Path) -> None:
    one = run(tmp_path / "state", FileSource(path=f"{tmp_path}/**/*.log"))
    with one.prepared():
        (note,) = one.notes

    assert note.startswith(f"source 'log' reads {tmp_path}/state/logs/spark.log, which this run writes: choose a state folder")
