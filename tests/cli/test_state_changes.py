"""The commands `etl state top`, `versions`, `drop` and `import`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.state_pipelines import DEDUPE, WINDOW, Output, Pipeline, at, failures
from running import Engine

from etl.api import OFFSET, SIDE, SIDE_TIME, EtlError
from etl.spark.state.folder import StateFolder, lock_state

THROTTLE = "\n  - {type: throttle, keys: [source.ip], time: at, limit: 3, every: 1m, late: 0s}\n"


@pytest.fixture
def window(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path, WINDOW)


@pytest.fixture
def etl_state(capsys: pytest.CaptureFixture[str]) -> Output:
    return Output(capsys)


# ── top, versions ────────────────────────────────────────────────────────────────────────────────


def test_the_largest_keys_are_those_with_most_bytes(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", second, "x" * second) for second in range(1, 30)] + [("b", second, "x") for second in range(60)])
    window.read([("b", 70, "y"), (None, 70, "y")])

    rows = etl_state.rows("top", window)

    assert [(row["source"]["ip"], row["rows"]) for row in rows] == [("a", 1), ("b", 2), (None, 1)]
    sizes = [row["bytes"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sum(range(1, 30))  # users of a are in a list
    assert sum(sizes) < sum(file.bytes for file in window.lane.kept)
    etl_state("top", window, "--by", "nothing", status=2)
    assert "--by: there is no field 'nothing'; fields are window_start" in etl_state.err
    by_rows = etl_state.rows("top", window, "--by", "rows", "--limit", "1")
    assert [row["source"]["ip"] for row in by_rows] == ["b"]
    assert [row["failures"] for row in etl_state.rows("top", window, "--by", "failures")] == [60, 29, 1, 1]


def test_the_largest_parts(window: Pipeline, etl_state: Output) -> None:
    window.read([(str(number), 1, "x") for number in range(100)])

    rows = etl_state.rows("top", window, "--parts", "--by", "rows")

    assert sum(row["rows"] for row in rows) == 100
    assert len({row["part"] for row in rows}) == len(rows) > 8
    assert [row["rows"] for row in rows] == sorted((row["rows"] for row in rows), reverse=True)


def test_keys_that_are_not_stored_are_hashes(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, DEDUPE)
    pipeline.read([("a", 1, "x"), ("b", 2, "x")])
    pipeline.read([("a", 70, "x")])

    rows = etl_state.rows("top", pipeline)

    assert [(len(row["key_hash"]), row["rows"], row["bytes"]) for row in rows] == [(32, 2, 64), (32, 1, 32)]


def test_versions_that_are_kept(window: Pipeline, etl_state: Output) -> None:
    for second in (1, 2, 3, 95):
        window.read([("a", second, "x")])

    rows = etl_state.rows("versions", window)

    assert [(row["micro_batch"], row["rows"], row["files"]) for row in rows] == [(3, 1, 1), (2, 3, 3), (1, 2, 2)]
    assert [row["watermark"][14:19] for row in rows] == ["01:05", "59:33", "59:32"]
    assert all(row["step"] == "steps[1] window" and row["written"] > "2026" for row in rows)


# ── drop ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("emit", ["on_close", "on_change"])
def test_a_dropped_key_begins_again_and_others_go_on(emit: str, tmp_path: Path, etl_state: Output) -> None:
    window = Pipeline(tmp_path, WINDOW.rstrip() + f"\n    emit: {emit}\n")
    window.read([("a", 1, "x"), ("b", 2, "x"), (None, 2, "x")])
    window.read([("a", 3, "y"), ("b", 4, "x")])

    etl_state("drop", window, "window", "--key", "source.ip=a", "--yes")

    assert etl_state.err == "dropped 2 rows of steps[1] window\n"
    assert failures(etl_state.rows("show", window)) == [("00:00", "b", 2, 1), ("00:00", None, 1, 1)]
    etl_state("drop", window, "window", "--key", "source.ip", "--yes")
    assert failures(etl_state.rows("show", window)) == [("00:00", "b", 2, 1)]
    window.resume()
    window.read([("a", 5, "z"), ("b", 6, "x")])
    assert failures(etl_state.rows("show", window)) == [("00:00", "a", 1, 1), ("00:00", "b", 3, 1)]


def test_all_of_a_step_is_dropped_and_its_watermark_stays(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x"), ("a", 200, "x")])

    etl_state("drop", window, "window", "--yes")

    assert etl_state.rows("show", window) == []
    assert etl_state.rows("ls", window)[0]["watermark"][14:19] == "02:50"
    etl_state("drop", window, "window", "--yes")
    assert etl_state.err == "steps[1] window remembers nothing\n"


def test_a_dropped_key_of_dedupe_passes_again(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, DEDUPE)
    pipeline.read([("a", 1, "x"), ("b", 2, "x")])

    etl_state("drop", pipeline, "dedupe", "--key", "source.ip=a", "--yes")
    pipeline.resume()

    row = {"at": at(10), "user": "x"}
    results = pipeline.lane.run([{**row, "source.ip": "a", "_offset": 5}, {**row, "source.ip": "b", "_offset": 6}])
    assert [result["source.ip"] for result in results] == ["a"]


class JoinPipeline(Pipeline):
    """Logins and payments of a user in a room; the sides have other types of rooms."""

    def write(self, steps: str, name: str = "p.yaml") -> Path:
        path = self.folder / name
        fields = "at: timestamp, user: string"
        path.write_text(
            f"""
sources:
  login_log: {{type: file, path: logins}}
  payment_log: {{type: file, path: payments}}
streams:
  logins: {{from: login_log, steps: [{{type: json, fields: {{{fields}, room: int}}}}]}}
  payments: {{from: payment_log, steps: [{{type: json, fields: {{{fields}, place: double}}}}]}}
  paid: {{from: [logins, payments], steps: [{steps}]}}
sinks:
  out: {{from: paid, type: discard}}
"""
        )
        return path

    def events(self, *events: tuple[int, str | None, int | None, float]) -> list[dict[str, Any]]:
        """The results of a micro-batch with these events: side, user, room, seconds."""
        rows = [
            {
                SIDE: side,
                SIDE_TIME: at(second),
                OFFSET: number,
                **(
                    {"right.user": user, "right.place": room, "right.at": at(second)}
                    if side
                    else {"left.user": user, "left.room": room, "left.at": at(second)}
                ),
            }
            for number, (side, user, room, second) in enumerate(events)
        ]
        results = self.lane.run(rows)
        self.commit()
        return results


def test_keys_of_a_join_are_shown_and_dropped(tmp_path: Path, etl_state: Output) -> None:
    pipeline = JoinPipeline(tmp_path, "{type: join, kind: left, on: {user: user, room: place}, time: at, after: 10m}")
    pipeline.events((0, "ann", 1, 0), (0, "ann", 1, 1), (0, "bob", 2, 1), (0, None, 2, 1))
    pipeline.events((1, "ann", 1, 2))

    rows = etl_state.rows("top", pipeline, "--by", "rows")
    etl_state("drop", pipeline, "paid[0]", "--key", "user=ann", "--key", "room=1", "--yes")
    pipeline.resume()

    assert all(row["bytes"] < 80 * row["rows"] for row in rows)
    assert [(row["user"], row["room"], row["rows"]) for row in rows] == [("ann", 1.0, 3), ("bob", 2.0, 1), (None, 2.0, 1)]
    assert etl_state.err == "dropped 3 rows of paid[0] join\n"
    assert [(row["user"], row["room"]) for row in etl_state.rows("top", pipeline)] == [("bob", 2.0), (None, 2.0)]
    assert [row["user"] for row in pipeline.events((1, "ann", 1, 3), (1, "bob", 2, 3))] == ["bob"]


def test_a_micro_batch_that_was_not_committed_runs_again_without_the_key(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x"), ("b", 2, "x")])
    window.read([("a", 3, "x")])
    (window.commits / "1").unlink()

    etl_state("drop", window, "window", "--key", "source.ip=a", "--yes")

    assert window.manifests.versions() == [0]
    assert failures(etl_state.rows("show", window)) == [("00:00", "b", 1, 1)]


def test_nothing_is_dropped_without_a_yes(window: Pipeline, etl_state: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    window.read([("a", 1, "x")])
    asked = []

    def ask(question: str, err: bool) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("click.confirm", ask)
    etl_state("drop", window, "window", status=2)
    assert "there is no terminal to confirm on: give --yes" in etl_state.err
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    etl_state("drop", window, "window", status=1)

    assert asked == ["Drop 1 row of steps[1] window? They cannot be restored"]
    assert "nothing is dropped" in etl_state.err
    assert len(etl_state.rows("show", window)) == 1


def test_while_a_run_is_alive_nothing_changes(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 1, "x")])
    source = window.folder / "events.csv"
    source.write_text("at,source.ip,user\n2026-01-01T00:00:01Z,a,x\n")

    with lock_state(StateFolder(window.state)):
        for command in (["drop", "--yes"], ["import", str(source)]):
            etl_state(command[0], window, "window", *command[1:], status=1)
            assert "is in use by another run" in etl_state.err

    assert failures(etl_state.rows("show", window)) == [("00:00", "a", 1, 1)]


@pytest.mark.parametrize(
    ("steps", "words", "message"),
    [
        (WINDOW, ["--key", "user=x"], "--key: the key of steps[1] window has the fields source.ip; give each once"),
        (THROTTLE, ["--key", "source.ip=a"], "--key: steps[1] throttle remembers hashes of keys with times"),
        (WINDOW, ["--key", "source.ip=c", "--yes"], "steps[1] window remembers nothing of this key"),
    ],
)
def test_keys_that_cannot_be_dropped(steps: str, words: list[str], message: str, tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, steps)
    pipeline.read([("a", 1, "x")])

    etl_state("drop", pipeline, "steps[1]", *words, status=0 if "--yes" in words else 2)

    assert message in " ".join(etl_state.err.split())


# ── import ───────────────────────────────────────────────────────────────────────────────────────


def test_keys_that_are_lists(tmp_path: Path, etl_state: Output) -> None:
    over = "{type: over, keys: [tags], time: at, within: 1m, late: 0s, aggregates: {n: count(*)}}"
    pipeline = Pipeline(tmp_path, f"\n  - {{type: set, fields: {{tags: 'array(user)'}}}}\n  - {over}\n")
    rows = [{"source.ip": "a", "at": at(1), "user": "x", "tags": [tag], "_offset": at_} for at_, tag in enumerate("xxy")]
    pipeline.lane.run(rows)
    pipeline.commit()

    assert [row["rows"] for row in etl_state.rows("top", pipeline, "--by", "rows")] == [2, 1]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_imported_keys_are_known_to_dedupe(ending: str, tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(tmp_path, DEDUPE)
    pipeline.read([("c", 30, "x")])
    source = tmp_path / f"seen.{ending}"
    write(source, ending, [("a", 20), ("b", 29), ("b", 40)])

    etl_state("import", pipeline, "dedupe", str(source))
    pipeline.resume()

    assert etl_state.err == f"steps[1] dedupe remembers 3 events of {source}; 0 were too late\n"
    rows = [{"at": at(45), "source.ip": ip, "user": "x", "_offset": number} for number, ip in enumerate("abcd")]
    assert [row["source.ip"] for row in pipeline.lane.run(rows)] == ["d"]


def write(path: Path, ending: str, events: list[tuple[str, float]]) -> None:
    if ending == "csv":
        path.write_text("source.ip,at,more\n" + "".join(f"{ip},{at(second).isoformat()},1\n" for ip, second in events))
    elif ending == "jsonl":
        lines = [json.dumps({"source": {"ip": ip}, "at": at(second).isoformat()}) for ip, second in events]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table({"at": [at(second) for _, second in events], "source": [{"ip": ip} for ip, _ in events]}), path)


def test_imported_events_count_in_open_windows_and_closed_ones_are_late(window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 95, "x")])  # watermark: 65 s
    source = window.folder / "events.csv"
    source.write_text("at,source.ip,user\n" + "".join(f"{at(second).isoformat()},a,{second}\n" for second in (10, 59, 60, 100)))

    etl_state("import", window, "window", str(source))

    assert "remembers 2 events" in etl_state.err
    assert "2 were too late" in etl_state.err
    assert failures(etl_state.rows("show", window)) == [("01:00", "a", 3, 3)]
    etl_state("import", window, "window", str(source))
    assert failures(etl_state.rows("show", window)) == [("01:00", "a", 5, 3)]
    window.resume()
    window.read([("a", 101, "y")])
    assert failures(etl_state.rows("show", window)) == [("01:00", "a", 6, 4)]


def test_events_that_wait_are_imported(tmp_path: Path, etl_state: Output) -> None:
    pipeline = Pipeline(
        tmp_path, "\n  - {type: dedupe, keys: [source.ip], time: at, within: 1m, keep: last, count: n, late: 0s}\n"
    )
    source = tmp_path / "events.csv"
    source.write_text(f"at,source.ip\n{at(1).isoformat()},a\n{at(2).isoformat()},a\n")

    etl_state("import", pipeline, "dedupe", str(source))
    pipeline.lane.kept = pipeline.manifests.read(-1).stage(0).files
    pipeline.read([("a", 3, "x"), ("b", 70, "x")])

    assert [(row["n"], row["user"]) for row in pipeline.results] == [(3, "x")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.csv", "at,user\n2026-01-01T00:00:01Z,x\n", "lacks 'source.ip', which the step needs; its fields are at, user"),
        ("e.csv", "at,source.ip,user\nnever,a,x\n", "'never' in field 'at' is not a timestamp, such as 2026-11-20T05:55:00Z"),
        ("e.csv", "at,source.ip,user\n,a,x\n", "1 events have no 'at', which is their time"),
        ("e.txt", "", "a file ends with .parquet, .csv, .json, .jsonl or .ndjson, not with '.txt'"),
        ("e.parquet", "x", "cannot be read: "),
    ],
)
def test_events_that_cannot_be_imported(name: str, text: str, message: str, window: Pipeline, etl_state: Output) -> None:
    window.read([("a", 95, "x")])
    source = window.folder / name
    source.write_text(text)
    before = sorted(path.name for path in window.manifests.folder.iterdir())

    etl_state("import", window, "window", str(source), status=2 if name.endswith("txt") else 1)

    assert message in " ".join(etl_state.err.split())
    assert sorted(path.name for path in window.manifests.folder.iterdir()) == before


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_goes_on_with_imported_keys_and_with_empty_state(engine: Engine, etl_state: Output) -> None:
    pipeline = """
        source: {type: file, path: "{here}/in.jsonl"}
        steps:
          - {type: json, fields: {at: timestamp, user: string}}
          - {type: dedupe, keys: [user], time: at, within: 1h}
          - {type: window, time: at, size: 1d, aggregates: {n: count(*)}}
        sink: {type: file, path: "{here}/out.jsonl"}
        """
    file, folder = engine.etl.pipeline(pipeline), engine.etl.folder
    (folder / "seen.csv").write_text(f"at,user\n{at(-1800).isoformat()},root\n")
    etl_state.on(folder / "state", "import", file, "dedupe", str(folder / "seen.csv"))

    def passed(*events: tuple[float, str], **options: Any) -> int:
        """How many events have passed so far."""
        with (folder / "in.jsonl").open("a") as lines:
            lines.writelines(json.dumps({"at": at(second).isoformat(), "user": user}) + "\n" for second, user in events)
        engine.service(file, once=True, **options).finished()
        return int(json.loads(etl_state.on(folder / "state", "show", file, "window", "--format", "json"))["n"])

    assert passed((0, "root"), (1, "eve")) == 1
    file = engine.etl.pipeline(pipeline.replace("within: 1h", "within: 2h"))
    with pytest.raises(EtlError, match=re.escape("run it once with --new-state 'steps-window/steps[1] dedupe', which")):
        passed()
    assert passed((2, "root"), (3, "eve"), new_state=("dedupe",)) == 3
    assert passed((4, "root")) == 3
