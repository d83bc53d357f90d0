"""The command `etl state`: what stateful steps remember."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.state_pipelines import DEDUPE, START, WINDOW, Output, Pipeline, at, failures
from running import Engine

from etl.api import TIMESTAMP, PartRows, Schema
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.planner import plan
from etl.plan.segments import StepNode
from etl.running.state_folders import dead_letters, state_folder
from etl.running.stateful_steps import StepOfQuery, readable
from etl.spark.state.fingerprint import match_checkpoints
from etl.spark.state.folder import StateFolder
from etl.state.manifest import Manifest, Manifests
from etl.state.windows.time_windows import TimeWindows


@pytest.fixture
def window(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path, WINDOW)


@pytest.fixture
def etl_state(capsys: pytest.CaptureFixture[str]) -> Output:
    return Output(capsys)


# ── Windows ──────────────────────────────────────────────────────────────────────────────────────


def test_open_windows_are_shown_as_they_are_now_whatever_having_says(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x"), ("a", 2, "y"), ("b", 3, "x")], [("a", 70, "x")])
    window.read([("a", 71, "z"), ("a", 72, "z"), (None, 75, "z"), ("c", 62, "x")])
    window.read([("b", 100, "x")])  # closes the first minute

    rows = etl_state.rows("show", window)

    assert [(row["window_start"], row["window_end"]) for row in rows[:1]] == [
        ("2026-01-01T00:01:00.000000Z", "2026-01-01T00:02:00.000000Z")
    ]
    assert failures(rows) == [("01:00", "a", 3, 2), ("01:00", "b", 1, 1), ("01:00", "c", 1, 1), ("01:00", None, 1, 1)]


def test_rows_are_chosen_sorted_and_limited(window: Pipeline, etl_state: Output) -> None:
    window.read([(ip, 1, str(n)) for n, ip in enumerate("aaaabbbccd")])

    assert failures(etl_state.rows("show", window, "--where", "failures >= 3 and source.ip != 'b'")) == [("00:00", "a", 4, 4)]
    down = etl_state.rows("show", window, "window", "--sort", "-failures", "--limit", "2")
    assert [row["failures"] for row in down] == [4, 3]
    assert etl_state.err == "2 of 4 rows; --limit shows more\n"
    assert [row["failures"] for row in etl_state.rows("show", window, "--sort", "failures")] == [1, 2, 3, 4]
    assert etl_state.err == ""


def test_the_first_rows_of_many_are_those_of_all(window: Pipeline, etl_state: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    window.read([(f"{n * 7919 % 101:03}", 1, "x") for n in range(303) if n % 101 <= 50 or n < 101])
    expected = failures(etl_state.rows("show", window, "--sort", "-failures", "--limit", "70"))

    monkeypatch.setattr("etl.state.reader.ROWS_AT_ONCE", 1)
    monkeypatch.setattr("etl.running.first_rows._ROWS_AT_ONCE", 5)

    found = failures(etl_state.rows("show", window, "--sort", "-failures", "--limit", "70"))
    assert found == expected
    assert [row[2] for row in found] == [3] * 51 + [1] * 19
    assert found[:51] == sorted(found[:51])


def test_sliding_windows_share_their_panes(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, WINDOW.replace("size: 1m", "size: 1m\n    slide: 20s"))
    pipeline.read([("a", 15, "x"), ("a", 25, "y")])
    pipeline.read([("a", 55, "y"), ("a", 100, "y")])  # watermark: 70 s

    found = failures(etl_state.rows("show", pipeline))

    assert found == [("00:20", "a", 2, 1), ("00:40", "a", 1, 1), ("01:00", "a", 1, 1), ("01:20", "a", 1, 1), ("01:40", "a", 1, 1)]


def test_sessions_that_are_open(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, WINDOW.replace("size: 1m", "gap: 20s"))
    pipeline.read([("a", 1, "x"), ("a", 15, "y"), ("b", 2, "x")])
    pipeline.read([("a", 30, "y"), ("b", 60, "x")])  # watermark: 30 s

    rows = etl_state.rows("show", pipeline)

    assert failures(rows) == [("00:01", "a", 3, 2), ("01:00", "b", 1, 1)]
    assert [row["window_end"][14:19] for row in rows] == ["00:50", "01:20"]


def test_a_type_that_only_the_run_knows(window: Pipeline) -> None:
    window.read([("a", 1, "x")])
    unknown: Schema = pa.schema([("source.ip", pa.null()), ("at", TIMESTAMP), ("user", pa.string())])
    node = StepNode("steps[1] window", window.node.step, unknown, unknown)
    step = StepOfQuery("steps[1] window", "steps-window", 0, node, window.manifests.folder, StateFolder(window.state), False)

    found = step.read()

    assert found is not None
    operator = readable(step, found[1])
    [batch] = [batch for portion in found[1].portions() for batch in operator.read_state(portion, found[1].watermark)]
    assert batch.schema.field("source.ip").type == pa.string()
    assert batch.column("source.ip").to_pylist() == ["a"]


# ── Keys and events ──────────────────────────────────────────────────────────────────────────────


def test_dedupe_shows_times_and_hashes_of_keys(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, DEDUPE)
    pipeline.read([("a", 1, "x"), ("b", 2, "x"), ("a", 3, "x")])
    pipeline.read([("c", 40, "x")])

    rows = etl_state.rows("show", pipeline, "dedupe")

    assert [row["time"][14:19] for row in rows] == ["00:01", "00:02", "00:40"]
    assert len({row["key_hash"] for row in rows}) == 3
    assert all(len(row["key_hash"]) == 32 and int(row["key_hash"], 16) for row in rows)
    pipeline.read([("d", 72, "x")])  # watermark: 62 s
    assert [row["time"][14:19] for row in etl_state.rows("show", pipeline)] == ["00:40", "01:12"]


def test_throttle_shows_how_many_have_passed(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, "\n  - {type: throttle, keys: [source.ip], time: at, limit: 3, every: 1m, late: 0s}\n")
    pipeline.read([("a", 1, "x"), ("a", 2, "x"), ("b", 3, "x")])
    pipeline.read([("a", 4, "x"), ("a", 5, "x")])

    rows = etl_state.rows("show", pipeline, "--sort", "-passed")

    assert [row["passed"] for row in rows] == [3, 1]
    assert {row["pane_start"] for row in rows} == {"2026-01-01T00:00:00.000000Z"}
    pipeline.read([("a", 16 * 60, "x")])
    assert [row["passed"] for row in etl_state.rows("show", pipeline)] == [1]


@pytest.mark.parametrize(("keep", "users"), [("last", ["z", "w"]), ("first", ["x", "w"])])
def test_events_that_wait_are_shown_with_their_span(keep: str, users: list[str], tmp_path: Path, etl_state: Output) -> None:
    step = f"\n  - {{type: dedupe, keys: [source.ip], time: at, within: 1m, keep: {keep}, count: events}}\n"
    pipeline = Pipeline(tmp_path, step)
    pipeline.read([("a", 1, "x"), ("a", 3, "y")])
    pipeline.read([("a", 8, "z"), ("b", 5, "w")])

    rows = etl_state.rows("show", pipeline, "--sort", "source.ip")

    assert [row["user"] for row in rows] == users
    assert [(row["span_start"][14:19], row["span_end"][14:19], row["events_"]) for row in rows] == [
        ("00:01", "01:01", 3),
        ("00:05", "01:05", 1),
    ]


# ── ls, export ───────────────────────────────────────────────────────────────────────────────────


def test_rows_that_are_always_needed_have_no_newest_time(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, "\n  - {type: top, keys: [source.ip], time: at, by: length(user), limit: 1, late: 0s}\n")
    pipeline.read([("a", 1, "x"), ("b", 95, "x")])

    [line] = etl_state.rows("ls", pipeline)

    assert line["newest"] is None


def test_the_list_says_how_much_is_remembered(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x"), ("b", 2, "x")])
    window.read([("a", 95, "x"), ("a", 130, "x")])

    [line] = etl_state.rows("ls", window)

    sizes = [file.bytes for file in window.lane.kept]
    times = {name: line.pop(name)[11:19] for name in ("event_time", "watermark", "oldest", "newest")}
    assert times == {"event_time": "00:02:10", "watermark": "00:01:40", "oldest": "00:01:00", "newest": "00:02:00"}
    assert line.pop("parts") in (1, 2)
    assert line == {
        "step": "steps[1] window",
        "query": "steps-window",
        "keys": ["source.ip"],
        "rows": 2,
        "files": len(sizes),
        "bytes": sum(sizes),
    }
    head, row = etl_state("ls", window).splitlines()
    assert head.split() == ["step", "query", "keys", "rows", "files", "bytes", "parts", *times]
    assert row.split()[:4] == ["steps[1]", "window", "steps-window", "source.ip"]
    assert row.split()[-1] == "2026-01-01T00:02:00Z"


def test_panes_that_are_over_are_not_the_oldest(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x"), ("a", 130, "x")])  # one file, whose first window has closed

    assert etl_state.rows("ls", window)[0]["oldest"] == "2026-01-01T00:02:00.000000Z"


def test_a_table_is_for_people(window: Pipeline, etl_state: Output) -> None:
    window.read([("a\x1b[2J", 1, "x")])

    head, _, row = etl_state("show", window).splitlines()

    assert head.split() == ["window_start", "window_end", "source.ip", "failures", "users"]
    assert row.split()[2:] == ["a\\x1b[2J", "1", "1"]


def test_nothing_that_matches_is_a_table_without_rows(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])

    assert len(etl_state("show", window, "--where", "failures > 9").splitlines()) == 2


def test_parquet_has_all_rows(window: Pipeline, etl_state: Output) -> None:
    window.read([(str(n), 1, "x") for n in range(50)])
    target = window.folder / "open.parquet"

    etl_state("export", window, "steps[1]", str(target))

    assert etl_state.err == f"50 rows in {target}\n"
    rows = pq.read_table(target).to_pylist()
    assert sorted(row["source"]["ip"] for row in rows) == sorted(map(str, range(50)))
    assert rows[0]["window_start"] == START
    assert sorted(path.name for path in window.folder.iterdir()) == ["open.parquet", "p.yaml", "state"]


def test_a_failed_export_leaves_the_old_file(window: Pipeline, etl_state: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    window.read([("a", 1, "x")])
    target = window.folder / "open.parquet"
    target.write_text("old")

    def fail(self: TimeWindows, kept: PartRows, watermark: int) -> Iterator[pa.RecordBatch]:
        raise OSError("no space")

    monkeypatch.setattr(TimeWindows, "read_state", fail)

    etl_state("export", window, "window", str(target), "--force", status=1)

    assert target.read_text() == "old"
    assert not target.with_name("open.parquet.new").exists()


# ── While a run goes on ──────────────────────────────────────────────────────────────────────────


def test_files_that_the_run_removes_meanwhile_are_read_in_their_next_version(
    window: Pipeline, etl_state: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.read([("a", 1, "x")])
    read, versions = Manifests.read, []

    def read_and_go_on(self: Manifests, batch: int) -> Manifest:
        found = read(self, batch)
        versions.append(batch)
        if len(versions) == 1:
            for second in (2, 3, 4):
                window.read([("a", second, "x")])
                window.merge()
        return found

    monkeypatch.setattr(Manifests, "read", read_and_go_on)

    rows = etl_state.rows("show", window)

    assert failures(rows) == [("00:00", "a", 4, 1)]
    assert (versions[0], versions[-1]) == (0, 3)


def test_a_missing_file_is_named(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])
    [path] = window.manifests.folder.glob("rows-*")
    path.unlink()

    etl_state("show", window, status=1)

    assert str(path) in etl_state.err
    assert "is missing" in etl_state.err


def test_another_file_under_the_name_of_one_is_named(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])
    window.read([("a", 2, "x"), ("b", 2, "x")])
    first, second = sorted(window.manifests.folder.glob("rows-*"))
    second.write_bytes(first.read_bytes())

    for command in ("ls", "show"):
        etl_state(command, window, status=1)

        assert f"state file {second} is damaged at its end, or was written under another name" in " ".join(etl_state.err.split())


def test_a_missing_manifest_of_the_last_micro_batch_is_named(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])
    last = window.manifests.last()
    commits = StateFolder(window.state).checkpoint("steps-window") / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(last)).touch()
    (window.manifests.folder / f"manifest-{last:012d}.json").unlink()

    etl_state("show", window, status=1)

    assert f"manifest-{last:012d}.json cannot be read" in etl_state.err


def test_nothing_is_written(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])

    def files() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in window.state.rglob("*")}

    before = files()
    for command in ("ls", "show"):
        etl_state(command, window)

    assert files() == before


# ── Mistakes ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["windw"], "no step with state is called 'windw'; did you mean 'window'?"),
        (["xyz"], "no step with state is called 'xyz'; there are 'steps[1] window'"),
        (["--where", "failuers > 3"], "there is no field 'failuers' here; did you mean 'failures'?"),
        (["--where", "failures + 1"], "--where: a condition is needed, and this is bigint"),
        (["--where", "failures >"], "--where: "),
        (["--sort", "-user"], "--sort: there is no field 'user'; did you mean 'users'?"),
        (["--sort", "nothing"], "--sort: there is no field 'nothing'; fields are window_start, window_end, source.ip"),
    ],
)
def test_wrong_use(words: list[str], message: str, window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])

    etl_state("show", window, *words, status=2)

    assert message in " ".join(etl_state.err.split())


def test_a_condition_that_cannot_be_computed(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])

    etl_state("show", window, "--where", "cast(source.ip as int) > 1", status=1)

    assert "--where cannot be computed for a row" in etl_state.err


def test_a_pipeline_that_has_not_run(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, WINDOW)

    assert etl_state.rows("show", pipeline) == []
    assert "remembers nothing yet: no micro-batch of query 'steps-window' is complete" in etl_state.err
    assert etl_state.rows("ls", pipeline)[0]["rows"] == 0
    pipeline.state = tmp_path / "other"
    etl_state("ls", pipeline, status=1)
    assert f"there is no state in {pipeline.state}: pipeline 'p' has not run with this folder" in etl_state.err


def test_a_file_that_no_longer_fits_its_state(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])
    changed = window.write(WINDOW.replace("size: 1m", "size: 2m"))

    etl_state("show", window, file=changed, status=1)

    assert "the pipeline no longer fits its state in" in etl_state.err
    assert "steps-window: step window 1: size was '1m' and is '2m' now" in etl_state.err


def test_an_aggregate_that_is_new_is_empty_so_far(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])
    changed = window.write(WINDOW.replace("{failures:", "{newest: max(at), failures:"))

    [row] = etl_state.rows("show", window, file=changed)

    assert (row["newest"], row["failures"]) == (None, 1)


def test_a_pipeline_without_memory(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, WINDOW)
    other = pipeline.write("\n  - {type: drop, fields: [user]}\n", "other.yaml")

    etl_state("ls", pipeline, file=other, status=1)

    assert "pipeline 'other' has no step that remembers events, such as a window" in etl_state.err


def test_one_of_several_steps_is_named(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, WINDOW)
    pipeline.state = tmp_path / "several"
    file = pipeline.write(DEDUPE.rstrip() + WINDOW, "several.yaml")
    loaded = load(file, {})
    state = state_folder(loaded, str(pipeline.state))
    state.root.mkdir()
    match_checkpoints(plan(loaded, dead_letters(loaded, state), SCHEMA), state)

    assert [line["step"] for line in etl_state.rows("ls", pipeline, file=file)] == ["steps[1] dedupe", "steps[2] window"]
    etl_state("show", pipeline, file=file, status=2)
    assert "several steps have state: name one of 'steps[1] dedupe', 'steps[2] window'" in " ".join(etl_state.err.split())
    etl_state("show", pipeline, "steps", file=file, status=2)
    assert "several steps are called 'steps'" in " ".join(etl_state.err.split())
    assert etl_state.rows("show", pipeline, "window", file=file) == []


@pytest.mark.slow
def test_the_state_is_read_without_spark(window: Pipeline) -> None:
    window.read([("a", 1, "x")])
    script = "import sys\nfrom etl.cli.main import main\nsys.argv[1:] = {}\ntry: main()\nexcept SystemExit: pass\n"
    script += "print(*sorted(sys.modules), file=sys.stderr)"
    words = ["state", "show", str(window.file), "--state", str(window.state)]

    ran = subprocess.run([sys.executable, "-c", script.format(words)], capture_output=True, text=True, check=True)

    assert "source.ip" in ran.stdout
    assert not {"pyspark", "py4j", "pandas", "polars", "etl.spark.run", "etl.segment"} & set(ran.stderr.splitlines()[-1].split())


# ── A run ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spark
@pytest.mark.slow
def test_windows_that_a_run_leaves_open(engine: Engine, etl_state: Output) -> None:
    log = engine.etl.folder / "in.jsonl"
    file = engine.etl.pipeline(f"""
        source: {{type: file, path: {log}}}
        steps:
          - {{type: json, fields: {{at: timestamp, user: string}}}}
          - {{type: dedupe, keys: [user, at], time: at, within: 1m}}
          - {{type: window, time: at, size: 10m, group_by: [user], aggregates: {{failures: count(*)}}, having: failures >= 5}}
        sink: {{type: file, path: out.jsonl}}
        """)

    for first in (0, 3):
        with log.open("a") as lines:
            for second in range(first, first + 3):
                event = {"at": at(second).isoformat(), "user": "root" if second < 4 else "eve"}
                lines.write(f"{json.dumps(event)}\n" * 2)
        engine.service(file, once=True).finished()

    def rows(command: str, *words: str) -> list[dict[str, Any]]:
        out = etl_state.on(engine.etl.folder / "state", command, file, *words, "--format", "json")
        return [json.loads(line) for line in out.splitlines()]

    shown = rows("show", "window", "--sort", "-failures")
    assert [(row["user"], row["failures"]) for row in shown] == [("root", 4), ("eve", 2)]
    assert rows("ls")[0]["rows"] == 6
