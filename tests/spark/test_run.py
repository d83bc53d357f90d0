"""Whole runs: delivery, restart, stop, state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import Engine, Etl, wait_for

from etl.api import ComponentError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COPY = """
    name: copy
    source: {type: file, path: "{here}/in/*.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 200ms}
"""


def lines(first: int, last: int) -> str:
    return "".join(f"{n} line number {n}\n" for n in range(first, last))


def delivered(path: Path) -> list[int]:
    return [int(json.loads(line)["n"]) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "a.log"


def test_existing_input_is_delivered_in_order_and_counted(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 500) + "not a number\n" + lines(500, 1000))

    totals = engine(COPY)

    sink = totals.sinks["main"]
    assert delivered(engine.etl.folder / "out.jsonl") == list(range(1000))
    assert (sink.incoming, sink.accepted, sink.filtered, sink.dead) == (1001, 1000, 0, 1)
    (letter,) = [json.loads(line) for line in (engine.etl.folder / "state" / "dead_letters.jsonl").read_text().splitlines()]
    assert letter["event"] == "not a number"
    assert letter["at"] == "steps[0] regex"


def test_the_next_run_reads_only_new_input(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 10))
    engine(COPY)
    with inbox.open("a") as more:
        more.write(lines(10, 15))

    second = engine(COPY)
    third = engine(COPY)

    assert delivered(engine.etl.folder / "out.jsonl") == list(range(15))
    assert second.read["main"].incoming == 5
    assert third.read == {}


def test_after_kills_at_any_moment_each_event_is_delivered_once(etl: Etl, engine: Engine, inbox: Path) -> None:
    pipeline, out, total = etl.pipeline(COPY), etl.folder / "out.jsonl", 0
    words = ("run", pipeline, "--master", "local[2]", "--state", etl.folder / "state", "-q")
    inbox.touch()
    for kill in range(2):
        running = etl.start(*words)
        before = len(delivered_bytes(out))
        for _ in range(40 * (kill + 1)):
            with inbox.open("a") as more:
                more.write(lines(total, total + 500))
            total += 500
        wait_for(lambda before=before: len(delivered_bytes(out)) > before, what="the first output")
        with inbox.open("a") as more:
            more.write(lines(total, total + 20_000))
        total += 20_000
        running.send_signal(signal.SIGKILL)
        running.communicate()

    ran = engine.run(pipeline, "--once")

    assert ran.status == 0, ran.err
    assert delivered(out) == list(range(total))


def delivered_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def test_a_signal_ends_a_following_run_after_its_micro_batch(etl: Etl, inbox: Path) -> None:
    out = etl.folder / "out.jsonl"
    inbox.write_text(lines(0, 100))
    running = etl.start("run", etl.pipeline(COPY), "--master", "local[2]", "--state", etl.folder / "state", apart=True)
    wait_for(lambda: len(delivered(out)) == 100, what="the first hundred lines")
    with inbox.open("a") as more:
        more.write(lines(100, 120))
    wait_for(lambda: len(delivered(out)) == 120, what="the appended lines")

    os.killpg(running.pid, signal.SIGTERM)  # as systemd does: the JVM and its workers get it, too
    _, err = running.communicate(timeout=300)

    assert running.returncode == 0, err
    assert "stopping after the current micro-batch" in err
    assert "120 in = 120 out + 0 filtered + 0 dead" in err


def test_two_runs_cannot_share_a_state_folder(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 10))
    pipeline, out = engine.etl.pipeline(COPY), engine.etl.folder / "out.jsonl"
    with engine.following(pipeline):
        wait_for(lambda: len(delivered(out)) == 10, what="the first run's output")

        second = engine.etl.run(pipeline, "--once")

    assert second.status == 1
    assert "is in use by another run (process " in second.err
    assert delivered(out) == list(range(10))


def test_a_damaged_state_folder_is_an_error_and_an_empty_one_is_not(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 10))
    engine(COPY)
    (engine.etl.folder / "state" / "plan.json").write_text("{broken")

    with pytest.raises(ComponentError, match=r"plan\.json cannot be read"):
        engine(COPY)

    assert delivered(engine.etl.folder / "out.jsonl") == list(range(10))


def test_limit_ends_a_run_after_this_many_events(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 1000))

    first = engine(COPY, once=False, limit=30)
    second = engine(COPY, limit=50)

    assert (first.read["main"].incoming, second.read["main"].incoming) == (30, 50)
    assert delivered(engine.etl.folder / "out.jsonl") == list(range(80))


def test_standard_input_is_read_to_its_end(etl: Etl) -> None:
    pipeline = etl.pipeline("""
        source: {type: stdin}
        steps: [{type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}]
        sink: {type: console, format: json}
    """)

    ran = etl.run(pipeline, stdin=lines(0, 200))

    assert ran.status == 0, ran.err
    assert [int(json.loads(line)["n"]) for line in ran.out.splitlines()] == list(range(200))


def test_one_pass_serves_all_sinks_and_unions(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 20))
    (engine.etl.folder / "in" / "b.txt").write_text(lines(100, 105))

    totals = engine("""
        sources:
          a: {type: file, path: "{here}/in/a.log"}
          b: {type: file, path: "{here}/in/b.txt"}
        streams:
          parsed: {from: [a, b], steps: [{type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}]}
          small: {from: parsed, steps: [{type: filter, where: "cast(n as int) < 5"}]}
        sinks:
          all: {from: parsed, type: file, path: "{here}/all.jsonl"}
          small: {from: small, type: file, path: "{here}/small.jsonl"}
    """)

    assert sorted(delivered(engine.etl.folder / "all.jsonl")) == [*range(20), *range(100, 105)]
    assert delivered(engine.etl.folder / "small.jsonl") == list(range(5))
    assert totals.sinks["small"].filtered == 20
    assert all(sink.is_balanced for sink in totals.sinks.values())


def test_a_step_without_an_arrow_form_runs_on_spark(engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 20) + "no number\n")

    totals = engine(
        COPY.replace("      - {type: regex", "      - {type: set, fields: {code: soundex(message)}}\n      - {type: regex")
    )

    rows = [json.loads(line) for line in (engine.etl.folder / "out.jsonl").read_text().splitlines()]
    assert sorted(int(row["n"]) for row in rows) == list(range(20))
    assert all(row["code"] for row in rows)
    assert totals.sinks["main"].dead == 1
    assert totals.sinks["main"].is_balanced


WINDOW = """
    name: counts
    source: {type: file, path: "{here}/in/*.log"}
    steps:
      - {type: regex, patterns: ['^(?<at>\\S+) (?<who>\\w+)$']}
      - {type: timestamp, field: at, formats: [iso8601]}
      - {type: filter, where: "who <> 'nobody'"}
      - {type: window, time: at, size: SIZE, group_by: [who], aggregates: {n: count(*)}}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 200ms}
"""


def results(path: Path) -> list[tuple[str, str, int]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sorted((row["window_start"][11:16], row["who"], row["n"]) for row in rows)


def test_windows_close_by_the_time_of_all_events_and_stay_open_over_a_restart(engine: Engine, inbox: Path) -> None:
    text, out = WINDOW.replace("SIZE", "1m"), engine.etl.folder / "out.jsonl"
    inbox.write_text("2026-01-01T10:00:05Z anna\n2026-01-01T10:00:10Z bert\n")
    engine(text)
    open_still = results(out)
    with inbox.open("a") as more:
        more.write("2026-01-01T10:00:50Z anna\n2026-01-01T10:05:00Z nobody\n")

    engine(text)

    assert open_still == []
    assert results(out) == [("10:00", "anna", 2), ("10:00", "bert", 1)]


def test_drain_closes_open_windows(engine: Engine, inbox: Path) -> None:
    inbox.write_text("2026-01-01T10:00:05Z anna\n2026-01-01T10:01:10Z bert\nno time\n")

    totals = engine(WINDOW.replace("SIZE", "1m"), drain=True)

    assert results(engine.etl.folder / "out.jsonl") == [("10:00", "anna", 1), ("10:01", "bert", 1)]
    assert totals.dead == 1


def test_a_source_that_ends_closes_its_windows(engine: Engine) -> None:
    engine(
        """
        source: {type: generate, count: 100, templates: ["{i}"]}
        steps: [{type: window, size: 1h, aggregates: {n: count(*)}}]
        sink: {type: file, path: "{here}/out.jsonl"}
    """,
        once=False,
    )

    (row,) = [json.loads(line) for line in (engine.etl.folder / "out.jsonl").read_text().splitlines()]
    assert row["n"] == 100


def test_an_idle_source_closes_its_windows(engine: Engine, inbox: Path) -> None:
    text = WINDOW.replace("size: SIZE", "size: 1h, idle: 1s")
    out = engine.etl.folder / "out.jsonl"
    inbox.write_text("2026-01-01T10:00:05Z anna\n")

    with engine.following(text):
        wait_for(lambda: results(out) == [("10:00", "anna", 1)], what="the window's result")


def test_a_changed_window_is_an_error_before_the_run(engine: Engine, inbox: Path) -> None:
    inbox.write_text("2026-01-01T10:00:05Z anna\n")
    engine(WINDOW.replace("SIZE", "1m"))

    with pytest.raises(ComponentError, match="size was '1m' and is '2m' now") as refused:
        engine(WINDOW.replace("SIZE", "2m"))

    assert "no longer fits the checkpoint" in str(refused.value)
    assert "--state" in str(refused.value)


def test_an_edit_that_needs_spark_or_no_longer_needs_it_goes_on_where_the_run_before_stopped(engine: Engine, inbox: Path) -> None:
    out = engine.etl.folder / "out.jsonl"
    for number, expression in enumerate(("length(message)", "hash(message) * 0 + 1", "length(message)")):
        with inbox.open("a") as more:
            more.write(f"{number}\n")
        engine(
            f"""
            source: {{type: file, path: "{{here}}/in.log"}}
            steps: [{{type: set, fields: {{n: "{expression}"}}}}]
            sink: {{type: file, path: "{{here}}/out.jsonl"}}
            """.replace("in.log", inbox.relative_to(engine.etl.folder).as_posix())
        )

    assert [json.loads(line) for line in out.read_text().splitlines()] == [{"message": str(n), "n": 1} for n in range(3)]


def test_each_event_is_delivered_once_when_the_sinks_disk_was_full(etl: Etl, engine: Engine, inbox: Path) -> None:
    inbox.write_text(lines(0, 50_000))
    more = "on_failure: fail, retry: {attempts: 2, initial_backoff: 10ms}"
    pipeline = etl.pipeline(COPY.replace('out.jsonl"}', f'out.jsonl", {more}}}'))
    small = subprocess.run(
        ["bash", "-c", 'ulimit -f 1024; trap "" XFSZ; exec "$@"', "bash", *_run_words(etl, pipeline)],
        capture_output=True,
        text=True,
        check=False,
        cwd=etl.folder,
    )
    after = engine.run(pipeline, "--once")

    assert small.returncode == 1
    assert "nothing is lost" in small.stderr or "File too large" in small.stderr
    assert after.status == 0, after.err
    assert delivered(etl.folder / "out.jsonl") == list(range(50_000))


def _run_words(etl: Etl, pipeline: Path) -> list[str]:
    state = str(etl.folder / "state")
    return [sys.executable, "-m", "etl", "run", str(pipeline), "--once", "--master", "local[2]", "--state", state]
