"""The command `etl dead`: dead letters of a pipeline, seen, exported, replayed and dropped."""

from __future__ import annotations

import fcntl
import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from running import Engine

from etl.cli.main import main
from etl.running.dead_letters import replay_run

PIPELINE = """
    name: shop
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+)$']}
      - {type: convert, fields: {n: int}}
    sink: {type: file, path: "{here}/out.jsonl"}
"""


def written(folder: Path, *letters: dict[str, Any]) -> None:
    """Dead letters as a run leaves them."""
    common = {"time": "2026-01-02T03:04:05.000000Z", "pipeline": "shop", "at": "steps[0] regex", "code": "no-match"}
    rest = {"reason": "does not match", "source": "main", "partition": "in.log#1", "offset": 0}
    (folder / "state").mkdir()
    text = "".join(json.dumps({**common, **rest, **letter}) + "\n" for letter in letters)
    (folder / "state" / "dead_letters.jsonl").write_text(text)


class Dead:
    """Calls the command in this process."""

    def __init__(self, folder: Path, engine: Engine | None, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._engine, self._capsys = folder, engine, capsys
        self.file = folder / "pipeline.yaml"
        self.file.write_text(PIPELINE.replace("{here}", str(folder)).replace("\n    ", "\n"))
        self.status = 0
        self.err = ""

    def __call__(self, command: str, *words: object) -> str:
        self._capsys.readouterr()
        shared = self._engine.shared if self._engine else None
        with chdir(self.folder), pytest.raises(SystemExit) as ended:
            main(["dead", command, str(self.file), "--state", str(self.folder / "state"), *map(str, words)], shared)
        self.status = int(ended.value.code or 0)
        out, self.err = self._capsys.readouterr()
        return out

    def rows(self, command: str, *words: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self(command, "--format", "json", *words).splitlines()]


@pytest.fixture
def dead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Dead:
    return Dead(tmp_path, None, capsys)


def test_letters_are_counted_by_where_and_why(dead: Dead, tmp_path: Path) -> None:
    other = {"at": "sink main", "code": "too-large", "reason": "has 9 bytes"}
    written(tmp_path, {"event": "a"}, {"event": "b"}, {"event": "c", **other}, {"event": "d", **other, "reason": "has 8 bytes"})

    rows = dead.rows("count")

    assert [(row["events"], row["at"], row["code"], row["reasons"], row["example"]) for row in rows] == [
        (2, "steps[0] regex", "no-match", 1, "a"),
        (2, "sink main", "too-large", 2, "c"),
    ]
    assert "4 dead letters" in dead.err


@pytest.mark.parametrize(
    ("options", "events"),
    [
        ((), ["a", "b", "c"]),
        (("--at", "sink"), ["c"]),
        (("--at", "sink main"), ["c"]),
        (("--at", "sink mai"), []),  # a whole name is this sink alone, not one that begins with it
        (("--code", "no-match"), ["a", "b"]),
        (("--reason", "large"), ["c"]),
        (("--text", "b"), ["b"]),
        (("--since", "2026-01-03"), ["b", "c"]),
        (("--until", "2026-01-03T00:00Z"), ["a"]),
        (("--where", "offset = 5 or event = 'a'"), ["a", "b"]),
        (("--limit", "2"), ["b", "c"]),
        (("--code", "no-match", "--text", "c"), []),
    ],
)
def test_options_choose_letters(dead: Dead, tmp_path: Path, options: tuple[str, ...], events: list[str]) -> None:
    later = {"time": "2026-01-03T00:00:00.000000Z"}
    last = {"event": "c", "at": "sink main", "code": "x", "reason": "too large", **later}
    written(tmp_path, {"event": "a"}, {"event": "b", "offset": 5, **later}, last)

    assert [row["event"] for row in dead.rows("show", *options)] == events


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--since", "yesterday"), "is not a time such as 2026-01-31"),
        (("--where", "evnt = 'a'"), "evnt"),
    ],
)
def test_wrong_options_say_what_is_accepted(dead: Dead, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    written(tmp_path, {"event": "a"})

    dead("show", *options)

    assert (dead.status, message in dead.err) == (2, True)


def test_texts_cannot_control_the_terminal(dead: Dead, tmp_path: Path) -> None:
    written(tmp_path, {"event": "a\x1b[31mb\nc", "reason": "has \x07"}, {"event": "\x9b1m\x7f", "reason": None})

    out = dead("show")

    assert "a·[31mb·c" in out
    assert "has ·" in out
    assert all(one.isprintable() for text in (out, dead("show", "--format", "json")) for one in text.splitlines())


def test_letters_are_exported_whole_or_as_lines(dead: Dead, tmp_path: Path) -> None:
    written(tmp_path, {"event": "a b"}, {"event": "two\nlines"})

    dead("export", "out.log")
    assert (tmp_path / "out.log").read_text() == "a b\n"
    assert "1 are left out" in dead.err
    dead("export", "out.jsonl")
    assert [json.loads(line)["event"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == ["a b", "two\nlines"]
    dead("export", "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("event").to_pylist() == ["a b", "two\nlines"]
    dead("export", "out.log")
    assert (dead.status, "out.log exists already: choose another name, or replace it with --force" in dead.err) == (2, True)
    dead("export", "out.log", "--force")
    assert dead.status == 0
    dead("export", "out.xml")
    assert dead.status == 2


def test_dropped_letters_are_not_shown_again_and_a_settled_file_goes(dead: Dead, tmp_path: Path) -> None:
    written(tmp_path, {"event": "a"}, {"event": "b"})

    dead("drop", "--text", "a", "--yes")
    assert [row["event"] for row in dead.rows("show")] == ["b"]
    dead("count")
    assert "1 dead letter; 1 more are replayed or dropped" in dead.err

    dead("drop", "--yes")
    assert not (tmp_path / "state" / "dead_letters.jsonl").exists()
    dead("count")
    assert "no dead letters" in dead.err


def test_while_a_run_is_alive_nothing_is_dropped_or_replayed(dead: Dead, tmp_path: Path) -> None:
    written(tmp_path, {"event": "a"})

    with (tmp_path / "state" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (("drop", "--yes"), ("replay",)):
            dead(*command)
            assert (dead.status, "stop that run" in dead.err) == (1, True)


def test_a_folder_without_state_is_named(dead: Dead, tmp_path: Path) -> None:
    dead("count")

    assert (dead.status, f"there is no state in {tmp_path}/state" in dead.err) == (1, True)


def test_letters_in_another_system_are_not_read(dead: Dead, tmp_path: Path) -> None:
    written(tmp_path)
    dead.file.write_text(dead.file.read_text() + "dead_letters: {type: console}\n")

    dead("count")

    assert (dead.status, "local files of JSON lines" in dead.err) == (1, True)


@pytest.fixture
def on_spark(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Dead:
    return Dead(tmp_path, engine, capsys)


def numbers(folder: Path) -> list[int]:
    path = folder / "out.jsonl"
    return [json.loads(line)["n"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.spark
def test_letters_are_replayed_once_and_what_fails_again_keeps_its_history(
    engine: Engine, on_spark: Dead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.log").write_text("1\n2 x\nnone\n3\n99999999999\n")
    engine(PIPELINE)
    assert [row["events"] for row in on_spark.rows("count")] == [2, 1]
    on_spark.file.write_text(on_spark.file.read_text().replace("'^(?<n>[0-9]+)$'", "'^(?<n>[0-9]+) .*$', '^(?<n>[0-9]+)$'"))

    with monkeypatch.context() as patch:  # as if it was killed after the last commit
        patch.setattr(replay_run, "end_portion", lambda portion: (_ for _ in ()).throw(OSError("killed")))
        on_spark("replay", "--at", "regex")
    assert (on_spark.status, numbers(tmp_path)) == (1, [1, 3, 2])
    command = f"etl dead replay {on_spark.file} --state {tmp_path / 'state'}"
    note = f"note: a replay of 2 dead letters did not end; when this run has ended, `{command}` finishes it"
    assert note in engine.run(on_spark.file, "--once").err

    on_spark("replay", "--code", "no-such-code")
    assert "finishing an earlier replay of 2 letters" in on_spark.err
    assert numbers(tmp_path) == [1, 3, 2]
    assert "did not end" not in engine.run(on_spark.file, "--once").err
    on_spark("replay", "--at", "regex")
    letters = {row["event"]: row for row in on_spark.rows("show")}
    none = letters["none"]
    assert [(one["at"], one["code"]) for one in none["before"]] == [("steps[0] regex", none["code"])] * 2
    assert numbers(tmp_path) == [1, 3, 2]

    with (tmp_path / "in.log").open("a") as more:
        more.write("4\n")
    engine(on_spark.file.read_text())
    assert numbers(tmp_path) == [1, 3, 2, 4]

    on_spark("drop", "--yes")
    assert (list(tmp_path.rglob("*.arrow")), on_spark.rows("show")) == ([], [])
